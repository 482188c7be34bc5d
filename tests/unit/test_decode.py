"""Records are read back as they were written, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from workbench.machine import read_machine
from workbench.records.command import Failure
from workbench.records.decode import DecodeError
from workbench.records.machine import Machine
from workbench.records.origin import Origin
from workbench.records.profile import Row, Task
from workbench.records.request import ModelSource, ProfileRequest
from workbench.records.selection import SelectedTask, Selection
from workbench.records.target import TargetSpec

SOURCE = ModelSource(kind="onnx", name="net", path="/m.onnx", args=(1, [2, "x"], None), shapes={"x": (1, 3)}, stamp="7 bytes")
REQUEST = ProfileRequest(source=SOURCE, target="cpu", fusion=False, repeat=3, threads=4, seed=9)
SELECTION = Selection("net", "cpu", (SelectedTask("a-1", "a", 10, 2.5), SelectedTask("b-2", "b")), (0, 2), "top 2")
TARGET: dict[str, Any] = {"kind": "llvm", "config": {"kind": "llvm"}, "label": "cpu", "description": "llvm", "remarks": ["x"]}
FAILURE = Failure("ModelError", "It is broken.", "Mend it.", "Traceback")


@pytest.mark.parametrize("record", [REQUEST, SELECTION, FAILURE])
def test_a_record_comes_back_from_its_json(record: Any) -> None:
    assert type(record).from_dict(json.loads(json.dumps(record.to_dict()))) == record


def test_trust_is_neither_written_nor_read() -> None:
    trusted = replace(REQUEST, source=replace(SOURCE, trust=True))
    assert trusted.to_dict() == REQUEST.to_dict()
    values = REQUEST.to_dict()
    values["source"]["trust"] = True
    assert ProfileRequest.from_dict(values) == REQUEST
    assert ModelSource.from_dict(values["source"]) == SOURCE


def each(record: Any, *values: Any) -> list[tuple[Any, Any]]:
    return [(record, value) for value in values]


WRONG = [
    *each(Origin, {"op": "Conv"}, {"op": 5, "name": "x"}, {"op": "Conv", "name": ["x"]}, [], None),
    *each(TargetSpec, {}, [], "cpu", *({**TARGET, name: 5} for name in TARGET), {**TARGET, "config": "llvm"}, {**TARGET, "remarks": [1]}),
    *each(Machine, {}, [], {"host": "h", "cpu": {}}),
]


@pytest.mark.parametrize(("record", "values"), WRONG)
def test_no_record_takes_a_value_of_another_type(record: Any, values: Any) -> None:
    with pytest.raises(DecodeError):
        record.from_dict(values)


def test_a_machine_and_a_target_come_back_from_their_json() -> None:
    machine = read_machine()
    assert Machine.from_dict(json.loads(json.dumps(machine.to_dict()))) == machine
    with pytest.raises(DecodeError, match=r"total_bytes"):
        Machine.from_dict({**machine.to_dict(), "memory": {"total_bytes": "much", "available_bytes": 1}})
    assert TargetSpec.from_dict(TARGET).to_dict() == TARGET


def test_rows_and_tasks_come_back_from_their_json(sessions: Any) -> None:
    profile = sessions.profile(["conv2d", "dense", "conv2d"])
    assert [Row.from_record(json.loads(json.dumps(row.to_record()))) for row in profile.rows] == list(profile.rows)
    assert [Task.from_dict(json.loads(json.dumps(task.to_dict()))) for task in profile.tasks] == list(profile.tasks)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", "0"),
        ("seed", 1.5),
        ("seed", True),
        ("seed", 10**301),
        ("fusion", 1),
        ("target", None),
        ("repeat", []),
        ("source", []),
        ("source", {"kind": "onnx"}),
        ("source", {"kind": "onnx", "name": "n", "shapes": {"x": "12"}}),
        ("source", {"kind": "onnx", "name": "n", "shapes": {"x": [1.0]}}),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_place(field: str, value: Any) -> None:
    with pytest.raises(DecodeError, match=f"ProfileRequest.{field}"):
        ProfileRequest.from_dict({**REQUEST.to_dict(), field: value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", True, 10**301])
def test_a_time_must_be_a_finite_number(value: Any, sessions: Any) -> None:
    values = sessions.profile(["conv2d"]).rows[0].to_record()
    with pytest.raises(DecodeError, match=r"Row\.time_us is"):
        Row.from_record({**values, "time_us": value})


@pytest.mark.parametrize("values", [None, [], "text", 5])
def test_what_is_no_object_is_refused(values: Any) -> None:
    for record in (Row.from_record, Task.from_dict, Selection.from_dict, ProfileRequest.from_dict):
        with pytest.raises(DecodeError):
            record(values)


def test_a_field_with_a_default_may_be_missing_and_others_may_not() -> None:
    values = REQUEST.to_dict()
    del values["seed"], values["source"]["stamp"]
    assert ProfileRequest.from_dict(values) == replace(REQUEST, seed=0, source=replace(SOURCE, stamp=""))
    del values["source"]["kind"]
    with pytest.raises(DecodeError, match=r"kind is missing"):
        ProfileRequest.from_dict(values)


def test_two_requests_ask_the_same_whatever_the_number_of_runs_the_name_and_the_trust() -> None:
    assert REQUEST.asks_the_same(replace(REQUEST, repeat=50, source=replace(SOURCE, name="other", trust=True)))
    for change in ({"target": "cuda"}, {"fusion": True}, {"threads": 1}, {"seed": 1}, {"source": replace(SOURCE, stamp="8 bytes")}):
        assert not REQUEST.asks_the_same(replace(REQUEST, **change))
