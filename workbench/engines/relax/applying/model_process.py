"""The owner's side of the process that builds and runs models: asks it, and takes a new one after a crash."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping
from typing import Any

from workbench import errors
from workbench.engines.protocol import Progress
from workbench.engines.relax.applying.announcing import ANNOUNCED
from workbench.engines.search_protocol import Failed
from workbench.errors import InputError, WorkbenchError
from workbench.isolation import IsolatedProcess, JobError, JobTimeout, Message, Nursery, ProcessDied
from workbench.records.trial import REJECTED

ENTRY = "workbench.engines.relax.applying.apply_job:serve"
OPEN_LIMIT_S = 120.0
_POLL_MS = 250


class ModelProcess:
    """One process, started when it is asked first.

    Args:
        nursery: Starts it.
        opening: What it is told before anything else: which program, for what, and where it writes.
        on_progress: Told what is done; what it raises ends the work.
    """

    def __init__(self, nursery: Nursery, opening: Mapping[str, Any], on_progress: Progress) -> None:
        self._nursery = nursery
        self._opening = opening
        self._on_progress = on_progress
        self._process: IsolatedProcess | None = None

    @property
    def pid(self) -> int | None:
        """Its number; None while there is none."""
        return None if self._process is None else self._process.pid

    def ask(self, question: Message, limit_s: float, phase: str, *, doing: str, died: str, late: str) -> Message | Failed:
        """Ask the process, a new one after a crash; a crash, a hang and an error in it are values.

        Raises:
            WorkbenchError: What a user can act on, apart from a schedule that does not fit.
        """
        started = time.perf_counter()
        try:
            if self._process is None or not self._process.alive:
                self._process = self._nursery.start(ENTRY)
                _refusal(self._answer(self._process, Message({"do": "open", **self._opening}), OPEN_LIMIT_S, phase))
            answer = self._answer(self._process, question, limit_s, phase)
        except JobError as error:
            return Failed(died, f"TVM failed while {doing}: {error.text}", time.perf_counter() - started)
        except ProcessDied as error:
            words = f"The process {error.cause} while {doing}{_kernel(error.last_words)}. {error.last_words}".strip()
            return Failed(died, words, time.perf_counter() - started)
        except JobTimeout as error:
            words = f"The process was ended: {doing} took more than {limit_s:g} s{_kernel(error.last_words)}."
            return Failed(late, words, limit_s)
        try:
            _refusal(answer)
        except InputError as error:
            return Failed(REJECTED, str(error), time.perf_counter() - started)
        return answer

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _answer(self, process: IsolatedProcess, question: Message, limit_s: float, phase: str) -> Message:
        """The answer to one question; the progress is told meanwhile, but not often: what is measured wants the machine for itself."""
        deadline = time.monotonic() + limit_s
        try:
            self._on_progress(phase, 0.0)
            process.send(question)
            while (answer := process.take()) is None:
                _wait_until(process, deadline, limit_s)
                self._on_progress(phase, 0.0)
        except (JobError, ProcessDied, JobTimeout):
            raise
        except BaseException:
            process.kill()  # what it does is wanted no more
            raise
        return answer


def _kernel(last_words: str) -> str:
    """Which kernel ran when a process ended, to be added to a sentence; empty if that is not known."""
    announced = [line for line in last_words.splitlines() if line.startswith(ANNOUNCED)]
    return f", {announced[-1]}" if announced else ""


def _wait_until(process: IsolatedProcess, deadline: float, limit_s: float) -> None:
    """Wait until an answer begins to come, the process has ended, or a moment has passed.

    Raises:
        JobTimeout: The answer is late; the process was killed.
    """
    if time.monotonic() > deadline:
        raise process.expire(limit_s)
    poll = select.poll()
    poll.register(process.fileno(), select.POLLIN)
    poll.poll(_POLL_MS)


def _refusal(answer: Message) -> None:
    """Raise the error that the process answered with, if it did."""
    name = answer.values.get("refused")
    if name is None:
        return
    kind: Callable[[str, str], WorkbenchError] = getattr(errors, str(name), InputError)
    raise kind(str(answer.values["message"]), str(answer.values["remedy"]))
