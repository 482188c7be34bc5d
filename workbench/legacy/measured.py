"""How both old tuners tell what came of a trial: an error number in place of a status, no text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.legacy.lines import LineError, integer, items, number
from workbench.records.trial import BUILD_ERROR, BUILD_TIMEOUT, OK, REJECTED, RUN_ERROR, RUN_TIMEOUT, WRONG_RESULT

_ERRORS = {
    0: (OK, ""),
    1: (REJECTED, "instantiation error: the schedule could not be made, or failed the check of the target's limits"),
    2: (BUILD_ERROR, "compile error on the host"),
    3: (BUILD_ERROR, "compile error for the device"),
    4: (RUN_ERROR, "runtime error on the device"),
    5: (WRONG_RESULT, "wrong answer"),
    6: (BUILD_TIMEOUT, "build timeout"),
    7: (RUN_TIMEOUT, "run timeout"),
    8: (RUN_ERROR, "unknown error"),
}
"""``MeasureErrorNo`` of AutoTVM and of the auto-scheduler, which are the same."""

_FAILED_S = 1e9
"""Costs from here on stand for a failure."""


@dataclass(frozen=True)
class OldResult:
    """What was measured.

    Attributes:
        status: One of `workbench.records.trial`.
        error: What the error number means; the log keeps no text of the error itself.
        times_s: Measured times, in seconds; empty for a failure.
        all_cost_s: Seconds that building and measuring took together.
        measured_at: Unix time.
    """

    status: str
    error: str
    times_s: tuple[float, ...]
    all_cost_s: float
    measured_at: float


def parse_result(value: Any) -> OldResult:
    """Read ``[[seconds, ...], error_no, all_cost_s, unix_time]``; raises LineError."""
    costs, error_no, all_cost, measured_at = items(value, "the result", least=4)[:4]
    code = integer(error_no, "the error number")
    if code not in _ERRORS:
        raise LineError(f"{code} is no error number")
    status, error = _ERRORS[code]
    times = tuple(number(cost, "a measured time") for cost in items(costs, "the list of measured times"))
    if status == OK and (not times or not all(0 < seconds < _FAILED_S for seconds in times)):
        raise LineError("it claims success without a measured time that makes sense")
    return OldResult(status, error, times if status == OK else (), number(all_cost, "the cost"), number(measured_at, "the time stamp"))
