"""What the record library has for a session's kernels, and how a search gets it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from workbench.errors import SessionError
from workbench.library import Library, Winner
from workbench.records.decode import DecodeError
from workbench.records.target import TargetSpec
from workbench.session import SessionDirectory

_NO_LIBRARY = "Remove its folder, or leave the library out: --no-library, library=False."


def library_winners(directory: SessionDirectory, library: Library) -> dict[str, tuple[Winner, ...]]:
    """Winners of other sessions for the same kernels on the same target, by task.

    Raises:
        SessionError: The session or the library is damaged.
    """
    return {task: winners for task, (_, winners) in _found(directory, library).items()}


def library_databases(directory: SessionDirectory, library: Library, tasks: Collection[str]) -> tuple[Path, ...]:
    """The databases with those winners: places for ``transfer``, whose schedules a search measures before it believes them."""
    return tuple(dict.fromkeys(place for task, (place, _) in _found(directory, library).items() if task in tasks))


def _found(directory: SessionDirectory, library: Library) -> dict[str, tuple[Path, tuple[Winner, ...]]]:
    with directory.store() as store:
        stored, hashes = store.manifest().get("target"), store.structural_hashes()
    if stored is None:
        return {}
    try:
        target = TargetSpec.from_dict(stored).options
    except DecodeError as error:
        raise SessionError("The session's target is damaged.", "Profile the model again.") from error
    try:
        found = {task: library.find(target, kernel_hash) for task, kernel_hash in hashes.items()}
    except SessionError as error:
        raise SessionError(error.message, _NO_LIBRARY) from error
    return {task: (place, winners) for task, (place, winners) in found.items() if place is not None and winners}
