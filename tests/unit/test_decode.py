"""Records are read back as they were written, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from workbench.records.command import Failure
from workbench.records.decode import DecodeError
from workbench.records.profile import Row, Task
from workbench.records.request import ModelSource, ProfileRequest
from workbench.records.selection import SelectedTask, Selection

SOURCE = ModelSource(kind="onnx", name="net", path="/m.onnx", args=(1, [2, "x"], None), shapes={"x": (1, 3)}, trust=True, stamp="7 bytes")
REQUEST = ProfileRequest(source=SOURCE, target="cpu", fusion=False, repeat=3, threads=4, seed=9)
SELECTION = Selection("net", "cpu", (SelectedTask("a-1", "a", 10, 2.5), SelectedTask("b-2", "b")), (0, 2), "top 2")
FAILURE = Failure("ModelError", "It is broken.", "Mend it.", "Traceback")


@pytest.mark.parametrize("record", [REQUEST, SELECTION, FAILURE])
def test_a_record_comes_back_from_its_json(record: Any) -> None:
    assert type(record).from_dict(json.loads(json.dumps(record.to_dict()))) == record


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
    assert REQUEST.asks_the_same(replace(REQUEST, repeat=50, source=replace(SOURCE, name="other", trust=False)))
    for change in ({"target": "cuda"}, {"fusion": True}, {"threads": 1}, {"seed": 1}, {"source": replace(SOURCE, stamp="8 bytes")}):
        assert not REQUEST.asks_the_same(replace(REQUEST, **change))
