"""Gives up a search of which no schedule is valid, where TVM itself would go on for ever; says how many were tried, and what ails them."""

from __future__ import annotations

import time
from typing import Any

import tvm

from .failing import MODEL, Refusal
from .targets import last_line

LIMIT_S = 60.0
"""How long schedules may be tried before the first valid one."""

_LOOKED_AT = 16


class GivenUpError(Exception):
    """No schedule is valid; leaves TVM's own loop."""


class Watch:
    """Looks at the scores of candidates as TVM asks for them.

    Args:
        kernel: Its name, for messages.
    """

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._progress: Any = None
        self._started = 0.0
        self._tried = 0
        self._found = True
        self._ails: dict[str, list[str]] = {}

    def begin(self, progress: Any) -> None:
        """Begin with a round of candidates; what is tried in vain is told to ``progress``."""
        self._progress, self._started = progress, time.monotonic()
        self._tried, self._found = 0, False
        self._ails = {}

    def look(self, task: Any, states: Any, scores: Any) -> None:
        """Take note of candidates of which TVM cannot make a kernel: their score is below all others.

        Raises:
            GivenUpError: None was valid for too long.
        """
        if self._found:
            return
        self._tried += len(states)
        self._found = any(float(score) > -1e10 for score in scores)
        if self._found:
            return
        for state in list(states)[: _LOOKED_AT - sum(map(len, self._ails.values()))]:
            kind, text = _ail(task, state)
            self._ails.setdefault(kind, []).append(text)
        seconds = time.monotonic() - self._started
        self._progress(f"search: no valid schedule among {self._tried:,} yet", min(seconds / LIMIT_S, 1.0))
        if seconds > LIMIT_S:
            raise GivenUpError

    def refusal(self) -> Refusal:
        """What to tell where a search was given up."""
        ails = "; ".join(f"{len(texts)} {kind} (the first: {texts[0]})" for kind, texts in self._ails.items())
        looked_at = sum(map(len, self._ails.values()))
        told = f"auto_scheduler found no valid schedule of {self._kernel} among {self._tried:,}. Of {looked_at} looked at: {ails}."
        return Refusal(MODEL, told, "Leave the task out, or search it in another space: --space autotvm-ga.")


def _ail(task: Any, state: Any) -> tuple[str, str]:
    """What is wrong with a candidate: its class, and the text."""
    try:
        schedule, tensors = task.compute_dag.apply_steps_from_state(state)
        with tvm.transform.PassContext(opt_level=3):
            module = tvm.lower(schedule, tensors, name="kernel")
    except Exception as error:
        return "cannot be lowered", last_line(error)
    limits = task.hardware_params
    if "gpu" in [str(key) for key in task.target.keys]:
        allowed = {
            name: int(getattr(limits, name)) for name in ("max_threads_per_block", "max_shared_memory_per_block", "max_local_memory_per_block")
        }
        if not tvm.tir.analysis.verify_gpu_code(module["kernel"], allowed):
            return "exceed what the GPU has", ", ".join(f"{name} {value:,}" for name, value in allowed.items())
    return "have no features", "TVM's cost model knows nothing of them"
