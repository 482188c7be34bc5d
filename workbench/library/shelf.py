"""The library's folder: for each target and kernel a small MetaSchedule database with a few winners, and what is known of them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workbench.errors import EnvironmentFault, SessionError
from workbench.escaping import plain
from workbench.exchange.records import write_records
from workbench.records.decode import DecodeError, decode
from workbench.regular_files import reader
from workbench.tuning_database import TuningRecord, decisive, read_database

MOST_WINNERS = 4
"""Winners that are kept of one kernel on one target: those with the largest gains."""

_ABOUT = "winners.json"
_FORMAT = "workbench-library"
_VERSION = 1
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Winner:
    """A schedule that was faster than the untuned kernel in some session.

    Attributes:
        kernel_hash: Structural hash of the kernel.
        kernel: Its name there.
        target: Label of the target.
        model: The model that it was tuned for.
        shapes: Shapes of inputs, then outputs.
        baseline_us: Time of the untuned kernel in the finals.
        winner_us: Time of the schedule.
        conditions: Digest of what made the two comparable.
        tvm: Version of TVM.
        trial: Number of the trial there.
        decisions: Its sampling decisions.
        trace_digest: Tells its trace from others.
        added_at: Unix time.
    """

    kernel_hash: str
    kernel: str
    target: str
    model: str
    shapes: tuple[str, ...]
    baseline_us: float
    winner_us: float
    conditions: str
    tvm: str
    trial: int
    decisions: tuple[str, ...]
    trace_digest: str
    added_at: float

    @property
    def gain(self) -> float:
        """How many times as fast it was there."""
        return self.baseline_us / self.winner_us if self.winner_us > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {**asdict(self), "shapes": list(self.shapes), "decisions": list(self.decisions), "gain": self.gain}


@dataclass(frozen=True)
class _About:
    format: str
    version: int
    winners: tuple[Winner, ...]


def library_place(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the library of this user lies: the place for data of the XDG base directory specification."""
    given = environment.get("XDG_DATA_HOME", "")
    base = Path(given) if given and Path(given).is_absolute() else Path.home() / ".local" / "share"
    return base / "tvm-workbench" / "library"


def digest_of(text: str) -> str:
    """A name for a folder that stands for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


class Library:
    """The winners of one user, or of a team that shares a folder.

    Args:
        place: Its folder; None takes `library_place`. It is made when something is added.
    """

    def __init__(self, place: Path | None = None) -> None:
        self.place = (library_place() if place is None else place).absolute()

    def add(self, winner: Winner, record: TuningRecord) -> bool:
        """Keep a winner, if it is among the best few of its kernel and target; returns whether it is.

        Args:
            winner: What is known of it.
            record: Its schedule, with the kernel and the target.

        Raises:
            EnvironmentFault: The folder cannot be written.
        """
        folder = self._folder(record.target or {}, winner.kernel_hash)
        try:
            with self._locked():
                known = self._with_records(folder)
                known[winner.trace_digest] = (winner, record)
                best = dict(sorted(known.items(), key=lambda item: -item[1][0].gain)[:MOST_WINNERS])
                if winner.trace_digest in best:
                    self._replace(folder, list(best.values()))
                return winner.trace_digest in best
        except OSError as error:
            raise EnvironmentFault(
                f"The library in {plain(str(self.place), 120)} cannot be written: {error.strerror or error}.", "Check its permissions and free space."
            ) from error

    def all(self) -> list[Winner]:
        """All winners, the largest gains first.

        Raises:
            SessionError: A file of the library is damaged.
        """
        return sorted((winner for path in sorted(self.place.glob(f"*/*/{_ABOUT}")) for winner in _read(path)), key=lambda winner: -winner.gain)

    def find(self, target: Mapping[str, Any], kernel_hash: str) -> tuple[Path | None, tuple[Winner, ...]]:
        """The database with the winners of a kernel on a target, and the winners; None and nothing if there are none."""
        folder = self._folder(target, kernel_hash)
        if not (folder / _ABOUT).is_file():
            return None, ()
        return folder, _read(folder / _ABOUT)

    def _folder(self, target: Mapping[str, Any], kernel_hash: str) -> Path:
        return self.place / digest_of(decisive(target)) / digest_of(kernel_hash)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time."""
        self.place.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(self.place / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _with_records(self, folder: Path) -> dict[str, tuple[Winner, TuningRecord]]:
        """The winners of a kernel with their schedules; one whose schedule is gone is forgotten."""
        if not (folder / _ABOUT).is_file():
            return {}
        records = {digest_of(record.trace_json): record for record in read_database(folder).records}
        return {winner.trace_digest: (winner, records[winner.trace_digest]) for winner in _read(folder / _ABOUT) if winner.trace_digest in records}

    def _replace(self, folder: Path, entries: list[tuple[Winner, TuningRecord]]) -> None:
        """Write the folder anew; a crash in between loses the winners of this kernel at most."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self.place, prefix=".new-"))
        try:
            write_records(scratch, [record for _, record in entries])
            about = {"format": _FORMAT, "version": _VERSION, "winners": [winner.to_dict() for winner, _ in entries]}
            (scratch / _ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
            scratch.chmod(0o755)
            if folder.exists():
                shutil.rmtree(folder)
            scratch.rename(folder)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise


def _read(path: Path) -> tuple[Winner, ...]:
    """The winners in a file that somebody may have edited."""
    try:
        with reader(path) as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise DecodeError("it is too long")
        about = decode(_About, json.loads(text))
    except OSError as error:
        raise EnvironmentFault(f"{plain(str(path), 160)} cannot be read: {error.strerror}.", "Check its permissions.") from error
    except (ValueError, RecursionError) as error:
        raise SessionError(f"{plain(str(path), 160)} is damaged: {plain(str(error), 120)}.", "Remove its folder.") from error
    if about.format != _FORMAT or about.version > _VERSION:
        raise SessionError(f"{plain(str(path), 160)} was written by a newer workbench.", "Upgrade tvm-workbench.")
    return about.winners
