"""Which session a command means when it is given none: the one worked on last."""

from __future__ import annotations

from pathlib import Path

from workbench.cli.output import note
from workbench.errors import SessionError
from workbench.records.profile import Profile
from workbench.session import SessionDirectory, latest_session

_HOW_TO_PROFILE = "Make one with: workbench profile MODEL."


def find_session(path: str | None, *, quiet: bool) -> SessionDirectory:
    """The session a command works on.

    Raises:
        SessionError: There is none.
    """
    if path is not None:
        return SessionDirectory.open(Path(path))
    latest = latest_session()
    if latest is None:
        raise SessionError("There is no session in workbench-sessions.", f"{_HOW_TO_PROFILE} Or name one: --session DIR.")
    note(f"session: {latest}", quiet=quiet)
    return SessionDirectory.open(latest)


def profile_of(directory: SessionDirectory) -> Profile:
    """The profile that a session holds.

    Raises:
        SessionError: It holds none yet.
    """
    with directory.store() as store:
        profile = store.profile()
    if profile is None:
        raise SessionError(f"The session in {directory.path} has no profile yet.", _HOW_TO_PROFILE)
    return profile
