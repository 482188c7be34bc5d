"""The measuring process of the old Python: checks what built kernels write and times them, each within one limit of time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.analysis.confidence import is_hopeless
from workbench.engines.arrays import Array
from workbench.engines.reference import KernelFacts, Reference, initial_contents, take_reference
from workbench.engines.relay.children import START_S, make_ready
from workbench.engines.relay.interpreter import Interpreter, Reply
from workbench.engines.timing import SLOW_US, by_turns, planned, times
from workbench.records.trial import Check, MeasureOptions

_RUNS_OF_A_TRIAL = 12
_REFERENCE_PATIENCE = 12.0
_COMPARE_PATIENCE = 3.0
_MOST_BYTES = 2**30


@dataclass(frozen=True)
class Taken:
    """What a measurement gave.

    Attributes:
        times_us: As `workbench.engines.search_protocol.Measured`.
        runs: As there.
        check: As there.
        overwritten: Places of arguments that it should only read, and writes.
        in_doubt: True if an earlier candidate may have spoilt what this one was run on.
    """

    times_us: tuple[float, ...]
    runs: int
    check: Check | None
    overwritten: tuple[int, ...]
    in_doubt: bool


@dataclass(frozen=True)
class _Known:
    contents: list[Array]
    reference: Reference


class Bench:
    """Measures in one child; whatever goes wrong there is raised as `Interpreter.call` does, and the next call has a new one.

    Args:
        child: The process.
        device: Kind and index of the device.
        options: How to measure.
        seed: Seed of the random inputs.
        memory_bytes: What the process may take.
    """

    def __init__(self, child: Interpreter, device: tuple[str, int], *, options: MeasureOptions, seed: int, memory_bytes: int) -> None:
        self._child = child
        self._device = device
        self._options = options
        self._seed = seed
        self._memory_bytes = memory_bytes
        self._known: dict[str, _Known] = {}
        self._held: set[str] = set()  # kernels whose arguments the process has
        self._starts = 0
        self._end = 0.0

    def forget(self, kernel: str) -> None:
        """Take a new reference before the kernel is measured again."""
        self._known.pop(kernel, None)
        self._held.discard(kernel)

    def prepare(self, kernel: str, path: str, facts: KernelFacts) -> None:
        """Have the process hold a kernel's arguments, and know what its untuned form, the library `path`, makes of them."""
        self._ready()
        known = self._known.get(kernel)
        if known is None:
            self._limit(_REFERENCE_PATIENCE * self._options.timeout_s)
            contents = initial_contents(facts, seed=self._seed)
            self._call("hold", {"kernel": kernel}, contents)
            reference = take_reference(lambda held: self._run_all(kernel, path, held), facts, contents)
            inputs = {**dict(enumerate(contents)), **reference.guarded, **reference.before}
            self._make_room(reference.size_bytes)
            self._known[kernel] = _Known([inputs[place] for place in range(len(contents))], reference)
            self._call("hold", {"kernel": kernel}, self._known[kernel].contents)
        elif kernel not in self._held:
            self._limit(_REFERENCE_PATIENCE * self._options.timeout_s)
            self._call("hold", {"kernel": kernel}, known.contents)
        self._held.add(kernel)

    def measure(self, kernel: str, path: str, baseline: str, *, best_us: float | None, check: bool, timed: bool) -> Taken:
        """Check a prepared kernel's candidate, the library `path`, then time it.

        Args:
            kernel: The kernel.
            path: The candidate.
            baseline: The untuned kernel.
            best_us: The best time so far.
            check: True compares its output.
            timed: True times it if it is right.
        """
        options, reference = self._options, self._known[kernel].reference
        if options.cooldown_ms > 0:
            time.sleep(options.cooldown_ms / 1e3)
        self._limit(self.limit_s(kernel))
        if not check and reference.run_us > SLOW_US and path == baseline:
            found, first_us = None, reference.run_us  # it has just run
        else:
            found, first_us = self._check(kernel, path, compared=check)
        is_right = found is None or found.passed
        times_us: list[float] = []
        runs = 0
        if is_right and timed:
            times_us, runs = times(_Runner(self, kernel, path), options=options, best_us=best_us, first_us=first_us)
        # Comparing all inputs takes as long as some runs: a hopeless candidate may go unpunished, since what it spoils shows in the next ones.
        is_spared = bool(times_us) and is_hopeless(min(times_us), best=best_us)
        overwritten = () if is_spared else self._overwritten(kernel)
        in_doubt = bool(overwritten) or (not is_right and not self._is_sound(kernel, baseline))
        return Taken(tuple(times_us), runs, found, overwritten, in_doubt)

    def compare(self, kernel: str, paths: Sequence[str], *, rounds: int) -> list[list[float]]:
        """Time libraries of a prepared kernel by turns."""
        runners = [_Runner(self, kernel, path) for path in paths]
        self._limit(len(paths) * self.limit_s(kernel))
        turns = planned(runners, options=self._options, rounds=rounds)
        runs_s = sum(most * (number + 1) * time_us / 1e6 for most, number, time_us in zip(turns.rounds, turns.numbers, turns.times_us, strict=True))
        self._limit(len(paths) * self.limit_s(kernel) + _COMPARE_PATIENCE * runs_s)
        return by_turns(runners, turns, options=self._options)

    def limit_s(self, kernel: str) -> float:
        """Longest time of a trial; it grows with the time that the untuned kernel takes."""
        return self._options.timeout_s + _RUNS_OF_A_TRIAL * self._known[kernel].reference.run_us / 1e6

    def once(self, kernel: str, path: str) -> float:
        """Microseconds of one call."""
        return float(self._call("run", {"kernel": kernel, "path": path, "write": [], "read": []}).value)

    def evaluate(self, kernel: str, path: str, *, number: int, repeat: int) -> list[float]:
        """Microseconds of each of `repeat` times, as TVM takes them."""
        question = {"kernel": kernel, "path": path, "number": number, "repeat": repeat, "flush": self._options.cache_flush}
        return [float(time_us) for time_us in self._call("evaluate", question).value]

    def _check(self, kernel: str, path: str, *, compared: bool) -> tuple[Check | None, float]:
        """Run a kernel once on poisoned outputs, which warms it up too; what it wrote beside what it should have, if asked, and the microseconds."""
        reference = self._known[kernel].reference
        places = list(reference.after) if compared else []
        question = {"kernel": kernel, "path": path, "write": list(reference.before), "read": places}
        reply = self._call("run", question, list(reference.before.values()))
        found = dict(zip(places, _arrays(reply), strict=True))
        return (reference.check(found) if compared else None), float(reply.value)

    def _is_sound(self, kernel: str, baseline: str) -> bool:
        """False if the untuned kernel itself is wrong by now: an earlier candidate wrote where it should not."""
        check, _ = self._check(kernel, baseline, compared=True)
        return check is not None and check.passed

    def _overwritten(self, kernel: str) -> tuple[int, ...]:
        guarded = self._known[kernel].reference.guarded
        reply = self._call("changed", {"kernel": kernel, "places": list(guarded)}, list(guarded.values()))
        return tuple(int(place) for place in reply.value)

    def _run_all(self, kernel: str, path: str, contents: Sequence[Array]) -> tuple[list[Array], float]:
        places = list(range(len(contents)))
        reply = self._call("run", {"kernel": kernel, "path": path, "write": places, "read": places}, contents)
        return _arrays(reply), float(reply.value) / 1e6

    def _ready(self) -> None:
        """A process that has the device; a new one holds nothing yet."""
        make_ready(self._child, self._memory_bytes)
        if self._starts != self._child.starts:
            self._held.clear()
            self._limit(START_S)
            self._call("begin", {"kind": self._device[0], "index": self._device[1]})
            self._starts = self._child.starts

    def _make_room(self, size_bytes: int) -> None:
        while self._known and size_bytes + sum(known.reference.size_bytes for known in self._known.values()) > _MOST_BYTES:
            oldest = next(iter(self._known))
            self.forget(oldest)
            self._call("forget", {"kernel": oldest})

    def _limit(self, limit_s: float) -> None:
        self._end = time.monotonic() + limit_s

    def _call(self, name: str, arguments: Mapping[str, object], blobs: Sequence[Array] = ()) -> Reply:
        return self._child.call(f"measuring.{name}", arguments, blobs, timeout_s=max(self._end - time.monotonic(), 0.0))


@dataclass(frozen=True)
class _Runner:
    """Implements `workbench.engines.timing.Runner`."""

    bench: Bench
    kernel: str
    path: str

    def once(self) -> float:
        """Microseconds of one call."""
        return self.bench.once(self.kernel, self.path)

    def evaluate(self, *, number: int, repeat: int) -> list[float]:
        """Microseconds of each of `repeat` times."""
        return self.bench.evaluate(self.kernel, self.path, number=number, repeat=repeat)


def _arrays(reply: Reply) -> list[Array]:
    return [blob for blob in reply.blobs if not isinstance(blob, bytes)]
