"""What the graph's view gets when it opens: both graphs, rows and tasks as columns of JSON; all names as text that is safe to show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.escaping import plain
from workbench.graphs import Repeat, Unit, find_repeats, kernel_units, source_units, without_constants
from workbench.records.graph import KernelNode, ModelGraph, SourceNode
from workbench.records.profile import Profile, Row, Task, TensorShape
from workbench.records.tuning import TaskProgress

_NAME = 200
_TEXT = 120


def snapshot(graph: ModelGraph, profile: Profile) -> bytes:
    """The JSON of all that does not change: graphs, rows and tasks."""
    places = {task.task: index for index, task in enumerate(profile.tasks)}
    values = {
        "model": plain(profile.model, _TEXT),
        "target": plain(profile.target, _TEXT),
        "rows": _columns(_row(row, places) for row in profile.rows),
        "tasks": _columns(map(_task, profile.tasks)),
        "operators": {"nodes": _columns(map(_source_node, graph.source)), **_boxes(source_units(graph))},
        "kernels": {"nodes": _columns(_kernel_node(node, profile.rows) for node in graph.kernels), **_boxes(kernel_units(graph, profile))},
    }
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def progress_list(progress: Iterable[TaskProgress]) -> list[dict[str, Any]]:
    """How far the tasks are, as far as a box shows it."""
    return [_progress(item) for item in progress]


def _progress(item: TaskProgress) -> dict[str, Any]:
    before_us, now_us = item.before_and_now_us
    return {
        "task": item.task,
        "state": plain(item.state, 20),
        "verdict": "" if item.final is None else plain(item.final.verdict, 20),
        "why": plain(item.stopped_because if item.final is None else item.final.why, _NAME),
        "before_us": before_us,
        "now_us": now_us,
        "trials": item.trials,
        "failed": sum(item.errors.values()),
    }


def _columns(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Records of equal keys as one list a key."""
    columns: dict[str, list[Any]] = {}
    for record in records:
        for key, value in record.items():
            columns.setdefault(key, []).append(value)
    return columns


def _row(row: Row, places: Mapping[str, int]) -> dict[str, Any]:
    return {
        "row": row.row,
        "node_name": plain(row.node_name, _NAME),
        "ops": plain(", ".join(row.ops), _NAME),
        "time_us": row.time_us,
        "time_us_iqr": row.time_us_iqr,
        "time_percent": row.time_percent,
        "gflops": row.gflops,
        "kernel": None if row.kernel is None else plain(row.kernel, _NAME),
        "task": None if row.task is None else places[row.task],
        "untunable": plain(row.untunable, _NAME) if row.untunable else "",
    }


def _task(task: Task) -> dict[str, Any]:
    return {"task": task.task, "name": plain(task.name, _NAME), "weight": task.weight, "time_us": task.time_us}


def _source_node(node: SourceNode) -> dict[str, Any]:
    return {
        "kind": node.kind,
        "op": plain(node.origin.op, _TEXT),
        "name": plain(node.origin.name, _NAME),
        "location": plain(node.origin.location, _TEXT) if node.origin.location else "",
        "attributes": {plain(name, _TEXT): plain(value, _NAME) for name, value in node.attributes.items()},
        **_flow(node),
        "rows": list(node.rows),
        "state": node.state,
    }


def _kernel_node(node: KernelNode, rows: Sequence[Row]) -> dict[str, Any]:
    ops = () if node.row is None else rows[node.row].ops
    return {
        "kind": node.kind,
        "op": plain(", ".join(ops) or node.name, _NAME),
        "name": plain(node.name, _NAME),
        "location": "",
        "attributes": {},
        **_flow(node),
        "rows": [] if node.row is None else [node.row],
        "state": "" if node.row is None else "called",
    }


def _flow(node: SourceNode | KernelNode) -> dict[str, Any]:
    return {"reads": list(node.reads), "outputs": list(map(_tensor, node.outputs)), "weights": list(map(_tensor, node.weights))}


def _tensor(tensor: TensorShape) -> str:
    sizes = ", ".join("?" if size < 0 else str(size) for size in tensor.shape)
    return plain(f"{tensor.dtype} ({sizes})", _TEXT)


def _boxes(units: Sequence[Unit]) -> dict[str, Any]:
    """Boxes, and what repeats among those that are no constants."""
    _, kept = without_constants(units)
    repeats = find_repeats([unit.label for unit in kept], [unit.reads for unit in kept])
    columns = {
        "nodes": [list(unit.nodes) for unit in units],
        "reads": [list(unit.reads) for unit in units],
        "row": [unit.row for unit in units],
        "constant": [unit.constant for unit in units],
    }
    return {"units": columns, "repeats": [_repeat(repeat) for repeat in repeats]}


def _repeat(repeat: Repeat) -> dict[str, Any]:
    return {"start": repeat.start, "size": repeat.size, "copies": repeat.copies, "inner": [_repeat(inner) for inner in repeat.inner]}
