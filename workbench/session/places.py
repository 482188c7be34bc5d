"""Where sessions lie: the place of one that the user gave none, and the one that was used last."""

from __future__ import annotations

import contextlib
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.escaping import file_stem
from workbench.store import Store

SESSIONS = Path("workbench-sessions")
DATABASE = "session.sqlite"


def default_path(model: str, target_label: str) -> Path:
    """Where a session goes that the user gave no place: ``workbench-sessions/<model>-<target>``."""
    return SESSIONS / f"{file_stem(model)}-{file_stem(target_label)}"


def latest_session(sessions: Path = SESSIONS) -> Path | None:
    """The session under `sessions` that was profiled or selected from last; None if there is none."""
    found = []
    for path in sessions.glob(f"*/{DATABASE}"):
        with contextlib.suppress(OSError):  # one that may not be looked at, or has just gone
            found.append((_used_at(path), path.stat().st_mtime, path.parent))
    return max(found)[2] if found else None


def is_session(path: Path) -> bool:
    """True if a path leads to a session directory."""
    try:
        return (path / DATABASE).is_file()
    except (OSError, ValueError):
        return False  # no name that this file system can have


def _used_at(database: Path) -> float:
    """When a session was used last; 0 for one that cannot be read, which says so when it is opened."""
    try:
        with Store(database) as store:
            return store.used_at()
    except WorkbenchError:
        return 0.0
