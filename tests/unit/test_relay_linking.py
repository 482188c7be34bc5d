"""Operators of an optimised model and the calls of its source, as graphs: what lost its number is found by neighbours, kind and order."""

from __future__ import annotations

from workbench.engines.relay.tvm_side.linking import Nodes, link


def chain(*ops: str, numbers: list[int | None] | None = None) -> Nodes:
    """Operators of which each reads the one before."""
    reads: list[list[int]] = [[place - 1] if place else [] for place in range(len(ops))]
    return Nodes(ops, reads, numbers or list(range(len(ops))), [[len(ops) - 1]])


def test_what_keeps_its_number_is_tied_by_it() -> None:
    made = chain("nn.contrib_conv2d_NCHWc", "nn.relu", numbers=[0, 1])
    assert link(chain("nn.conv2d", "nn.relu"), made, [0, 0]) == {0: [0], 1: [1]}


def test_what_lost_its_number_is_tied_by_its_kind_and_its_neighbours() -> None:
    source = chain("nn.conv2d", "nn.bias_add", "nn.relu", "nn.dense", "nn.bias_add", "nn.softmax")
    made = chain("nn.contrib_conv2d_NCHWc", "add", "nn.relu", "nn.contrib_dense_pack", "add", "nn.softmax", numbers=[None, None, 2, None, None, 5])
    assert link(source, made, [0, 0, 0, 1, 1, 2]) == {0: [0], 1: [1], 2: [2], 3: [3], 4: [4], 5: [5]}


def test_twins_that_meet_in_one_operator_are_told_apart_by_the_place_of_its_argument() -> None:
    source = Nodes(("nn.conv2d", "nn.bias_add", "nn.conv2d", "nn.bias_add", "add"), [[], [0], [], [2], [1, 3]], range(5), [[4]])
    made = Nodes(("conv2d", "add", "conv2d", "add", "add"), [[], [0], [], [2], [1, 3]], [None, None, None, None, 4], [[4]])
    assert link(source, made, [0, 0, 1, 1, 1]) == {0: [0], 1: [1], 2: [2], 3: [3], 4: [4]}


def test_twins_between_the_same_neighbours_are_told_apart_by_their_order() -> None:
    """An older TVM numbers nothing: the graphs are the same but for the names."""
    ops, reads = ("nn.dense", "nn.dense", "nn.dense", "multiply", "subtract"), [[], [], [], [0, 1], [3, 2]]
    found = link(Nodes(ops, reads, range(5), [[4]]), Nodes(ops, reads, [None] * 5, [[4]]), [0, 1, 2, 3, 4])
    assert found == {place: [place] for place in range(5)}


def test_results_of_the_model_are_told_apart_by_their_order() -> None:
    source = Nodes(("nn.dense", "nn.dense"), [[], []], range(2), [[1], [0]])
    made = Nodes(("nn.contrib_dense_pack", "nn.contrib_dense_pack"), [[], []], [None, None], [[1], [0]])
    assert link(source, made, [0, 1]) == {0: [0], 1: [1]}


def test_all_that_a_batch_norm_became_is_tied_to_it() -> None:
    source = chain("nn.relu", "nn.batch_norm", "sigmoid")
    made = chain("nn.relu", "multiply", "add", "sigmoid", numbers=[0, None, None, 2])
    assert link(source, made, [0, 1, 2, 3]) == {0: [0], 1: [1], 2: [1], 3: [2]}


def test_a_batch_norm_and_a_bias_between_the_same_neighbours_are_told_apart() -> None:
    source = chain("nn.conv2d", "nn.bias_add", "nn.batch_norm", "nn.relu")
    made = chain("nn.conv2d", "add", "multiply", "add", "nn.relu", numbers=[None, None, None, None, 3])
    assert link(source, made, [0, 0, 1, 1, 1]) == {0: [0], 1: [1], 2: [2], 3: [2], 4: [3]}


def test_a_call_that_became_something_of_another_kind_is_tied_to_what_is_left_there() -> None:
    made = chain("nn.relu", "clip", "round", "nn.softmax", numbers=[0, None, None, 2])
    assert link(chain("nn.relu", "qnn.quantize", "nn.softmax"), made, [0, 1, 1, 2]) == {0: [0], 1: [1], 2: [1], 3: [2]}


def test_a_call_that_is_computed_a_second_time_is_tied_there_too() -> None:
    """As scales that are folded into the weights of a shared branch make it."""
    source = Nodes(("nn.relu", "nn.conv2d", "sigmoid", "tanh"), [[], [0], [1], [1]], range(4), [[2], [3]])
    made = Nodes(("nn.relu", "nn.conv2d", "sigmoid", "nn.conv2d", "tanh"), [[], [0], [1], [0], [3]], [0, 1, 2, None, 3], [[2], [4]])
    assert link(source, made, [0, 1, 1, 2, 2]) == {0: [0], 1: [1], 2: [2], 3: [1], 4: [3]}


def test_a_call_of_which_nothing_is_left_is_tied_to_nothing() -> None:
    source = chain("nn.relu", "nn.dropout", "nn.softmax")
    assert link(source, chain("nn.relu", "nn.softmax", numbers=[0, 2]), [0, 1]) == {0: [0], 1: [2]}


def test_a_row_that_only_moves_data_is_of_all_that_read_it_or_else_of_what_it_reads() -> None:
    source = Nodes(("nn.conv2d", "nn.conv2d", "add"), [[], [], [0, 1]], range(3), [[2]])
    ops = ("layout_transform", "nn.contrib_conv2d_NCHWc", "nn.contrib_conv2d_NCHWc", "add", "layout_transform")
    made = Nodes(ops, [[], [0], [0], [1, 2], [3]], [None, 0, 1, 2, None], [[4]])
    assert link(source, made, [0, 1, 2, 2, 3]) == {0: [0, 1], 1: [0], 2: [1], 3: [2], 4: [2]}
