"""The import of Relay text into Relax: inputs and weights, origins, constants, inlined functions, checks, and how it refuses."""

from __future__ import annotations

import base64
import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.ir import GenericConst

from workbench.engines.relax.engine import RelaxEngine
from workbench.engines.relax.program import Program
from workbench.engines.relax.relay import import_relay, memory
from workbench.errors import ModelError
from workbench.records.request import ModelSource

Array = NDArray[Any]
LEGACY = Path(__file__).parents[2].parent / "shared/legacy"
NET = """#[version = "0.0.5"]
def @main(%data: Tensor[(1, 4, 8, 8), float32], %conv0_weight: Tensor[(8, 4, 3, 3), float32], %bn_gamma: Tensor[(8), float32], \
%bn_beta: Tensor[(8), float32], %bn_moving_mean: Tensor[(8), float32], %bn_moving_var: Tensor[(8), float32], \
%fc.weight: Tensor[(10, 8), float32], %bias: Tensor[(10), float32]) -> Tensor[(1, 10), float32] {
  %0 = nn.conv2d(%data, %conv0_weight, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]) /* ty=Tensor[(1, 8, 8, 8), float32] */;
  %1 = nn.batch_norm(%0, %bn_gamma, %bn_beta, %bn_moving_mean, %bn_moving_var) /* ty=(Tensor[(1, 8, 8, 8), float32], Tensor[(8), float32], \
Tensor[(8), float32]) */;
  %2 = %1.0 /* ty=Tensor[(1, 8, 8, 8), float32] */;
  %3 = nn.relu(%2) /* ty=Tensor[(1, 8, 8, 8), float32] */;
  %4 = nn.global_avg_pool2d(%3) /* ty=Tensor[(1, 8, 1, 1), float32] */;
  %5 = nn.batch_flatten(%4) /* ty=Tensor[(1, 8), float32] */;
  %6 = nn.dense(%5, %fc.weight, units=10) /* ty=Tensor[(1, 10), float32] */;
  add(%6, %bias) /* ty=Tensor[(1, 10), float32] */
}
"""
BLOCKED = """def @main(%data: Tensor[(1, 4, 8, 8), float32], hash="1") -> Tensor[(1, 10), float32] {
  %1 = fn (%p0: Tensor[(1, 4, 8, 8), float32], Primitive=1) -> Tensor[(1, 2, 8, 8, 2), float32] {
    layout_transform(%p0, src_layout="NCHW", dst_layout="NCHW2c") /* ty=Tensor[(1, 2, 8, 8, 2), float32] */
  };
  %2 = %1(%data) /* ty=Tensor[(1, 2, 8, 8, 2), float32] */;
  %5 = fn (%p01: Tensor[(1, 2, 8, 8, 2), float32], %p1: Tensor[(2, 2, 3, 3, 2, 4), float32], %p2: Tensor[(1, 2, 1, 1, 4), float32], Primitive=1) {
    %3 = nn.contrib_conv2d_NCHWc(%p01, %p1, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3], data_layout="NCHW2c", \
kernel_layout="OIHW2i4o", out_layout="NCHW4c") /* ty=Tensor[(1, 2, 8, 8, 4), float32] */;
    %4 = add(%3, %p2) /* ty=Tensor[(1, 2, 8, 8, 4), float32] */;
    nn.relu(%4) /* ty=Tensor[(1, 2, 8, 8, 4), float32] */
  };
  %6 = %5(%2, meta[relay.Constant][0] /* ty=Tensor[(2, 2, 3, 3, 2, 4), float32] */, \
meta[relay.Constant][1] /* ty=Tensor[(1, 2, 1, 1, 4), float32] */);
  %7 = nn.global_avg_pool2d(%6, layout="NCHW4c") /* ty=Tensor[(1, 2, 1, 1, 4), float32] */;
  %8 = layout_transform(%7, src_layout="NCHW4c", dst_layout="NCHW") /* ty=Tensor[(1, 8, 1, 1), float32] */;
  %9 = nn.batch_flatten(%8) /* ty=Tensor[(1, 8), float32] */;
  %10 = nn.contrib_dense_pack(%9, meta[relay.Constant][2] /* ty=Tensor[(2, 8, 5), float32] */, units=None, weight_layout="NC5n");
  add(%10, meta[relay.Constant][3] /* ty=Tensor[(1, 10), float32] */) /* ty=Tensor[(1, 10), float32] */
}
"""


