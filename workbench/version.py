"""The version of the workbench, for whoever must not import all of it."""

__version__ = "0.1.0"
