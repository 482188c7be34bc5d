"""What is one box of a graph: the operators of one kernel call, and what does nothing between them; never so that a box reads what reads it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from workbench.graphs import Unit, kernel_units, source_units, without_constants
from workbench.records.graph import INPUT, KERNEL, OPERATOR, OUTPUT, KernelNode, ModelGraph, SourceNode
from workbench.records.origin import Origin


def operator(op: str, *reads: int, rows: tuple[int, ...] = (), builtin: bool = False, **attributes: str) -> SourceNode:
    return SourceNode(OPERATOR, Origin(op, f"{op}{reads}"), reads=reads, rows=rows, builtin=builtin, attributes=attributes)


def units_of(*nodes: SourceNode) -> list[tuple[int, ...]]:
    return [unit.nodes for unit in made(*nodes)]


def made(*nodes: SourceNode) -> tuple[Unit, ...]:
    return source_units(ModelGraph((SourceNode(INPUT, Origin("", "x")), *nodes), ()))


def test_operators_of_one_row_are_one_box_and_say_which_row() -> None:
    units = made(operator("Conv", 0, rows=(0,)), operator("Relu", 1, rows=(0,)), operator("Softmax", 2, rows=(1,)))
    assert [(unit.nodes, unit.row, unit.reads) for unit in units] == [((0,), None, ()), ((1, 2), 0, (0,)), ((3,), 1, (1,))]


def test_an_operator_of_several_rows_is_in_the_box_of_the_last() -> None:
    assert units_of(operator("LayerNorm", 0, rows=(0, 1)), operator("Relu", 1, rows=(1,))) == [(0,), (1, 2)]


def test_what_does_nothing_between_operators_of_a_row_is_in_their_box() -> None:
    nodes = (operator("Conv", 0, rows=(0,)), operator("Dropout", 1), operator("Identity", 2), operator("Relu", 3, rows=(0,)))
    assert units_of(*nodes) == [(0,), (1, 2, 3, 4)]


def test_what_does_nothing_before_or_behind_a_row_is_a_box_of_its_own() -> None:
    nodes = (operator("Dropout", 0), operator("Conv", 1, rows=(0,)), operator("Dropout", 2), operator("Relu", 3, rows=(1,)))
    assert units_of(*nodes) == [(0,), (1,), (2,), (3,), (4,)]


def test_operators_of_a_row_that_stand_around_another_row_are_apart() -> None:
    around = (operator("A", 0, rows=(0,)), operator("B", 1, rows=(1,)), operator("C", 2, rows=(0,)))
    assert units_of(*around) == [(0,), (1,), (2,), (3,)]


def test_constants_are_what_no_input_reaches_and_nothing_runs() -> None:
    units = made(operator("Constant"), operator("Shape", 1), operator("Random", rows=(0,)), operator("Reshape", 0, 2, builtin=True))
    assert [unit.constant for unit in units] == [False, True, True, False, False]
    places, kept = without_constants(units)
    assert places == [0, 3, 4]
    assert [unit.reads for unit in kept] == [(), (), (0,)]


def test_what_is_computed_from_shapes_alone_is_constant() -> None:
    nodes = (operator("Shape", 0), operator("Gather", 1), operator("Reshape", 0, 2, builtin=True), operator("Shape", 3, rows=(0,)))
    assert [unit.constant for unit in made(*nodes)] == [False, True, True, False, False]


def test_boxes_that_do_the_same_have_equal_labels() -> None:
    first = made(operator("Conv", 0, rows=(0,), pads="1"), operator("Relu", 1, rows=(0,)))[1]
    same = made(operator("Cast", 0), operator("Conv", 1, rows=(0,), pads="1"), operator("Relu", 2, rows=(0,)))[2]
    other = made(operator("Conv", 0, rows=(0,), pads="2"), operator("Relu", 1, rows=(0,)))[1]
    assert first.label == same.label != other.label


def test_a_kernel_call_is_a_box_labelled_by_its_operators(sessions: Any) -> None:
    profile = sessions.profile(["conv2d", "dense", "conv2d"])
    calls = [KernelNode(KERNEL, row.kernel, (row.row,), row=row.row) for row in profile.kernel_rows]
    units = kernel_units(ModelGraph((), (KernelNode(INPUT, "x"), *calls, KernelNode(OUTPUT, "y", (3,)))), profile)
    assert [unit.nodes for unit in units] == [(0,), (1,), (2,), (3,), (4,)]
    assert [unit.reads for unit in units] == [(), (0,), (1,), (2,), (3,)]
    assert [unit.row for unit in units] == [None, 0, 1, 2, None]
    assert units[1].label == units[3].label != units[2].label


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_rows_are_every_node_is_in_one_box_and_no_box_reads_what_reads_it(seed: int) -> None:
    draw = random.Random(seed)
    nodes = []
    for number in range(1, 120):
        reads = tuple(draw.randrange(max(0, number - 8), number) for _ in range(draw.randint(0, 3)))
        rows = tuple(sorted(draw.sample(range(30), draw.choice([0, 1, 1, 2]))))
        nodes.append(operator(draw.choice("abc"), *reads, rows=rows))
    units = made(*nodes)
    assert sorted(node for unit in units for node in unit.nodes) == list(range(120))
    assert all(read < place for place, unit in enumerate(units) for read in unit.reads)
    box = {node: place for place, unit in enumerate(units) for node in unit.nodes}
    for number, node in enumerate(nodes, start=1):
        for read in node.reads:
            assert box[read] == box[number] or box[read] in units[box[number]].reads