def with_metadata(text: str, arrays: list[Array]) -> str:
    """The text with a metadata section that has these float32 constants."""
    tensors = []
    for array in arrays:
        head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim, 2, 32, 1) + struct.pack(f"<{array.ndim}q", *array.shape)
        tensors.append(base64.b64encode(head + struct.pack("<q", array.nbytes) + array.tobytes()).decode())
    constants = [{"type_key": "relay.Constant", "attrs": {"data": str(index)}} for index in range(len(arrays))]
    members = {"type_key": "Array", "data": list(range(3, 3 + len(arrays)))}
    nodes = [{"type_key": ""}, {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]}, members, *constants]
    return f"{text}\n#[metadata]\n" + json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": tensors})


def run(program: Program, *arguments: Array) -> Array:
    """Compile for the CPU and run; the one output."""
    executable = tvm.compile(program.module, target=tvm.target.Target({"kind": "llvm"}))
    output: Array = relax.VirtualMachine(executable, tvm.cpu())["main"](*[tvm.runtime.tensor(array) for array in arguments]).numpy()
    return output


def constants_of(program: Program) -> list[Array]:
    """The constants of main in the order of the bindings."""
    found: list[Array] = []
    relax.analysis.post_order_visit(
        program.module["main"].body, lambda node: found.append(node.value.numpy()) if isinstance(node, GenericConst) else None
    )
    return found


def bindings_of(program: Program) -> list[str]:
    """The names that main binds."""
    return [str(binding.var.name) for block in program.module["main"].body.blocks for binding in block.bindings]


def inputs_of(text: str) -> list[str]:
    return [str(param.name) for param in import_relay(text).module["main"].params]


def failure_of(text: str, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        import_relay(text, **options)
    assert caught.value.remedy
    return caught.value.message


def function(body: str, *, kind: str = "Tensor[(2, 3), float32]") -> str:
    return f"fn (%x: {kind}, %y: {kind}) {{\n{body}\n}}"


def conv(data: Array, weight: Array) -> Array:
    """A 3x3 convolution with one element of padding."""
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, weight))


def test_the_data_is_an_input_and_all_else_is_a_constant() -> None:
    program = import_relay(NET)
    main = program.module["main"]
    assert [str(param.name) for param in main.params] == ["data"]
    assert int(main.attrs["num_input"]) == 1
    assert program.random_weights
    assert len(constants_of(program)) == 7


def test_every_binding_is_named_from_the_operator_variable_and_line_it_comes_from() -> None:
    program = import_relay(NET)
    looked_up = {name: program.origins.lookup(name) for name in bindings_of(program)}
    named = [str(origin) for origins in looked_up.values() for origin in origins]
    assert list(dict.fromkeys(named)) == [
        "nn.conv2d %0 (line 3)",
        "nn.batch_norm %1 (line 4)",
        "nn.relu %3 (line 6)",
        "nn.global_avg_pool2d %4 (line 7)",
        "nn.batch_flatten %5 (line 8)",
        "nn.dense %6 (line 9)",
        "add return value (line 10)",
    ]
    assert all(looked_up.values())
    assert list(looked_up)[-1].startswith("o6_")


