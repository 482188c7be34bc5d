"""The auto-scheduler's log: one JSON object a line, ``{"i": [task, state], "r": result, "v": version}``, versions v0.2 to v0.6."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from workbench.legacy.auto_scheduler.steps import Step, parse_step
from workbench.legacy.lines import LineError, Parsed, integers, items, json_value, member, parse_json_lines, text
from workbench.legacy.measured import OldResult, parse_result

VERSIONS = ("v0.2", "v0.3", "v0.4", "v0.5", "v0.6")


@dataclass(frozen=True)
class AutoSchedulerRecord:
    """One trial.

    Attributes:
        line: Its line in the log, from 1.
        workload_key: The task's key as it stands there: JSON text, ``["<function name or hash>", args...]``.
        workload: Name of the registered function, or the hash of a compute DAG that came from a model.
        arguments: Arguments of the function, or the shapes of the DAG's tensors, as JSON text.
        target: Target string of old TVM.
        hardware: ``num_cores, vector_unit_bytes, cache_line_bytes, max_shared_memory_per_block, max_local_memory_per_block,
            max_threads_per_block, max_vthread_extent, warp_size``; empty in logs without them.
        steps: The schedule.
        result: What was measured.
        version: Version of the line.
        schedule: The line without its result, as JSON text: what old TVM itself reads a schedule of.
    """

    line: int
    workload_key: str
    workload: str
    arguments: str
    target: str
    hardware: tuple[int, ...]
    steps: tuple[Step, ...]
    result: OldResult
    version: str
    schedule: str

    @property
    def decisions(self) -> tuple[str, ...]:
        """The steps as short texts, e.g. ``split 3 0 64 4,8``."""
        return tuple(f"{type(step).__name__.lower()} {' '.join(map(_short, vars(step).values()))}" for step in self.steps)


def parse_auto_scheduler_log(content: str) -> Parsed[AutoSchedulerRecord]:
    """Read a log; damaged lines are set aside."""
    return parse_json_lines(content, _record)


def _record(line: int, value: Any) -> AutoSchedulerRecord:
    version = text(member(value, "v", "the line"), "the version")
    if version not in VERSIONS:
        raise LineError(f"its version is {version!r}; known are {', '.join(VERSIONS)}")
    task, state = items(member(value, "i", "the line"), "the input", least=2)[:2]
    workload_key, target, *rest = items(task, "the task", least=2)
    workload, arguments = _workload(text(workload_key, "the workload key"))
    hardware = integers(rest[0], "the hardware parameters") if rest and isinstance(rest[0], list) else ()
    steps = items(items(state, "the state", least=2)[1], "the steps")
    return AutoSchedulerRecord(
        line=line,
        workload_key=workload_key,
        workload=workload,
        arguments=arguments,
        target=text(target, "the target"),
        hardware=hardware,
        steps=tuple(parse_step(step) for step in steps),
        result=parse_result(member(value, "r", "the line")),
        version=version,
        schedule=json.dumps({"i": value["i"], "v": version}, separators=(",", ":")),
    )


def _short(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _workload(key: str) -> tuple[str, str]:
    """Name and arguments in a workload key; older keys are a bare hash."""
    if not key.lstrip().startswith("["):
        return key, "[]"
    name, *arguments = items(json_value(key), "the workload key", least=1)
    return text(name, "the workload's name"), json.dumps(arguments)
