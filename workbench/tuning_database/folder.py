"""The two files of a database in their folder: opened without surprises, locked, and replaced together."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from workbench.errors import EnvironmentFault, InputError
from workbench.escaping import plain
from workbench.regular_files import NotRegularError, open_regular

WORKLOAD_FILE = "database_workload.json"
RECORD_FILE = "database_tuning_record.json"
REPAIRED = ".repaired"  # beside its file while a repair is under way
ORIGINAL = ".original"
SET_ASIDE = ".set-aside"

_TRIES = 20


def shown(path: Path) -> str:
    """A path for a message."""
    return plain(str(path), 120)


def open_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file; anything else is refused without being followed, waited for or changed.

    Raises:
        FileNotFoundError: There is none.
        InputError: It is a folder, a link, a pipe or a device, or must not be opened.
    """
    try:
        return open_regular(path, flags)
    except FileNotFoundError:
        raise
    except NotRegularError as error:
        raise InputError(f"{shown(path)} is not a regular file.", "Give a folder with a tuning database.") from error
    except OSError as error:
        reason = "is a link" if error.errno == errno.ELOOP else f"cannot be opened: {error.strerror}"
        raise InputError(f"{shown(path)} {reason}.", "Give a folder with a tuning database of regular files that you may read.") from error


@contextlib.contextmanager
def open_pair(folder: Path) -> Iterator[tuple[BinaryIO | None, BinaryIO | None]]:
    """The workload and the record file for reading, of one state of the database; None for a file that is missing.

    The record file comes first: every line that it has then finds its workload in the workload file, which a writer extends before.
    """
    for _ in range(_TRIES):
        interrupted = _is_interrupted(folder)
        record_path = folder / (RECORD_FILE + REPAIRED if interrupted else RECORD_FILE)
        workload_path = folder / (WORKLOAD_FILE + REPAIRED)
        if not interrupted or not os.path.lexists(workload_path):
            workload_path = folder / WORKLOAD_FILE
        with contextlib.ExitStack() as stack:
            records, workloads = (_reader(stack, path) for path in (record_path, workload_path))
            if _is_still(record_path, records) and _is_interrupted(folder) == interrupted:
                yield workloads, records
                return
    raise EnvironmentFault(f"The database in {shown(folder)} is replaced again and again.", "Try again when nothing else writes there.")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The only one who writes in the folder.

    Raises:
        InputError: The folder is missing, or another process writes in it.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"{shown(folder)} is no folder that can be opened: {error.strerror}.", "Give a folder.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"Another process writes the database in {shown(folder)}.", "Wait for it, or give another folder.") from error
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Say what an error of the file system means."""
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(
            f"The database in {shown(folder)} cannot be read or written: {error.strerror or plain(str(error))}.",
            "Check its permissions and free space.",
        ) from error


def append(descriptor: int, data: bytes) -> None:
    """Write all of it or nothing."""
    start = os.lseek(descriptor, 0, os.SEEK_END)
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, start)
        raise


def finish_interrupted(folder: Path) -> None:
    """Finish, or undo, a replacement that a crash cut short."""
    if _is_interrupted(folder):
        _move_repaired(folder)
    for name in (WORKLOAD_FILE, RECORD_FILE):
        (folder / (name + REPAIRED)).unlink(missing_ok=True)


def holds(path: Path, lines: list[str]) -> bool:
    """Whether a file holds exactly these lines."""
    with os.fdopen(open_file(path), "rb") as file:
        return all(file.read(len(raw)) == raw for raw in (line.encode() + b"\n" for line in lines)) and not file.read(1)


def replace_pair(folder: Path, contents: dict[str, list[str]], *, renumbered: bool) -> None:
    """Write new lines over files of the database; the first original of each is kept.

    A crash leaves the old pair or the new one. Where the workloads got other numbers, old records beside new workloads would point to
    wrong ones: the old record file then goes first, and who comes next finds what is to be finished.
    """
    for name, lines in contents.items():
        _write(folder / (name + REPAIRED), lines)
        if (folder / name).exists() and not os.path.lexists(folder / (name + ORIGINAL)):
            part = folder / (name + ORIGINAL + ".part")
            part.unlink(missing_ok=True)
            shutil.copyfile(folder / name, part, follow_symlinks=False)
            part.replace(folder / (name + ORIGINAL))
    _sync_folder(folder)
    if renumbered:
        (folder / RECORD_FILE).unlink(missing_ok=True)
    _move_repaired(folder)


def _move_repaired(folder: Path) -> None:
    for name in (WORKLOAD_FILE, RECORD_FILE):
        with contextlib.suppress(FileNotFoundError):
            (folder / (name + REPAIRED)).replace(folder / name)
        _sync_folder(folder)


def _write(path: Path, lines: list[str]) -> None:
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        file.writelines(line.encode() + b"\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_interrupted(folder: Path) -> bool:
    return os.path.lexists(folder / (RECORD_FILE + REPAIRED)) and not os.path.lexists(folder / RECORD_FILE)


def _reader(stack: contextlib.ExitStack, path: Path) -> BinaryIO | None:
    try:
        return stack.enter_context(os.fdopen(open_file(path), "rb"))
    except FileNotFoundError:
        return None


def _is_still(path: Path, file: BinaryIO | None) -> bool:
    """Whether the path still leads to the file that was opened."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return file is None
    return file is not None and os.path.samestat(status, os.fstat(file.fileno()))