def test_random_weights_depend_on_the_seed_alone_and_are_scaled_for_their_use() -> None:
    first, again, other = (constants_of(import_relay(NET, seed=seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    weight, gamma, _, _, variance = first[:5]
    assert abs(weight.std() - 1 / 6) < 0.03
    assert abs(gamma.mean() - 1) < 0.2
    assert variance.min() > 0


def test_a_batch_norm_that_was_taken_apart_has_no_square_root_of_a_negative_number() -> None:
    text = """fn (%x: Tensor[(2, 64), float32], %bn_moving_var: Tensor[(64), float32]) {
      %0 = sqrt(add(%bn_moving_var, 1e-05f));
      %1 = add(meta[relay.Constant][0] /* ty=Tensor[(64), float32] */, 1e-05f);
      multiply(divide(%x, %0), rsqrt(%1))
    }"""
    assert np.isfinite(run(import_relay(text), np.ones((2, 64), "float32"))).all()


def test_weights_in_the_text_are_used_and_blocked_layouts_become_plain_ones() -> None:
    draw = np.random.default_rng(3)
    weight, bias = draw.standard_normal((8, 4, 3, 3)).astype("float32"), draw.standard_normal(8).astype("float32")
    dense, offset = draw.standard_normal((10, 8)).astype("float32"), draw.standard_normal((1, 10)).astype("float32")
    packed = weight.reshape(2, 4, 2, 2, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    text = with_metadata(BLOCKED, [packed, bias.reshape(1, 2, 1, 1, 4), dense.reshape(2, 5, 8).transpose(0, 2, 1), offset])
    program = import_relay(text)
    script = program.module.script()
    assert not program.random_weights
    assert "permute_dims" not in script
    assert 'data_layout="NCHW"' in script
    assert program.notes == ("packed layouts of the text were unpacked",)
    data = draw.standard_normal((1, 4, 8, 8)).astype("float32")
    expected = np.maximum(conv(data, weight) + bias.reshape(-1, 1, 1), 0).mean((2, 3)) @ dense.T + offset
    np.testing.assert_allclose(run(program, data), expected, rtol=1e-4, atol=1e-5)


def test_a_text_of_plain_layouts_has_no_note_and_one_of_packed_layouts_says_so_to_the_reader(tmp_path: Path) -> None:
    assert import_relay(NET).notes == ()
    assert import_relay(function('layout_transform(%x, src_layout="NC", dst_layout="CN")')).notes == ()
    path = tmp_path / "optimized.relay.txt"
    path.write_text(BLOCKED)
    notes = RelaxEngine().import_model(ModelSource(kind="relay", name="optimized", path=str(path)), seed=0, function=None)
    assert notes == ("random weights", "packed layouts of the text were unpacked")


def test_calls_inside_fused_functions_have_origins_named_by_what_they_are_bound_to() -> None:
    program = import_relay(BLOCKED)
    assert [str(origin) for origin in program.origins.origins][:4] == [
        "layout_transform %2 (line 3)",
        "nn.contrib_conv2d_NCHWc %3 (line 7)",
        "add %4 (line 8)",
        "nn.relu %6 (line 9)",
    ]


@pytest.mark.parametrize(
    ("params", "body", "inputs"),
    [
        ({"a": (2, 3), "b": (2, 3)}, "add(%a, %b)", ["a", "b"]),
        ({"a": (2, 3), "bias": (3,)}, "add(%a, %bias)", ["a"]),
        ({"a": (2, 3), "p": (4, 3)}, "nn.dense(%a, %p)", ["a"]),
        ({"a": (2, 3), "p": (3, 4)}, "nn.dense(%a, transpose(%p, axes=[1, 0]))", ["a"]),
        ({"w": (5, 3), "input_ids": (2,)}, 'take(%w, cast(%input_ids, dtype="int32"), axis=0)', ["input_ids"]),
        ({"weight": (2, 3), "bias": (2, 3)}, "add(%weight, %bias)", ["weight"]),
        ({"a/b:0": (2, 3), "o1_x": (2, 3)}, "add(%a/b:0, %o1_x)", ["a_b_0", "vo1_x"]),
        ({"x": (2, 3), "gamma": (3,), "beta": (3,)}, "nn.layer_norm(%x, %gamma, %beta)", ["x"]),
        ({"p0": (2, 3), "p1": (4, 3)}, "fn (%q: Tensor[(2, 3), float32], %r: Tensor[(4, 3), float32]) { nn.dense(%q, %r) }(%p0, %p1)", ["p0"]),
    ],
)
def test_inputs_and_weights_are_told_apart_by_name_and_use(params: dict[str, tuple[int, ...]], body: str, inputs: list[str]) -> None:
    signature = ", ".join(f"%{name}: Tensor[{shape}, float32]" for name, shape in params.items())
    assert inputs_of(f"fn ({signature}) {{ {body} }}") == inputs


def test_a_parameter_with_a_given_shape_is_an_input_and_open_dimensions_are_filled() -> None:
    text = "fn (%x: Tensor[(?, 3), float32], %w: Tensor[(4, 3), float32]) { nn.dense(%x, %w) /* ty=Tensor[(?, 4), float32] */ }"
    assert "%x: Tensor[(?, 3), float32] (line 1, column 5)" in failure_of(text)
    program = import_relay(text, shapes={"x": (2, 3)})
    assert str(program.module["main"].ret_ty) == 'R.Tensor((2, 4), dtype="float32")'
    assert len(import_relay(text, shapes={"x": (2, 3), "w": (4, 3)}).module["main"].params) == 2
    assert "does not fit" in failure_of(text, shapes={"x": (2, 4)})
    assert "does not have as a parameter" in failure_of(text, shapes={"z": (2, 4)})


def test_a_tuple_may_be_the_result() -> None:
    program = import_relay(function("%0 = nn.relu(%x);\n(%0, (%y, %0))"))
    assert str(program.module["main"].ret_ty).count("Tensor") == 3


def test_a_parameter_or_a_constant_may_be_the_result() -> None:
    assert "return" in str(import_relay(function("%x")).origins.origins[0])
    assert import_relay(function("1f")).module["main"].ret_ty.dtype == "float32"


def test_functions_of_the_module_are_inlined_at_their_calls() -> None:
    text = "def @half(%p: Tensor[(2), float32]) { multiply(%p, 0.5f) }\ndef @main(%x: Tensor[(2), float32]) { @half(@half(%x)) }"
    np.testing.assert_allclose(run(import_relay(text), np.array([4, 8], "float32")), [1, 2])


def test_all_unknown_operators_are_listed_with_their_places() -> None:
    message = failure_of(function("%0 = my.operator(%x);\n%1 = other(%0);\nfn (%z: float32) { my.operator(%z) }(%y)"))
    assert "my.operator at 2:6, 4:20; other at 3:6" in message


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("%0 = add(%x, %x);\nadd(%0, reshape(%y, newshape=[3, 2]))", "line 3, column 1: add is refused by TVM"),
        ("nn.relu(%x) /* ty=Tensor[(2, 4), float32] */", "nn.relu gives Tensor[(2, 3), float32], but the text says Tensor[(2, 4), float32]"),
        ("nn.relu(%x) /* ty=Tensor[(2, 3), float16] */", "but the text says"),
        ("reshape(%x, newshape=[4, -1])", "reshape of (2, 3) to [4, -1] is impossible"),
        ("nn.softmax(%x, axis=2)", "line 2, column 1: nn.softmax has axis=2 on a tensor of rank 2"),
        ("transpose(%x, axes=[0, 0])", "has axes [0, 0]"),
        ("nn.conv2d(%x, %y)", "cannot have layout NCHW"),
        ('layout_transform(%x, src_layout="NC", dst_layout="NC4c")', "cannot be split"),
        ('layout_transform(%x, src_layout="NC", dst_layout="N(C")', "is no layout"),
        ("nn.relu((%x, %y))", "needs a tensor, not a tuple"),
        ("concatenate(%x, axis=0)", "needs a tuple"),
        ("concatenate()", "has 0 operands"),
        ("split(%x, indices_or_sections=2, axis=1)", "into 2 equal parts"),
        ('cast(%x, dtype="quux")', "cast is refused by TVM"),
        ('take(%x, %y, mode="sideways")', "has mode='sideways'"),
        ("%x.0", "item 0 of what is no tuple"),
        ("(%x, %y).2", "item 2 of a tuple of 2"),
        ("%x(%y)", "no function"),
        ("fn (%a: float32) { %a }(%x, %y)", "1 parameters is called with 2"),
        ("fn (%a: float32) { %a }", "a function is used as a value"),
        ("@nowhere(%x)", "@nowhere is not defined"),
        ("meta[relay.Constant][0]", "neither a value nor a type"),
        ("meta[relay.Constant][0] /* ty=Tensor[(?), float32] */", "neither a value nor a type"),
        ("meta[relay.Other][0]", "only meta[relay.Constant]"),
        ("99999999999", "is no int32"),
        ("strided_slice(%x, begin=[2], end=[1])", "without any element"),
        ("tile(%x, reps=[1000000, 1000000])", "GiB"),
        ('zeros(shape=[99999999, 99999999], dtype="float32")', "GiB"),
        ("stop_fusion(%x, compiler=[[1], None]) /* ty=Tensor[(2, 3), float32] */.0", "no tuple"),
    ],
)
def test_a_wrong_call_is_refused_with_its_place_and_operator(body: str, what: str) -> None:
    message = failure_of(function(body))
    assert what in message, message
    assert "line" in message


@pytest.mark.parametrize(
    ("call", "what", "remedy"),
    [
        ("nn.softmax(%x, axes=1)", "line 3, column 3: nn.softmax has no attribute axes", "Did you mean axis?"),
        ("nn.max_pool2d(%x, pool_sizes=[2, 2])", "no attribute pool_sizes", "Did you mean pool_size?"),
        ("nn.max_pool2d(%x, pool_size=[2, 2], stride=[2, 2])", "no attribute stride", "Did you mean strides"),
        ("sum(%x, axis=1, keepdim=True)", "no attribute keepdim", "Did you mean keepdims?"),
        ("nn.dropout(%x, zzzz=3)", "no attribute zzzz", "Its attributes are rate."),
        ("nn.relu(%x, alpha=1f)", "nn.relu has no attribute alpha", "It has none: leave it out."),
        ("nn.softmax(%x, axis=0, axis=1)", "the attribute axis stands twice", ""),
    ],
)
def test_an_attribute_that_its_operator_does_not_have_is_refused_with_the_nearest_one(call: str, what: str, remedy: str) -> None:
    with pytest.raises(ModelError) as caught:
        import_relay(function(f"%0 = nn.relu(%y);\n  {call}"))
    assert what in caught.value.message
    assert remedy in caught.value.remedy


def test_an_attribute_is_looked_for_in_functions_that_are_never_called_too() -> None:
    text = "def @other(%p: Tensor[(2), float32]) { nn.softmax(%p, exis=0) }\ndef @main(%x: Tensor[(2), float32]) { nn.relu(%x) }"
    assert "nn.softmax has no attribute exis" in failure_of(text)


def test_recursion_and_explosive_inlining_are_refused() -> None:
    assert "too deeply" in failure_of("def @main(%x: Tensor[(2), float32]) { @main(%x) }")
    doubling = "".join(f"%{n + 1} = fn (%a{n}: Tensor[(2), float32]) {{ %{n}(%{n}(%a{n})) }};\n" for n in range(30))
    text = f"fn (%x: Tensor[(2), float32]) {{ %0 = fn (%b: Tensor[(2), float32]) {{ nn.relu(%b) }};\n{doubling} %30(%x) }}"
    assert "calls after inlining" in failure_of(text)


def test_a_model_too_large_for_this_machine_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = "fn (%x: Tensor[(2, 999999999999999999999), float32], %w: Tensor[(4, 3), float32]) { nn.dense(%x, %w) }"
    assert "GiB" in failure_of(huge)
    monkeypatch.setattr(memory, "memory_limit", lambda: 1300)
    assert "parameters and constants together" in failure_of(NET)


def test_a_damaged_text_is_imported_or_refused_and_never_crashes() -> None:
    draw = random.Random(5)
    pieces = ["%", "(", ")", "-1", "0", "99999999999", '"', "[", ",", "%0", "None", "/*", "*/", "1e999f", "%p1", "True"]
    for _ in range(250):
        text = draw.choice([NET, BLOCKED])
        for _ in range(draw.randrange(1, 3)):
            place = draw.randrange(len(text) + 1)
            text = draw.choice([text[:place], text[:place] + draw.choice(pieces) + text[place + draw.randrange(3) :]])
        try:
            import_relay(text)
        except ModelError:
            continue


def sample(name: str) -> str:
    path = LEGACY / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["mlp/model.relay.txt", "mlp/optimized.relay.txt"])
def test_the_mlp_sample_gives_what_numpy_gives_for_the_same_constants(name: str) -> None:
    program = import_relay(sample(name))
    data = np.random.default_rng(0).standard_normal((1, 1, 28, 28)).astype("float32")
    layer = data.reshape(1, -1)
    constants = constants_of(program)
    for index, (weight, bias) in enumerate(zip(constants[::2], constants[1::2], strict=True)):
        layer = layer @ weight + bias
        layer = np.maximum(layer, 0) if index < 2 else layer
    powers = np.exp(layer - layer.max())
    np.testing.assert_allclose(run(program, data), powers / powers.sum(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["resnet18/model.relay.txt", "resnet18/optimized.relay.txt"])
def test_the_resnet_sample_has_all_its_convolutions_in_plain_layout(name: str) -> None:
    program = import_relay(sample(name))
    script = program.module.script()
    assert str(program.module["main"].ret_ty) == 'R.Tensor((1, 1000), dtype="float32")'
    assert script.count("R.nn.conv2d(") == 21
    assert "permute_dims" not in script
    convolutions = [origin for origin in program.origins.origins if "conv2d" in origin.op]
    assert len(convolutions) == 21
    assert all(origin.name.startswith("%") and origin.location.startswith("line ") for origin in convolutions)


def test_the_two_forms_of_the_mlp_are_the_same_program() -> None:
    plain, optimised = (import_relay(sample(f"mlp/{name}.relay.txt")).module.script() for name in ("model", "optimized"))
    assert [line.split(" = ")[1].split("(")[0] for line in plain.splitlines() if " = R." in line] == [
        line.split(" = ")[1].split("(")[0] for line in optimised.splitlines() if " = R." in line
    ]
