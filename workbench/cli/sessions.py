"""Which session a command means when it is given none: the one worked on last."""

from __future__ import annotations

from pathlib import Path

from workbench.cli.output import note
from workbench.errors import SessionError
from workbench.escaping import plain
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
    directory = SessionDirectory.open(latest)
    note_session(directory, quiet=quiet)
    return directory


def note_session(directory: SessionDirectory, *, quiet: bool) -> None:
    """Say which session a command used, as seen from the current folder."""
    path, here = directory.path, Path.cwd()
    note(f"session: {path.relative_to(here) if path.is_relative_to(here) else path}", quiet=quiet)


def profile_of(directory: SessionDirectory) -> Profile:
    """The profile that a session holds.

    Raises:
        SessionError: It holds none yet.
    """
    with directory.store() as store:
        profile = store.profile()
    if profile is None:
        raise SessionError(f"The session in {plain(str(directory.path), 120)} has no profile yet.", _HOW_TO_PROFILE)
    return profile
