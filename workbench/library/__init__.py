"""The record library: winners of many sessions, found again by kernel and target. What is found is a candidate, never a result."""

from workbench.library.collecting import collect
from workbench.library.shelf import Library, Winner, library_place

__all__ = ["Library", "Winner", "collect", "library_place"]
