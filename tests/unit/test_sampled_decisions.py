"""What a search chose in a trace, whoever wrote it, and trials as the analysis of knobs reads them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from workbench.api.knob_table import knob_table, sketches_of
from workbench.records.knob import Knob
from workbench.records.trial import OK, Trial
from workbench.tuning_database.sampled import sampled

INSTRUCTIONS: list[Any] = [
    ["GetSBlock", [], ["conv", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l1", "l2"]],
    ["SamplePerfectTile", ["l1"], [2, 64], ["v3", "v4"]],
    ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], ["v5"]],
    ["SampleComputeLocation", ["b0"], [], ["l6"]],
    ["EnterPostproc", [], [], []],
    ["SampleCategorical", [], [[1, 2], [0.5, 0.5]], ["v7"]],
]
TRIAL = Trial("conv-1", 1, OK, "", "f", "search", "c", (100.0,), 1, 0.0, 0.0, 0.0, None, None, 0.0)


def trace(tile: list[int], unroll: int, place: int, *, instructions: list[Any] = INSTRUCTIONS) -> str:
    return json.dumps([instructions, [[2, tile], [3, unroll], [4, place], [6, 1]]])


def knob(name: str, instruction: int, *, is_sampled: bool = True) -> Knob:
    return Knob(name, "tile", "conv", "i", "", is_sampled, instruction)


def test_decisions_are_read_by_place_and_those_of_the_postprocessing_are_none() -> None:
    read = sampled(trace([4, 16], 2, -2))
    assert read is not None
    assert read.values == {2: (4, 16), 3: 64, 4: "inline"}


def test_two_schedules_of_one_sketch_differ_in_their_values_alone() -> None:
    one, other = sampled(trace([4, 16], 2, 0)), sampled(trace([1, 64], 0, -1))
    assert one is not None
    assert other is not None
    assert one.sketch == other.sketch
    changed = sampled(trace([4, 16], 2, 0, instructions=[*INSTRUCTIONS[:5], INSTRUCTIONS[0], *INSTRUCTIONS[5:]]))
    assert changed is not None
    assert changed.sketch != one.sketch


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        "[[], []]",
        "[" * 5000,
        "[1, 2]",
        '[[["SamplePerfectTile"]], [[0, [1]]]]',
        '[[["X", [], [], []]], [[5, 1]]]',
        "[[[]], []]",
    ],
)
def test_what_is_no_trace_is_none_or_decides_nothing(text: str) -> None:
    read = sampled(text)
    assert read is None or read.values == {}


@pytest.mark.parametrize("decision", [None, "4", [0, 3], [-1, 2], [1.5], [10**30], True, {"a": 1}, 99, -5])
def test_a_decision_that_makes_no_sense_is_left_out(decision: Any) -> None:
    read = sampled(json.dumps([INSTRUCTIONS, [[2, decision], [3, decision if decision != 99 else 7]]]))
    assert read is None or 2 not in read.values


def test_each_factor_of_a_tiling_is_a_knob_of_its_own() -> None:
    found = [(TRIAL, trace([4, 16], 2, -1)), (replace(TRIAL, number=2, times_us=(50.0,)), trace([1, 64], 0, 1))]
    (sketch,) = sketches_of(found)
    assert sketches_of(found) == {sketch: 1}
    table = knob_table(found, {sketch: [knob("tile conv/i", 2), knob("unroll conv", 3), knob("bind", 4, is_sampled=False)]})
    assert [row.time_us for row in table] == [100.0, 50.0]
    assert table[0].values == {"tile conv/i, factor 1 of 2": 4, "tile conv/i, factor 2 of 2": 16, "unroll conv": 64, "decision 4": "root"}
    assert table[1].values["decision 4"] == "loop 1"


def test_trials_without_a_time_or_of_an_unnamed_sketch_are_left_out() -> None:
    found = [(replace(TRIAL, times_us=()), trace([4, 16], 2, -1)), (TRIAL, "damaged")]
    assert knob_table(found, {sketch: [] for sketch in sketches_of(found)}) == []
    assert knob_table([(TRIAL, trace([4, 16], 2, -1))], {}) == []
