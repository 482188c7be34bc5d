"""The search of one kernel by auto_scheduler or AutoTVM, which run in the old Python and here are asked and told."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from workbench.engines.relay.interpreter import ChildCrashed, ChildTimeout, Reply
from workbench.engines.relay.traces import decisions, fingerprint
from workbench.engines.search_protocol import Candidate, Experience, Outcome, Translation
from workbench.errors import InputError, InternalError
from workbench.escaping import plain
from workbench.legacy.auto_scheduler.workloads import LoggedWorkload
from workbench.records.trial import DEVICE_LOST, UNMEASURED
from workbench.records.tuning import DEFAULT_SPACE, SPACES_OF
from workbench.tuning_database import TuningRecord

SPACES = tuple(SPACES_OF["relay"])
AUTO_SCHEDULER = SPACES[0]
"""The default."""

_AUTOTVM = "autotvm-"
_MOST_INHERITED = 16
_FIRST_S = 300.0
"""Longest time until the first candidates: the old Python gives up before, unless TVM's own loop never comes back to it."""

_PATIENCE_S = 900.0
_SAY_NOTHING = (UNMEASURED, DEVICE_LOST)
_numbers = itertools.count()


class Home(Protocol):
    """The process of the old Python that holds the lowered model; a new one, after the death of the last, has loaded it again."""

    @property
    def starts(self) -> int:
        """How many processes there were so far; what a search keeps in one is lost with it."""
        ...

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout_s: float | None = None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> Reply:
        """As `Interpreter.call`."""
        ...


