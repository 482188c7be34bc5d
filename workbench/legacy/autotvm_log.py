"""AutoTVM's log (v0.2, and the older v0.1), and the tasks that it prints."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import Any

from workbench.escaping import plain
from workbench.legacy.lines import BadLine, LineError, Parsed, integer, items, member, parse_json_lines, text
from workbench.legacy.measured import OldResult, parse_result

_KNOBS = ("sp", "re", "an", "ot")
_NEW, _OLD = 0.2, 0.1
_TASK = "Task(func_name="


@dataclass(frozen=True)
class Knob:
    """One choice of a template: its name, its kind (``sp`` split, ``re`` reorder, ``an`` annotate, ``ot`` other), its value as JSON text."""

    name: str
    kind: str
    value: str


@dataclass(frozen=True)
class AutoTvmRecord:
    """One trial.

    Attributes:
        line: Its line in the log, from 1.
        task: Name of the template, e.g. ``conv2d_NCHWc.x86``.
        arguments: Its arguments as JSON text; tensors as ``["TENSOR", shape, dtype]``.
        target: Target string of old TVM.
        index: Place of the configuration in the template's space.
        knobs: The configuration.
        result: What was measured.
    """

    line: int
    task: str
    arguments: str
    target: str
    index: int | None
    knobs: tuple[Knob, ...]
    result: OldResult

    @property
    def decisions(self) -> tuple[str, ...]:
        """The knobs as short texts, e.g. ``tile_ow [-1,7]``."""
        return tuple(f"{knob.name} {knob.value}" for knob in self.knobs)


@dataclass(frozen=True)
class AutoTvmTask:
    """A printed task.

    Attributes:
        name: Name of the template.
        arguments: Its arguments as JSON text; tensors as ``["TENSOR", shape, dtype]``.
        space_size: Size of the template's space, where a comment behind the task says it.
    """

    name: str
    arguments: str
    space_size: int | None


def parse_autotvm_log(content: str) -> Parsed[AutoTvmRecord]:
    """Read a log; damaged lines are set aside."""
    return parse_json_lines(content, _record)


def parse_autotvm_tasks(content: str) -> Parsed[AutoTvmTask]:
    """Read tasks that were printed one a line; other lines are passed over."""
    tasks: list[AutoTvmTask] = []
    bad: list[BadLine] = []
    for line, content_of_line in enumerate(content.split("\n"), start=1):
        found = content_of_line.find(_TASK)
        if found < 0:
            continue
        try:
            tasks.append(_task(content_of_line[found:]))
        except LineError as error:
            bad.append(BadLine(line, str(error)))
    return Parsed(tuple(tasks), tuple(bad))


def _record(line: int, value: Any) -> AutoTvmRecord:
    version = value.get("version", value.get("v")) if isinstance(value, dict) else None
    if version not in (_NEW, _OLD):
        raise LineError(f"its version is {plain(repr(version))}; known are {_OLD} and {_NEW}")
    target, task, arguments = items(member(value, "input" if version == _NEW else "i", "the line"), "the input", least=3)[:3]
    index, entities = _config(member(value, "config", "the line")) if version == _NEW else (None, ())
    return AutoTvmRecord(
        line=line,
        task=text(task, "the task"),
        arguments=json.dumps(items(arguments, "the arguments")),
        target=text(target, "the target"),
        index=index,
        knobs=entities,
        result=parse_result(member(value, "result" if version == _NEW else "r", "the line")),
    )


def _config(value: Any) -> tuple[int | None, tuple[Knob, ...]]:
    index = value.get("index") if isinstance(value, dict) else None
    return None if index is None else integer(index, "the index"), tuple(
        _knob(entity) for entity in items(member(value, "entity", "the configuration"), "the entity")
    )


def _knob(value: Any) -> Knob:
    name, kind, choice = items(value, "a knob", least=3)[:3]
    if kind not in _KNOBS:
        raise LineError(f"{plain(repr(kind))} is no kind of knob")
    return Knob(text(name, "a knob's name"), str(kind), json.dumps(choice))


def _task(printed: str) -> AutoTvmTask:
    """A task as ``Task.__repr__`` prints it: a call of literals, which is read as such and never run."""
    code, _, comment = printed.partition("  #")
    try:
        call = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LineError("the task is no Python expression") from error
    keywords = {keyword.arg: keyword.value for keyword in call.keywords} if isinstance(call, ast.Call) else {}
    name = keywords.get("func_name")
    if not isinstance(name, ast.Name | ast.Attribute) or "args" not in keywords:
        raise LineError("the task has no func_name and args")
    try:
        arguments = json.dumps(ast.literal_eval(keywords["args"]))
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise LineError("the task's arguments are no literals") from error
    words = comment.split()
    return AutoTvmTask(ast.unparse(name), arguments, int(words[1]) if words[:1] == ["space"] and len(words) > 1 and words[1].isdecimal() else None)
