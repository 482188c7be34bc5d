"""The session directory."""

from workbench.session.directory import SessionDirectory, default_path

__all__ = ["SessionDirectory", "default_path"]