class RelayTaskSearch:
    """Implements `workbench.engines.search_protocol.TaskSearch`.

    Args:
        home: Holds the lowered model.
        kernel: Name of the kernel.
        space: One of `SPACES`, or ``default`` for the first of them.
        seed: Seed of everything random.

    Attributes:
        note: What to know of this search, such as that no cost model guides it; empty for nothing.

    Raises:
        InputError: There is no such space, or the kernel cannot be searched in it.
    """

    def __init__(self, home: Home, kernel: str, *, space: str, seed: int) -> None:
        space = AUTO_SCHEDULER if space == DEFAULT_SPACE else space
        if space not in SPACES:
            raise InputError(f"This engine has no search space {plain(space, 60)}.", f"There are: {', '.join(SPACES)}.")
        self._home = home
        self._kernel = kernel
        self._module = "templates" if space.startswith(_AUTOTVM) else "sketches"
        self._begun = {"kernel": kernel, "search": f"search {next(_numbers)}", "seed": seed, "tuner": space.removeprefix(_AUTOTVM)}
        self._starts = -1
        self._told: list[dict[str, Any]] = []
        self._proposed: dict[str, str] = {}
        self._known: set[str] = set()
        self._inherited: list[Candidate] = []
        self._patience_s = _FIRST_S
        self._phase = ""
        described = self._begin()
        self.space_size: int | None = int(described["space_size"])
        self.workload = (str(described["workload"]), "")
        self.arguments: list[object] = []
        self.note = str(described["note"])
        self._function = str(self._call("kernel_code.text", {"kernel": kernel}).value)

    @property
    def rejected(self) -> int:
        """None is found out about before it is built."""
        return 0

    def baseline(self) -> Candidate:
        """The untuned kernel: what a build without records makes."""
        return Candidate(trace="", fingerprint="untuned", origin="baseline", program=self._program(""))

    def propose(self, count: int) -> tuple[Candidate, ...]:
        """Candidates of other searches first, then of the policy or tuner."""
        started = time.perf_counter()
        inherited, self._inherited = self._inherited[:count], self._inherited[count:]
        lines = self._ask("propose", {"count": count - len(inherited)}) if len(inherited) < count else []
        if lines:
            self._patience_s = _PATIENCE_S
        seconds = (time.perf_counter() - started) / max(len(lines), 1)
        candidates = [*inherited, *(self._candidate(str(line), search_s=seconds) for line in lines)]
        self._proposed.update({candidate.fingerprint: candidate.trace for candidate in candidates})
        return tuple(candidates)

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Tell the policy or tuner what became of candidates."""
        known = [(self._proposed.pop(outcome.fingerprint, ""), outcome.time_us) for outcome in outcomes]
        self._tell([_told(trace, time_us, counts=True) for trace, time_us in known if trace])

    def restore(self, known: Sequence[Experience]) -> None:
        """Tell it of earlier trials; those in another space, and those whose schedules cannot be read any more, tell it nothing."""
        self._known.update(item.trial.fingerprint for item in known)
        told = [
            _told(item.trace, item.trial.time_us, counts=item.trial.status not in _SAY_NOTHING)
            for item in known
            if item.trace and _is_readable(item.trace)
        ]
        self._tell(told)

    def transfer(self, records: Sequence[TuningRecord]) -> Sequence[TuningRecord]:
        """Have the fastest schedules of AutoTVM for this very kernel proposed first."""
        fastest = sorted((record for record in records if self._is_own(record.trace_json)), key=lambda item: item.time_us or math.inf)
        taken = [record for record in fastest if self._inherit(record.trace_json)]
        self._tell([_told(candidate.trace, None, counts=False) for candidate in self._inherited])
        return taken

    def translate(self, workload: LoggedWorkload) -> Translation:
        """Have the fastest schedules of an auto_scheduler log proposed first, if their workload key is this kernel's: nothing is to be translated."""
        if self._module != "sketches":
            return Translation(unlike="a log of auto_scheduler tells AutoTVM nothing")
        if workload.key != self.workload[0]:
            return Translation(unlike="its workload key is another one")
        fastest = workload.records[:_MOST_INHERITED]
        claimed_us = {fingerprint(item.record.schedule): item.time_us for item in fastest if self._inherit(item.record.schedule)}
        self._tell([_told(candidate.trace, None, counts=False) for candidate in self._inherited])
        return Translation(tried=len(fastest), claimed_us=claimed_us)

    def rebuild(self, trace: str) -> Candidate:
        """The candidate of a recorded trace; whether it is this kernel's is found out about when it is built."""
        return self._candidate(trace, search_s=0.0) if trace else self.baseline()

    def _candidate(self, trace: str, *, search_s: float) -> Candidate:
        return Candidate(
            trace=trace,
            fingerprint=fingerprint(trace),
            origin="search",
            program=self._program(trace),
            decisions=decisions(trace),
            search_s=search_s,
        )

    def _inherit(self, trace: str) -> bool:
        """Have a schedule of another search proposed, unless it is known, or there are enough of them."""
        candidate = replace(self._candidate(trace, search_s=0.0), origin="transfer")
        if candidate.fingerprint in self._known or len(self._inherited) >= _MOST_INHERITED:
            return False
        self._known.add(candidate.fingerprint)
        self._inherited.append(candidate)
        return True

    def _is_own(self, trace: str) -> bool:
        """True for a readable schedule of AutoTVM of this kernel."""
        if self._module != "templates" or not _is_readable(trace):
            return False
        return json.loads(trace).get("input", [])[1:3] in json.loads(self.workload[0])

    def _program(self, trace: str) -> bytes:
        return json.dumps({"function": self._function, "trace": trace}).encode()

    def _tell(self, outcomes: list[dict[str, Any]]) -> None:
        if outcomes:
            self._ask("learn", {"outcomes": outcomes})
            self._told.extend(outcomes)

    def _ask(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Ask the search itself; one that was lost with its process is begun anew, and told all that it knew."""
        if self._starts != self._home.starts:
            self._begin()
            if self._told:
                self._call(f"{self._module}.learn", {"search": self._begun["search"], "outcomes": self._told})
        return self._call(f"{self._module}.{name}", {"search": self._begun["search"], **arguments}).value

    def _begin(self) -> dict[str, Any]:
        described: dict[str, Any] = self._call(f"{self._module}.begin", self._begun).value
        self._starts = self._home.starts
        return described

    def _call(self, name: str, arguments: Mapping[str, Any]) -> Reply:
        """Call the old Python; its death is this task's end, and no other's.

        Raises:
            InternalError: It died or did not answer.
        """
        try:
            return self._home.call(name, arguments, timeout_s=self._patience_s, on_progress=self._note)
        except ChildTimeout as error:
            far = f" ({self._phase})" if self._phase else ""
            message = f"TVM found no valid schedule of {plain(self._kernel)} within {self._patience_s / 60:g} minutes{far}."
            raise InternalError(message, "Leave the task out, or search it in another space.") from error
        except ChildCrashed as error:
            told = f"TVM crashed while it searched {plain(self._kernel)}: {error.message} {error.last_words}".strip()
            raise InternalError(told, "Leave the task out, or search it in another space.") from error

    def _note(self, phase: str, share: float) -> None:
        """Keep how far the old Python is, to be told if it does not come to an end."""
        del share
        self._phase = phase


def _told(trace: str, time_us: float | None, *, counts: bool) -> dict[str, Any]:
    return {"trace": trace, "seconds": None if time_us is None else time_us / 1e6, "counts": counts}


def _is_readable(trace: str) -> bool:
    try:
        fingerprint(trace)
    except InputError:
        return False
    return True
