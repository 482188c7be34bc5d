"""Rows of debug tables matched to a Relay program: fusion done again, names read back, evidence and confidence."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path

import pytest

from tests.matching_truth import verdicts
from workbench.importing.program import read_program
from workbench.legacy.debug.graph import parse_graph
from workbench.legacy.relay import parse_relay
from workbench.matching.fusion import fused_calls
from workbench.matching.layouts import likeness
from workbench.matching.names import call_number, canonical, parse_function
from workbench.matching.rows import Match, NodeRow, match_rows
from workbench.matching.shapes import infer_shape
from workbench.matching.simplify import simplified
from workbench.matching.source import SourceGraph, source_graph
from workbench.matching.structure import Structure, structures

SAMPLES = Path(__file__).parents[3] / "shared" / "legacy"
TRUTH = Path(__file__).parents[1] / "samples" / "legacy_truth"
"""What old TVM itself knows of the rows of these samples: `tests/relay/old_tvm_truth.py` built their texts for their target."""

NETWORKS = Path(__file__).parents[1] / "samples" / "matching"
"""Debug tables of the networks of `tests/relay/truth_networks.py`, with what old TVM itself knows of their rows."""

needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="samples of old artifacts are not here")


def read(text: str) -> tuple[SourceGraph, tuple[Structure, ...]]:
    graph = source_graph(parse_relay(text))
    program = simplified(graph)
    return graph, structures(program, fused_calls(program))


def fused(text: str) -> list[str]:
    """The fused functions of a program in the order of their first calls."""
    return ["_".join(structure.operators) for structure in read(text)[1]]


IMAGE = "%x: Tensor[(1, 8, 16, 16), float32]"
WEIGHT = "Tensor[(8, 8, 3, 3), float32]"
CONV = "nn.conv2d({}, {}, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3])"


# fusion


def test_a_convolution_takes_what_follows_it_element_by_element() -> None:
    assert fused(
        f"fn ({IMAGE}, %w: {WEIGHT}, %b: Tensor[(8), float32]) {{ %0 = {CONV.format('%x', '%w')}; %1 = nn.bias_add(%0, %b); nn.relu(%1) }}"
    ) == ["conv2d_add_relu"]


def test_of_two_convolutions_that_meet_in_a_sum_the_first_one_takes_it() -> None:
    text = f"fn ({IMAGE}, %w: {WEIGHT}, %v: {WEIGHT}) {{ %0 = {CONV.format('%x', '%w')}; %1 = {CONV.format('%x', '%v')}; add(%0, %1) }}"
    assert fused(text) == ["conv2d", "conv2d_add"]
    _, found = read(text)
    assert [structure.calls for structure in found] == [((1,),), ((0, 2),)]


def test_softmax_stands_alone_and_reductions_take_what_comes_before_them() -> None:
    assert fused("fn (%x: Tensor[(4, 8), float32]) { %0 = exp(%x); %1 = sum(%0, axis=[1]); nn.softmax(%1) }") == ["exp_sum", "softmax"]


def test_moves_of_data_are_fused_once_all_convolutions_are() -> None:
    text = f"fn ({IMAGE}, %w: {WEIGHT}) {{ %0 = {CONV.format('%x', '%w')}; %1 = nn.relu(%0); %2 = reshape(%1, newshape=[1, -1]); transpose(%2) }}"
    assert fused(text) == ["conv2d_relu", "reshape_transpose"]


def test_inputs_of_a_concatenation_are_not_drawn_into_it_if_they_are_convolutions() -> None:
    text = (
        f"fn ({IMAGE}, %w: {WEIGHT}) {{ %0 = {CONV.format('%x', '%w')}; %1 = nn.relu(%0); %2 = nn.relu(%x); %3 = (%1, %2); concatenate(%3, axis=1) }}"
    )
    assert fused(text) == ["conv2d_relu", "relu_concatenate"]


def test_a_batch_norm_behind_a_convolution_leaves_a_sum_and_elsewhere_perhaps_a_scale() -> None:
    norm = "nn.batch_norm({}, %g, %b, %m, %v)"
    params = "%g: Tensor[(8), float32], %b: Tensor[(8), float32], %m: Tensor[(8), float32], %v: Tensor[(8), float32]"
    text = f"fn ({IMAGE}, %w: {WEIGHT}, {params}) {{ %0 = {CONV.format('%x', '%w')}; %1 = {norm.format('%0')}; %2 = %1.0; nn.relu(%2) }}"
    assert fused(text) == ["conv2d_add_relu"]
    text = f"fn ({IMAGE}, {params}) {{ %1 = {norm.format('%x')}; %2 = %1.0; nn.relu(%2) }}"
    (structure,) = read(text)[1]
    assert (structure.operators, structure.optional) == (("multiply", "add", "relu"), frozenset({0}))


def test_a_batch_norm_over_another_axis_than_the_channels_keeps_its_scale() -> None:
    params = ", ".join(f"%{name}: Tensor[(8), float32]" for name in "gbmv")
    conv = 'nn.conv2d(%x, %w, channels=8, kernel_size=[1, 1], data_layout="NHWC", kernel_layout="HWIO")'
    for axis, expected in ((3, "conv2d_add"), (-1, "conv2d_add"), (1, "conv2d_multiply_add")):
        body = f"%0 = {conv}; %1 = nn.batch_norm(%0, %g, %b, %m, %v, axis={axis}); %1.0"
        assert fused(f"fn (%x: Tensor[(1, 8, 8, 8), float32], %w: Tensor[(1, 1, 8, 8), float32], {params}) {{ {body} }}") == [expected]


def test_norms_are_what_old_tvm_takes_them_apart_into() -> None:
    params = "%g: Tensor[(8), float32], %b: Tensor[(8), float32]"
    tail = "subtract_add_sqrt_divide_multiply_add"
    assert fused(f"fn (%x: Tensor[(4, 8), float32], {params}) {{ nn.layer_norm(%x, %g, %b) }}") == ["mean", "variance", tail]
    assert (
        fused(f"fn (%x: Tensor[(4, 8), float32], {params}) {{ nn.layer_norm(%x, %g, %b, center=False, scale=False) }}")[-1]
        == "subtract_add_sqrt_divide"
    )
    _, found = read(f"fn ({IMAGE}, {params}) {{ nn.instance_norm(%x, %g, %b) }}")
    assert [item.shape for item in found] == [(1, 8, 1, 1), (1, 8, 1, 1), (1, 8, 16, 16)]
    _, found = read(f"fn ({IMAGE}, {params}) {{ nn.group_norm(%x, %g, %b, num_groups=2) }}")
    assert [("_".join(item.operators), item.shape) for item in found] == [
        ("reshape", (1, 2, 4, 16, 16)),
        ("mean", (1, 2, 1, 1, 1)),
        ("variance", (1, 2, 1, 1, 1)),
        ("subtract_add_sqrt_divide_reshape_multiply_add", (1, 8, 16, 16)),
    ]
    assert fused("fn (%x: Tensor[(4, 8), float32]) { nn.l2_normalize(%x, eps=1e-10f, axis=[1]) }") == ["multiply_sum", "maximum_rsqrt_multiply"]


def test_data_that_is_reshaped_first_is_no_weight() -> None:
    text = (
        "fn (%x: Tensor[(1, 4, 8), float32], %w: Tensor[(8, 8), float32]) { %0 = reshape(%x, newshape=[4, 8]); %1 = transpose(%w); nn.dense(%0, %1) }"
    )
    assert fused(text) == ["reshape", "dense"]


def test_of_operators_that_do_the_same_with_the_same_one_is_kept_for_all() -> None:
    text = "fn (%x: Tensor[(4, 8), float32]) { %0 = exp(%x); %1 = exp(%x); %2 = nn.softmax(%0); %3 = nn.softmax(%1); (%2, %3) }"
    _, found = read(text)
    assert [("_".join(item.operators), item.calls) for item in found] == [("exp", ((0, 1),)), ("softmax", ((2, 3),))]


def test_each_output_of_a_split_that_is_read_makes_a_function_of_its_own() -> None:
    halves = "%0 = split(%x, indices_or_sections=2, axis=1); %1 = %0.0; %2 = %0.1;"
    body = "%3 = exp(%1); %4 = exp(%2); %5 = nn.softmax(%3); %6 = nn.softmax(%4); (%5, %6)"
    assert fused(f"fn (%x: Tensor[(4, 8), float32]) {{ {halves} {body} }}") == ["split", "exp", "softmax", "exp"]


def test_a_scale_of_each_channel_goes_from_the_data_onto_the_weights_behind_it() -> None:
    gate = f"fn ({IMAGE}, %z: Tensor[(1, 8, 1, 1), float32], %w: {WEIGHT}) {{ %1 = sigmoid(%z);"
    _, found = read(f"{gate} %2 = nn.relu(%x); %3 = multiply(%2, %1); {CONV.format('%3', '%w')} }}")
    assert [("_".join(item.operators), item.shape) for item in found] == [
        ("relu", (1, 8, 16, 16)),
        ("sigmoid_squeeze_expand_dims_multiply", (8, 8, 3, 3)),
        ("conv2d", (1, 8, 16, 16)),
    ]
    assert found[1].calls == ((0, 2),), "its operators are the sigmoid and the multiplication"
    assert "sigmoid_multiply" in fused(f"{gate} %2 = multiply(%x, %1); %3 = {CONV.format('%2', '%w')}; add(%2, %3) }}"), "the sum reads it, too"
    scale = "meta[relay.Constant][0] /* ty=Tensor[(8, 1, 1), float32] */"
    constant = f"fn ({IMAGE}, %w: {WEIGHT}) {{ %0 = multiply(%x, {scale}); {CONV.format('%0', '%w')} }}"
    assert fused(constant) == ["conv2d"], "a constant is multiplied with the weights once"
    given = f"fn ({IMAGE}, %z: Tensor[(1, 8, 1, 1), float32], %w: {WEIGHT}) {{ %0 = nn.relu(%x); %1 = multiply(%0, %z); {CONV.format('%1', '%w')} }}"
    assert fused(given) == ["relu", "squeeze_expand_dims_multiply", "conv2d"], "an input is no constant"
    twice = f"{gate} %2 = nn.relu(%x); %3 = multiply(%2, %1); %4 = {CONV.format('%3', '%w')}; %5 = multiply(%2, %1); add(%4, %5) }}"
    assert fused(twice) == ["relu_sigmoid_multiply", "conv2d_add"], "the equal product is read by the sum"


def test_what_old_tvm_has_fused_is_left_as_it_is() -> None:
    functions = " ".join(
        f'%{name} = fn (%p{name}: Tensor[(4, 8), float32], Primitive=1, hash="{name * 2}") {{ exp(%p{name}) }};' for name in ("a", "b")
    )
    program = read_program(f"fn (%x: Tensor[(4, 8), float32]) {{ {functions} %2 = %a(%x); %3 = %b(%x); (%2, %3) }}")
    assert sum(len(structure.calls) for structure in program.functions) == 2
    rows = [NodeRow(name, "fused_exp", (4, 8), 1.0, place, name * 2) for place, name in enumerate(("a", "b"))]
    assert [match.confidence for match in match_rows(rows, program.functions).values()] == [1.0, 1.0]


@pytest.mark.parametrize(
    "body",
    [
        "nn.conv2d()",
        "nn.dense() /* ty=Tensor[(4, 8), float32] */",
        "nn.batch_matmul(%x, %x) /* ty=Tensor[(4, 8), float32] */",
        "nn.max_pool2d(%x, pool_size=[None, 2]) /* ty=Tensor[(4, 8), float32] */",
        f"exp(%x) /* ty=Tensor[(1{'0' * 200}, 1{'0' * 200}), float32] */",
        "nn.layer_norm(%x, %x, %x, axis=99)",
        'nn.group_norm(%x, %x, %x, num_groups="q")',
        '%0 = multiply(%x, %x); nn.conv2d(%0, %x, data_layout="", kernel_layout="XYZ")',
    ],
)
def test_operators_whose_text_contradicts_itself_are_read_all_the_same(body: str) -> None:
    assert all(math.isfinite(structure.work) for structure in read(f"fn (%x: Tensor[(4, 8), float32]) {{ {body} }}")[1])


def test_equal_functions_are_one_structure_with_all_their_calls() -> None:
    text = f"fn ({IMAGE}, %w: {WEIGHT}, %v: {WEIGHT}) {{ %0 = {CONV.format('%x', '%w')}; {CONV.format('%0', '%v')} }}"
    (structure,) = read(text)[1]
    assert (len(structure.calls), structure.order, structure.flop) == (2, (0, 1), 2 * 8 * 16 * 16 * 8 * 9)


def test_fused_functions_of_an_optimised_text_are_inlined_and_numbered_by_call() -> None:
    text = """fn (%x: Tensor[(4, 8), float32]) {
      %2 = fn (%p0: Tensor[(4, 8), float32], Primitive=1, hash="12ab") { %0 = exp(%p0); nn.relu(%0) };
      %3 = %2(%x);
      %2(%3)
    }"""
    graph = source_graph(parse_relay(text))
    assert [(operator.name, operator.call, operator.function_hash, operator.shape) for operator in graph.operators] == [
        ("exp", 0, "12ab", (4, 8)),
        ("nn.relu", 0, "12ab", (4, 8)),
        ("exp", 1, "12ab", (4, 8)),
        ("nn.relu", 1, "12ab", (4, 8)),
    ]


# shapes


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "shape"),
    [
        ("nn.conv2d", [(1, 3, 224, 224), (64, 3, 7, 7)], {"strides": (2, 2), "padding": (3, 3, 3, 3)}, (1, 64, 112, 112)),
        ("nn.conv2d", [(1, 8, 8, 4), (3, 3, 4, 6)], {"data_layout": "NHWC", "kernel_layout": "HWIO", "dilation": (2, 2)}, (1, 4, 4, 6)),
        ("nn.conv2d", [(1, 4, 56, 56, 16), (4, 4, 3, 3, 16, 16)], {"data_layout": "NCHW16c"}, None),
        ("nn.max_pool2d", [(1, 64, 112, 112)], {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}, (1, 64, 56, 56)),
        ("nn.avg_pool2d", [(1, 2, 7, 7)], {"pool_size": (2, 2), "strides": (2, 2), "ceil_mode": True}, (1, 2, 4, 4)),
        ("nn.dense", [(1, 8), (10, 8)], {}, (1, 10)),
        ("nn.batch_matmul", [(2, 3, 4), (2, 5, 4)], {}, (2, 3, 5)),
        ("add", [(4, 1), (3,)], {}, (4, 3)),
        ("add", [(4, 2), (3,)], {}, None),
        ("reshape", [(2, 3, 4)], {"newshape": (0, -1)}, (2, 12)),
        ("reshape", [(2, 3, 4)], {"newshape": (-3, 4)}, None),
        ("transpose", [(2, 3, 4)], {"axes": (2, 0, 1)}, (4, 2, 3)),
        ("concatenate", [(1, 2, 3), (1, 4, 3)], {"axis": -2}, (1, 6, 3)),
        ("mean", [(1, 2, 3)], {"axis": (2,), "keepdims": True}, (1, 2, 1)),
        ("nn.pad", [(1, 2)], {"pad_width": ((0, 0), (1, 3))}, (1, 6)),
        ("squeeze", [(1, 2, 1)], {}, (2,)),
        ("expand_dims", [(2, 3)], {"axis": 1}, (2, 1, 3)),
        ("something_else", [(2, 3)], {}, None),
        ("nn.relu", [None], {}, None),
        ("nn.dense", [(1, 8)], {}, None),
    ],
)
def test_shapes_that_a_text_leaves_out_are_inferred_where_the_operator_is_known(
    name: str, inputs: list[object], attributes: dict[str, object], shape: object
) -> None:
    assert infer_shape(name, inputs, attributes) == shape  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "wanted", "fit"),
    [
        ((1, 64, 56, 56), (1, 64, 56, 56), 1.0),
        ((1, 4, 56, 56, 16), (1, 64, 56, 56), 0.95),
        ((1, 56, 56, 64), (1, 64, 56, 56), 0.95),
        ((1, 512, 1, 1), (1, 512), 0.9),
        ((1, 1024), (1, 16, 8, 8), 0.6),
        ((1, 4, 56, 56, 16), (1, 128, 56, 56), 0.0),
        (None, (1, 2), 0.5),
    ],
)
def test_a_shape_fits_another_in_a_blocked_layout(found: tuple[int, ...] | None, wanted: tuple[int, ...], fit: float) -> None:
    assert likeness(found, wanted) == fit


# names


@pytest.mark.parametrize(
    ("name", "operators", "number"),
    [
        ("tvmgen_default_fused_nn_contrib_conv2d_NCHWc_add_nn_relu_7", ("conv2d", "add", "relu"), 7),
        ("fused_nn_conv2d", ("conv2d",), 0),
        ("vm_mod_fused_nn_contrib_dense_pack_add", ("dense", "add"), 0),
        ("fuse_conv2d_broadcast_add_relu___1", ("conv2d", "add", "relu"), 1),
        ("fuse___layout_transform___4", ("layout_transform",), 4),
        ("fused_nn_global_avg_pool2d", ("global_avg_pool2d",), 0),
        ("fused_layout_transform_nn_batch_flatten", ("layout_transform", "reshape"), 0),
        ("reshape_nop", ("reshape",), 0),
        ("fused_my_operator_add_2", ("my", "operator", "add"), 2),
        ("fused_nn_contrib_conv2d_winograd_without_weight_transform_add_nn_relu", ("conv2d", "add", "relu"), 0),
    ],
)
def test_the_name_of_a_function_tells_its_operators_and_its_number(name: str, operators: tuple[str, ...], number: int) -> None:
    parsed = parse_function(name)
    assert (parsed.operators, parsed.number, parsed.is_cut) == (operators, number, False)


def test_a_name_that_was_too_long_tells_the_operators_that_are_left() -> None:
    name = "fused_" + "add_nn_relu_" * 7 + "e58cbb6a2a2b4c1d_"
    parsed = parse_function(name)
    assert (parsed.operators, parsed.number, parsed.is_cut) == (("add", "relu") * 7, 0, True)


def test_the_name_of_a_node_tells_the_call() -> None:
    assert call_number("fused_add_1_2", "fused_add_1") == 2
    assert call_number("fused_add_11", "fused_add_1") == 1
    assert call_number("fused_add_1", "fused_add_1") == 0


def test_one_operator_in_many_layouts_has_one_name() -> None:
    assert canonical("nn.contrib_conv2d_NCHWc") == canonical("nn.conv2d") == "conv2d"


# matching

TWINS = f"""fn ({IMAGE}, %w: {WEIGHT}, %v: Tensor[(8, 8, 5, 5), float32]) {{
  %0 = {CONV.format("%x", "%w")};
  %1 = nn.softmax(%0);
  %2 = nn.conv2d(%1, %v, padding=[2, 2, 2, 2], channels=8, kernel_size=[5, 5]);
  nn.softmax(%2)
}}"""
"""Two convolutions of one output shape; the second has nearly three times the work."""


def twins(first_us: float, second_us: float) -> dict[str, Match]:
    shape = (1, 1, 16, 16, 8)
    names = ("fused_nn_contrib_conv2d_NCHWc", "fused_nn_contrib_conv2d_NCHWc_1")
    rows = [NodeRow(name, name, shape, time_us) for name, time_us in zip(names, (first_us, second_us), strict=True)]
    return match_rows(rows, read(TWINS)[1])


def test_what_looks_the_same_is_told_apart_by_number_and_by_cost() -> None:
    _, program = read(TWINS)
    matches = twins(100.0, 280.0)
    for name, weight in (("fused_nn_contrib_conv2d_NCHWc", 3), ("fused_nn_contrib_conv2d_NCHWc_1", 5)):
        match = matches[name]
        assert match.structure is not None
        assert program[match.structure].input_shapes[1] == (8, 8, weight, weight)
        assert (match.confidence, len(match.alternatives)) == (0.9, 1)
        assert {"the same operators", "the order of the functions' numbers", "time against work"} <= set(match.evidence)


def test_where_number_and_cost_disagree_the_match_is_less_sure_and_names_the_alternative() -> None:
    matches = twins(280.0, 100.0)
    assert {match.confidence for match in matches.values()} == {0.75}
    assert all("time against work" not in match.evidence and match.alternatives for match in matches.values())


def test_calls_of_one_function_are_matched_in_their_order() -> None:
    text = f"fn ({IMAGE}, %w: {WEIGHT}, %v: {WEIGHT}) {{ %0 = {CONV.format('%x', '%w')}; {CONV.format('%0', '%v')} }}"
    rows = [NodeRow(name, "fused_nn_conv2d", (1, 8, 16, 16), 1.0) for name in ("fused_nn_conv2d_1", "fused_nn_conv2d")]
    matches = match_rows(rows, read(text)[1])
    assert [(match.structure, match.call, match.confidence) for match in (matches["fused_nn_conv2d"], matches["fused_nn_conv2d_1"])] == [
        (0, 0, 0.99),
        (0, 1, 0.99),
    ]


def chain(count: int) -> str:
    """Equal convolutions, one behind the other."""
    lines = [f"%{place} = {CONV.format(f'%{place - 1}' if place else '%x', f'%w{place}')};" for place in range(count)]
    weights = ", ".join(f"%w{place}: {WEIGHT}" for place in range(count))
    return f"fn ({IMAGE}, {weights}) {{ {' '.join(lines)} nn.softmax(%{count - 1}) }}"


def split_rows(*, ordered: bool) -> list[NodeRow]:
    """Four equal convolutions that became two compiled functions, in the order first, second, second, first; and a softmax."""
    first, second = "fused_nn_contrib_conv2d_NCHWc", "fused_nn_contrib_conv2d_NCHWc_1"
    calls = [
        (first, first, 8),
        (second, second, 4),
        (f"{second}_1", second, 4),
        (f"{first}_2", first, 8),
        ("fused_nn_softmax", "fused_nn_softmax", 8),
    ]
    return [
        NodeRow(node, function, (1, 8 // block, 16, 16, block), 1.0, place if ordered else None)
        for place, (node, function, block) in enumerate(calls)
    ]


def test_one_function_of_the_program_may_have_become_several_compiled_ones() -> None:
    _, program = read(chain(4))
    matches = match_rows(split_rows(ordered=True), program)
    convolutions = [matches[row.node] for row in split_rows(ordered=True)][:4]
    assert [(match.structure, match.call, match.confidence) for match in convolutions] == [(0, call, 0.9) for call in range(4)]
    assert all("one of 2 compiled functions that it became, which have as many calls together" in match.evidence for match in convolutions)
    assert matches["fused_nn_softmax"].confidence == 0.99


def test_without_the_order_of_execution_the_calls_of_several_compiled_functions_are_less_sure() -> None:
    _, program = read(chain(4))
    matches = match_rows(split_rows(ordered=False), program)
    convolutions = [matches[row.node] for row in split_rows(ordered=False)][:4]
    assert {(match.structure, match.confidence) for match in convolutions} == {(0, 0.75)}
    assert {match.call for match in convolutions} == set(range(4))
    _, program = read(chain(5))
    assert {match.confidence for match in match_rows(split_rows(ordered=False)[:4], program).values()} == {0.5}


def test_changes_of_layout_take_no_function_of_the_program_from_what_fits_it() -> None:
    _, program = read(chain(1))
    moves = [NodeRow(f"fused_layout_transform_{place}", f"fused_layout_transform_{place}", (1, 8, 16, 16), 1.0) for place in range(5)]
    rows = [
        *moves,
        NodeRow("fused_nn_conv2d", "fused_nn_conv2d", (1, 8, 16, 16), 9.0),
        NodeRow("fused_nn_softmax", "fused_nn_softmax", (1, 8, 16, 16), 2.0),
    ]
    matches = match_rows(rows, program)
    assert [matches[row.node].structure for row in rows] == [None] * 5 + [0, 1]


def test_a_table_of_thousands_of_functions_takes_no_memory_of_their_square() -> None:
    _, program = read(chain(1))
    rows = [NodeRow(f"fused_layout_transform_{place}", f"fused_layout_transform_{place}", (1, 8, 16, 16), 1.0) for place in range(3000)]
    tracemalloc.start()
    found = match_rows([*rows, NodeRow("fused_nn_conv2d", "fused_nn_conv2d", (1, 8, 16, 16), 9.0)], program)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found["fused_nn_conv2d"].structure == 0
    assert peak < 60e6, "a matrix of their square has 72 MB"


def test_of_more_calls_than_the_program_has_none_is_sure() -> None:
    _, program = read(chain(1))
    rows = [NodeRow(f"fused_nn_conv2d_{place}", "fused_nn_conv2d", (1, 8, 16, 16), 9.0) for place in range(3)]
    found = list(match_rows([*rows, NodeRow("fused_nn_softmax", "fused_nn_softmax", (1, 8, 16, 16), 2.0)], program).values())
    assert [(match.structure, match.call, match.confidence) for match in found] == [(0, 0, 0.5)] * 3 + [(1, 0, 0.5)]
    assert "3 calls, where the program has 1" in found[0].evidence


def test_what_the_compiler_put_in_is_no_operator_of_the_program() -> None:
    rows = [NodeRow("fused_layout_transform", "fused_layout_transform", (1, 1, 16, 16, 8), 1.0), NodeRow("fused_sort", "fused_sort", (7,), 1.0)]
    matches = match_rows(rows, read(TWINS)[1])
    assert matches["fused_layout_transform"] == Match(None, 0, 0.9, ("a change of layout that the compiler put in",))
    assert (matches["fused_sort"].structure, matches["fused_sort"].confidence) == (None, 0.0)


def test_without_a_program_nothing_is_claimed() -> None:
    match = match_rows([NodeRow("fused_add", "fused_add", (1,), 1.0)], ())["fused_add"]
    assert (match.structure, match.confidence, match.evidence) == (None, 0.0, ("there is no program to match it with",))


@pytest.mark.parametrize("network", sorted(path.name for path in NETWORKS.iterdir()))
def test_every_row_of_networks_of_many_kinds_is_matched_to_its_own_operators(network: str) -> None:
    found = verdicts(NETWORKS / network)
    assert len(found) > 10
    assert [(item.node, item.wrong) for item in found if item.wrong] == []


@needs_samples
@pytest.mark.parametrize(("model", "least"), [("mlp", 0.99), ("resnet18", 0.9)])
def test_every_row_of_a_sample_is_matched_to_its_own_operators(model: str, least: float) -> None:
    found = verdicts(SAMPLES / model, TRUTH / f"{model}.json")
    assert [(item.node, item.wrong) for item in found if item.wrong] == []
    assert all(item.match.structure is not None and item.match.confidence >= least for item in found)


@needs_samples
@pytest.mark.parametrize("model", ["mlp", "resnet18"])
def test_what_is_known_of_a_sample_is_of_the_very_functions_that_it_ran(model: str) -> None:
    graph = parse_graph((SAMPLES / model / "graph.json").read_text(encoding="utf-8"))
    rows = json.loads((TRUTH / f"{model}.json").read_text(encoding="utf-8"))["rows"]
    assert {node.name: node.structural_hash for node in graph.calls} == {row["node"]: row["hash"] for row in rows}


@needs_samples
def test_two_convolutions_of_one_shape_cannot_be_taken_for_each_other_unnoticed(tmp_path: Path) -> None:
    known = json.loads((TRUTH / "resnet18.json").read_text(encoding="utf-8"))
    first, second = (row for row in known["rows"] if row["function"].endswith("conv2d_NCHWc_add_nn_relu_1"))
    first["parameters"], second["parameters"] = second["parameters"], first["parameters"]
    (tmp_path / "swapped.json").write_text(json.dumps(known), encoding="utf-8")
    found = verdicts(SAMPLES / "resnet18", tmp_path / "swapped.json")
    assert [item.node for item in found if item.wrong] == [first["node"], second["node"]]
