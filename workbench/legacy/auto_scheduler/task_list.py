"""The auto-scheduler's tasks as tutorials print them: ``weight W desc NAME key KEY``, then the compute DAG, one block a task."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from workbench.legacy.lines import BadLine, LineError, Parsed, integers, items, json_value, text

_HEAD = re.compile(r"(?:(?P<index>\d+)\s+)?weight\s+(?P<weight>\d+)\s+desc\s+(?P<description>\S*)\s+key\s+(?P<key>\[.*\])\s*$")


@dataclass(frozen=True)
class AutoSchedulerTask:
    """One printed task.

    Attributes:
        weight: How often the network calls it.
        description: What it came from, e.g. ``vm_mod_fused_nn_dense_add``.
        workload_key: JSON text, ``["<hash>", shape, ...]``.
        shapes: Shapes of its tensors, as the key has them: inputs, then output; empty where the key has other arguments.
        compute_dag: The DAG's text, one line a tensor.
    """

    weight: int
    description: str
    workload_key: str
    shapes: tuple[tuple[int, ...], ...]
    compute_dag: str


def parse_auto_scheduler_tasks(content: str) -> Parsed[AutoSchedulerTask]:
    """Read a printed task list; lines before the first head are passed over."""
    tasks: list[AutoSchedulerTask] = []
    bad: list[BadLine] = []
    blocks = _blocks(content.split("\n"))
    for number, head, body in blocks:
        try:
            tasks.append(_task(head, body))
        except LineError as error:
            bad.append(BadLine(number, str(error)))
    return Parsed(tuple(tasks), tuple(bad))


def _blocks(lines: list[str]) -> list[tuple[int, re.Match[str], list[str]]]:
    """Number of the head's line, the head, and the lines up to the next head or empty line."""
    blocks: list[tuple[int, re.Match[str], list[str]]] = []
    within = False
    for number, line in enumerate(lines, start=1):
        if head := _HEAD.match(line.strip()):
            blocks.append((number, head, []))
            within = True
        elif within and line.strip():
            blocks[-1][2].append(line.rstrip())
        else:
            within = False
    return blocks


def _task(head: re.Match[str], body: list[str]) -> AutoSchedulerTask:
    key = head["key"]
    name, *arguments = items(json_value(key), "the workload key", least=1)
    text(name, "the workload's name")
    shapes = tuple(integers(shape, "a shape") for shape in arguments) if all(isinstance(item, list) for item in arguments) else ()
    return AutoSchedulerTask(int(head["weight"]), head["description"], json.dumps(json_value(key)), shapes, "\n".join(body))
