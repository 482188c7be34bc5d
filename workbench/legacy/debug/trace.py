"""``_tvmdbg_execution_trace.json``: one run of the debug runtime as a Chrome trace, nodes laid end to end, parameters included."""

from __future__ import annotations

from workbench.errors import ModelError
from workbench.legacy.lines import LineError, items, json_value, member, number, text

_REMEDY = "Give the _tvmdbg_execution_trace.json of the debug runtime, as old TVM wrote it."


def parse_execution_trace(content: str) -> dict[str, float]:
    """Time of each node in microseconds, by its name, in execution order; parameters take none.

    Raises:
        ModelError: It is no such trace.
    """
    begun: dict[str, float] = {}
    times_us: dict[str, float] = {}
    try:
        for event in items(member(json_value(content), "traceEvents", "the trace"), "its events"):
            name, phase = text(member(event, "name", "an event"), "a name"), member(event, "ph", "an event")
            at_us = number(member(event, "ts", "an event"), "a time")
            if phase == "B":
                begun[name] = at_us
            elif phase == "E" and name in begun:
                times_us[name] = times_us.get(name, 0.0) + at_us - begun.pop(name)
    except LineError as error:
        raise ModelError(f"This is no execution trace of old TVM: {error}.", _REMEDY) from error
    return times_us
