"""The Python interface: sessions, profiles, selections, without a notebook."""

from workbench.api.opening import open  # noqa: A004 - workbench.open reads well, and shadows nothing here
from workbench.api.profile import SessionProfile
from workbench.api.session import Session

__all__ = ["Session", "SessionProfile", "open"]
