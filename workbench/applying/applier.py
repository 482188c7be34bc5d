"""Applies choices: checks each kernel alone, builds the model, verifies it, times it beside the untuned one, and takes back what is slower there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.applying.choice import Choice
from workbench.applying.settled import NOTHING_SETTLED, Settled
from workbench.applying.timing import is_too_slow, rows_timing, total_timing
from workbench.applying.verifying import Verifier
from workbench.engines.apply_protocol import Application, AppliedSchedule, RecordedSchedule, Round
from workbench.engines.search_protocol import Failed
from workbench.errors import InternalError
from workbench.escaping import plain
from workbench.records.comparison import BASELINE, FASTER, RECORD, Comparison, KernelComparison, Timing, Verification
from workbench.records.profile import Profile
from workbench.records.trial import WRONG_RESULT

_ROUNDS_S = 6.0
_MOST_ROUNDS = 30
_LEAST_ROUNDS = 5
_LEAST_OF_SLOW = 3
_SLOW_ROUND_S = 2.0
_ROUND_US = 1e4
_MOST_RUNS = 200
_REASON = 300

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Outcome:
    """What applying gave.

    Attributes:
        comparison: The two models; `applied` says whether the model may be used.
        folder: Where the model with schedules lies; None if it was not built.
        applied: The kernels that really have their schedule, by name.
        used: The choices behind them.
    """

    comparison: Comparison
    folder: Path | None
    applied: Mapping[str, AppliedSchedule]
    used: tuple[Choice, ...]


class Applier:
    """Applies the choices for one profile.

    Args:
        application: Builds and runs both models.
        profile: The profile.
        choices: One for each of its tasks.
        verifier: Says whether what was built is right.
        folder: Where models are written, each into a folder of its own.
        rounds: Measured rounds; None lets the time of a run decide.
        on_progress: Told what is done; what it raises ends the work.
        already: What an earlier apply of these choices has settled.
    """

    def __init__(
        self,
        application: Application,
        profile: Profile,
        choices: Sequence[Choice],
        verifier: Verifier,
        *,
        folder: Path,
        rounds: int | None,
        on_progress: Progress,
        already: Settled = NOTHING_SETTLED,
    ) -> None:
        self._application = application
        self._profile = profile
        self._choices = {choice.task.task: choice for choice in choices}
        self._named = {choice.task.task: choice.schedule.fingerprint for choice in choices if choice.schedule is not None}
        self._already = already
        self._slower: set[str] = set()
        self._verifier = verifier
        self._folder = folder
        self._rounds = rounds
        self._on_progress = on_progress
        self._builds = 0

    def run(self) -> Outcome:
        """Apply; every kernel that falls back makes another build."""
        self._drop_slower(self._already.slower)
        self._check_alone()
        while True:
            folder, applied = self._built()
            if isinstance(applied, Failed):
                failed = Verification(verified=False, seeds=self._verifier.seeds, reason=plain(_first_and_last(applied.error), 600))
                return self._outcome(failed, [], None, {})
            if self._drop(dict.fromkeys(self._missing(applied), _NOT_IN_MODULE)):
                continue
            verification = self._verifier.verify(self._application, self._used_kernels())
            if not verification.verified:
                return self._outcome(verification, [], folder, applied)
            rounds, slow = self._compared()
            if not self._drop_slower(slow):
                return self._outcome(verification, rounds, folder, applied)

    def _check_alone(self) -> None:
        """Have each chosen kernel checked alone; those that fail keep their baseline."""
        chosen = [choice for choice in self._choices.values() if choice.schedule is not None]
        for choice in chosen:
            if choice.schedule is None:
                continue
            self._on_progress(f"check: {choice.task.name}", 0.0)
            found = self._application.check(choice.task.name, choice.schedule)
            if isinstance(found, Failed):
                word = "wrong" if found.status == WRONG_RESULT else found.status
                self._drop({choice.task.task: f"{word}: trial {choice.trial}: {plain(_first_and_last(found.error), _REASON)}"})

    def _built(self) -> tuple[Path, dict[str, AppliedSchedule] | Failed]:
        folder = self._folder / f"model-{self._builds}"  # one of its own: a library that is loaded stays as it is
        self._builds += 1
        folder.mkdir()
        return folder, self._application.build(self._used_kernels(), folder)

    def _used_kernels(self) -> dict[str, RecordedSchedule]:
        """The schedule of every kernel that has one, those of equal structure included."""
        return {kernel: choice.schedule for choice in self._choices.values() if choice.schedule is not None for kernel in choice.task.kernels}

    def _missing(self, applied: Mapping[str, AppliedSchedule]) -> list[str]:
        """Tasks with a kernel whose schedule is not in the module."""
        chosen = (choice for choice in self._choices.values() if choice.schedule is not None)
        return [choice.task.task for choice in chosen if any(kernel not in applied for kernel in choice.task.kernels)]

    def _drop(self, reasons: Mapping[str, str]) -> bool:
        """Have tasks keep their baselines; True if there are any."""
        for task, why in reasons.items():
            if self._choices[task].schedule is None:
                raise InternalError(f"The task {plain(task)} keeps its baseline already.")
            self._choices[task] = replace(self._choices[task], schedule=None, why=why)
        return bool(reasons)

    def _drop_slower(self, reasons: Mapping[str, str]) -> bool:
        """Have tasks keep their baselines because their records are slower in the model; True if there are any."""
        self._slower.update(reasons)
        return self._drop(reasons)

    def _compared(self) -> tuple[list[Round], dict[str, str]]:
        """Rounds of both models, and why tasks go back to their baselines: they are slower in two batches of rounds, one after the other."""
        first = list(self._timed())
        slow = self._too_slow(first)
        if not slow:
            return first, {}
        second = list(self._timed())
        confirmed = self._too_slow(second)
        return [*first, *second], {task: confirmed[task] for task in slow if task in confirmed}

    def _too_slow(self, rounds: Sequence[Round]) -> dict[str, str]:
        """The tasks that are slower with their schedules, or all of them if the whole model is, and why they go back; what is settled stays."""
        chosen = [choice for choice in self._choices.values() if choice.schedule is not None and choice.task.task not in self._already.kept]
        found = {choice.task.task: rows_timing(rounds, choice.task.rows, changed=True) for choice in chosen}
        slow = {
            choice.task.task: f"slower in the model: trial {choice.trial}: {found[choice.task.task].text}"
            for choice in chosen
            if is_too_slow(found[choice.task.task])
        }
        whole = total_timing(rounds, changed=bool(self._used_kernels()))
        if not slow and is_too_slow(whole):
            why = f"the whole with all schedules is {whole.text}"
            return {choice.task.task: f"slower in the model: trial {choice.trial}: {why}" for choice in chosen}
        return slow

    def _timed(self) -> Iterator[Round]:
        """Rounds; the first one, which warms up and tells how long a run takes, is left out."""
        if self._application.unrunnable:
            return
        self._on_progress("compare (warm up)", 0.0)
        warm = _raised(self._application.time_round(runs=1, tuned_first=False))
        runs = max(1, min(_MOST_RUNS, round(_ROUND_US / max(*warm.total_us, 1.0))))
        started = time.monotonic()
        done = 0
        while not self._is_enough(done, time.monotonic() - started):
            self._on_progress(f"compare (round {done + 1})", 0.0)
            yield _raised(self._application.time_round(runs=runs, tuned_first=done % 2 == 1))
            done += 1

    def _is_enough(self, done: int, seconds: float) -> bool:
        if self._rounds is not None:
            return done >= self._rounds
        is_slow = done > 0 and seconds / done > _SLOW_ROUND_S
        least = _LEAST_OF_SLOW if is_slow else _LEAST_ROUNDS
        return done >= _MOST_ROUNDS or (done >= least and seconds > _ROUNDS_S)

    def _outcome(self, verification: Verification, rounds: Sequence[Round], folder: Path | None, applied: Mapping[str, AppliedSchedule]) -> Outcome:
        used = tuple(choice for choice in self._choices.values() if choice.schedule is not None)
        total = total_timing(rounds, changed=bool(used))
        comparison = Comparison(
            model=self._profile.model,
            engine=self._profile.engine,
            target=self._profile.target,
            total=total,
            kernels=tuple(self._kernels(rounds, applied)),
            verification=verification,
            applied=bool(verification.verified),
            applied_at=time.time(),
            rounds=len(rounds),
            notes=_notes(total, used, verification),
        )
        return Outcome(comparison, folder, applied, used)

    def _kernels(self, rounds: Sequence[Round], applied: Mapping[str, AppliedSchedule]) -> Iterator[KernelComparison]:
        """The kernels that rows call, in the order of their first row."""
        rows: dict[str, list[int]] = {}
        of_kernel = {row.kernel: row.task for row in self._profile.kernel_rows}
        for row in self._profile.kernel_rows:
            if row.kernel is not None:
                rows.setdefault(row.kernel, []).append(row.row)
        for kernel, places in rows.items():
            choice = self._choices[str(of_kernel[kernel])]
            found = rows_timing(rounds, places, changed=choice.schedule is not None)
            yield KernelComparison(
                **vars(found),
                kernel=kernel,
                task=choice.task.task,
                name=choice.task.name,
                weight=len(places),
                rows=tuple(places),
                used=BASELINE if choice.schedule is None else RECORD,
                trial=None if choice.schedule is None else choice.trial,
                considered=choice.trial,
                considered_fingerprint=self._named.get(choice.task.task, ""),
                was_slower=choice.task.task in self._slower,
                why=choice.why,
                fingerprint=applied[kernel].fingerprint if kernel in applied else "",
            )


_NOT_IN_MODULE = "rejected: the module that was built does not have its schedule"


def _raised(found: Round | Failed) -> Round:
    """The round.

    Raises:
        InternalError: Both models ran before, and do not run now.
    """
    if isinstance(found, Failed):
        raise InternalError(f"The models ran, and then could not be timed: {plain(_first_and_last(found.error), 400)}", "Try again.")
    if not all(math.isfinite(time_us) for time_us in (*found.total_us, *found.calls_us[0], *found.calls_us[1])):
        raise InternalError("A measured time is no number.", "Try again.")
    return found


def _first_and_last(text: str) -> str:
    """The first and the last line of a text that says something: what was done, and what came of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(dict.fromkeys([*lines[:1], *lines[-1:]])) or "no text"


def _notes(total: Timing, used: Sequence[Choice], verification: Verification) -> tuple[str, ...]:
    """What a reader must know beside the figures."""
    notes = []
    if not verification.verified:
        notes.append("Nothing was applied.")
    elif not used:
        notes.append("No kernel has a schedule of the search: the model is the untuned one.")
    elif total.verdict != FASTER and total.ratio is not None:
        notes.append(f"The whole model is not faster beyond the noise: {total.text}.")
    return tuple(notes)
