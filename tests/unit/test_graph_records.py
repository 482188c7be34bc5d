"""A model's graphs as a stored document: they come back as they were, and what is no graph is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from workbench.records.decode import DecodeError
from workbench.records.graph import INPUT, KERNEL, OPERATOR, OUTPUT, KernelNode, ModelGraph, SourceNode
from workbench.records.origin import Origin
from workbench.records.profile import TensorShape

TENSOR = TensorShape((1, 4, -1), "float32")
GRAPH = ModelGraph(
    source=(
        SourceNode(INPUT, Origin("", "x"), outputs=(TENSOR,)),
        SourceNode(
            OPERATOR, Origin("Conv", "/c", "line 3"), reads=(0, 0), outputs=(TENSOR,), weights=(TENSOR,), attributes={"pads": "[1, 1]"}, rows=(0, 1)
        ),
        SourceNode(OPERATOR, Origin("Reshape", "/r"), reads=(1,), builtin=True),
        SourceNode(OPERATOR, Origin("Dropout", "/d"), reads=(2,)),
        SourceNode(OUTPUT, Origin("", "y"), reads=(3,)),
    ),
    kernels=(
        KernelNode(INPUT, "x", outputs=(TENSOR,)),
        KernelNode(KERNEL, "conv", reads=(0,), outputs=(TENSOR,), weights=(TENSOR,), row=0),
        KernelNode(KERNEL, "add", reads=(1, 0), row=1),
        KernelNode(OUTPUT, "y", reads=(2,)),
    ),
)


def test_a_graph_comes_back_from_its_json_as_it_was() -> None:
    assert ModelGraph.from_dict(json.loads(json.dumps(GRAPH.to_dict()))) == GRAPH


def test_an_operator_says_what_became_of_it() -> None:
    assert [node.state for node in GRAPH.source] == ["", "called", "builtin", "eliminated", ""]


def reading(graph: str, node: int, reads: list[int]) -> Callable[[Any], None]:
    def change(values: Any) -> None:
        values[graph][node]["reads"] = reads

    return change


def without(graph: str, node: int, key: str) -> Callable[[Any], None]:
    def change(values: Any) -> None:
        del values[graph][node][key]

    return change


def with_value(graph: str, node: int, key: str, value: Any) -> Callable[[Any], None]:
    def change(values: Any) -> None:
        values[graph][node][key] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        reading("source", 1, [1]),
        reading("source", 1, [4]),
        reading("kernels", 1, [-1]),
        with_value("source", 0, "kind", "kernel"),
        with_value("kernels", 1, "kind", "operator"),
        with_value("source", 1, "rows", [2]),
        with_value("source", 1, "rows", [-1]),
        with_value("source", 0, "rows", [0]),
        with_value("kernels", 2, "row", 0),
        with_value("kernels", 0, "row", 0),
        without("kernels", 1, "row"),
        without("source", 0, "origin"),
        with_value("source", 1, "attributes", {"pads": 1}),
        with_value("source", 1, "outputs", [{"shape": ["1"], "dtype": "float32"}]),
    ],
    ids=[
        "a node that reads itself",
        "a node that reads a later one",
        "a node that reads what is before all",
        "an unknown kind in the source",
        "an unknown kind among the kernels",
        "a row behind the last",
        "a row before the first",
        "an input with a row",
        "a row twice",
        "an input that is a row",
        "a kernel without a row",
        "a node without a name",
        "an attribute that is no text",
        "a size that is no number",
    ],
)
def test_what_is_no_graph_is_refused(change: Callable[[Any], None]) -> None:
    values = json.loads(json.dumps(GRAPH.to_dict()))
    change(values)
    with pytest.raises(DecodeError):
        ModelGraph.from_dict(values)


def test_a_graph_belongs_to_the_profile_that_calls_the_same_kernels_in_the_same_order(sessions: Any) -> None:
    assert GRAPH.belongs_to(sessions.profile(["conv", "add"]))
    assert not GRAPH.belongs_to(sessions.profile(["add", "conv"]))
    assert not GRAPH.belongs_to(sessions.profile(["conv"]))
