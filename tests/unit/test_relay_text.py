"""The parser of Relay text: what it reads, where it says things stand, and how it refuses."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
import time
from pathlib import Path

import pytest

from workbench.errors import ModelError
from workbench.legacy.relay import parse_relay, syntax
from workbench.legacy.relay.lexer import MAX_DEPTH

SAMPLES = sorted((Path(__file__).parents[2].parent / "shared/legacy").glob("*/*.relay.txt"))
MODEL = """#[version = "0.0.5"]
def @main(%data: Tensor[(1, 3, 8, 8), float32] /* ty=Tensor[(1, 3, 8, 8), float32] */, %w: Tensor[(4, 3, 3, 3), float32]) \
-> Tensor[(1, 4, 8, 8), float32] {
  %0 = nn.conv2d(%data, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]) /* ty=Tensor[(1, 4, 8, 8), float32] */;
  nn.relu(%0) /* ty=Tensor[(1, 4, 8, 8), float32] */
}

/* For debugging purposes the metadata section has been omitted.
 * If you would like to see the full metadata section you can set the
 * option to `True` when invoking `astext`.
 */"""
OPTIMISED = """#[version = "0.0.5"]
def @main(%data {virtual_device=VirtualDevice(device_type=1, virtual_device_id=0, target=Target(id=557a18a48dd0, kind='llvm', keys={'cpu'}, \
attrs={'num-cores': 2, 'mcpu': "skylake-avx512"}, host=Target(id=5e7a1, kind='llvm')))}: Tensor[(1, 8), float32], hash="b4de", \
virtual_device=VirtualDevice(device_type=1)) -> Tensor[(1, 4), float32] {
  %1 = fn (%p0: Tensor[(1, 8), float32], %p1: Tensor[(1, 8, 4), float32], Primitive=1, relay.reshape_only=1, hash="f7") -> Tensor[(1, 4), float32] {
    %0 = nn.contrib_dense_pack(%p0, %p1, units=None, out_dtype="float32", weight_layout="NC4n") /* ty=Tensor[(1, 4), float32] */;
    nn.relu(%0) /* ty=Tensor[(1, 4), float32] span=from_string:3:5 */
  } /* ty=fn (Tensor[(1, 8), float32], Tensor[(1, 8, 4), float32]) -> Tensor[(1, 4), float32] */;
  %1(%data, meta[relay.Constant][0] /* ty=Tensor[(1, 8, 4), float32] */) /* ty=Tensor[(1, 4), float32] */
}
"""


def body_of(text: str) -> syntax.Block:
    """The body of main of a function with the parameters %x and %y."""
    return parse_relay(f"fn (%x: Tensor[(2, 3), float32], %y: Tensor[(2, 3), float32]) {{ {text} }}").main.body


def result_of(text: str) -> syntax.Expr:
    return body_of(text).result


def failure_of(text: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        parse_relay(text)
    assert caught.value.remedy
    return caught.value


def test_a_module_gives_parameters_bindings_attributes_and_places() -> None:
    main = parse_relay(MODEL).main
    assert [(param.name, str(param.type)) for param in main.params] == [
        ("data", "Tensor[(1, 3, 8, 8), float32]"),
        ("w", "Tensor[(4, 3, 3, 3), float32]"),
    ]
    assert main.result_type == syntax.TensorType((1, 4, 8, 8), "float32")
    (binding,) = main.body.bindings
    assert (binding.name, binding.line, binding.column) == ("0", 3, 3)
    conv = binding.value
    assert isinstance(conv, syntax.Call)
    assert conv.callee == syntax.Operator(3, 8, "nn.conv2d")
    assert conv.attributes == {"padding": (1, 1, 1, 1), "channels": 4, "kernel_size": (3, 3)}
    assert conv.type == syntax.TensorType((1, 4, 8, 8), "float32")
    assert isinstance(main.body.result, syntax.Call)
    assert (main.body.result.line, main.body.result.column) == (4, 3)


def test_an_optimised_program_has_nested_functions_metadata_constants_and_skipped_devices() -> None:
    main = parse_relay(OPTIMISED).main
    assert main.attributes["hash"] == "b4de"
    assert main.attributes["virtual_device"] == syntax.Opaque("VirtualDevice")
    fused = main.body.bindings[0].value
    assert isinstance(fused, syntax.Function)
    assert [param.name for param in fused.params] == ["p0", "p1"]
    assert fused.attributes == {"Primitive": 1, "relay.reshape_only": 1, "hash": "f7"}
    assert isinstance(fused.type, syntax.FunctionType)
    assert fused.body.result.type == syntax.TensorType((1, 4), "float32")
    call = main.body.result
    assert isinstance(call, syntax.Call)
    assert isinstance(call.callee, syntax.Var)
    assert call.args[1] == syntax.MetaRef(7, 13, "relay.Constant", 0, type=syntax.TensorType((1, 8, 4), "float32"))


def test_dots_in_a_name_and_tuple_accesses_are_told_apart_by_what_is_defined() -> None:
    text = """fn (%conv1.weight: float32, %layer1.0.conv: float32, %v/input:0: Tensor[(1), float32], %a:Tensor[(1), float32], %aten::x_0.1: int64) {
      %1 = (%conv1.weight, (%layer1.0.conv, %v/input:0));
      let %t.1 = %1.1.0;
      (%1.0, %1.1, %t.1, (%a, %a).0, %aten::x_0.1)
    }"""
    main = parse_relay(text).main
    assert [param.name for param in main.params] == ["conv1.weight", "layer1.0.conv", "v/input:0", "a", "aten::x_0.1"]
    access = main.body.bindings[1].value
    assert isinstance(access, syntax.TupleGet)
    assert isinstance(access.value, syntax.TupleGet)
    assert (access.value.index, access.index) == (1, 0)
    result = main.body.result
    assert isinstance(result, syntax.Tuple)
    assert [type(item).__name__ for item in result.fields] == ["TupleGet", "TupleGet", "Var", "TupleGet", "Var"]


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("0.01f", 0.01, "float32"), ("1e-05f", 1e-05, "float32"), ("-1f", -1.0, "float32"), ("1f64", 1.0, "float64"), ("1h", 1.0, "float16"),
        ("2.5", 2.5, "float32"), ("7", 7, "int32"), ("-7i64", -7, "int64"), ("3u8", 3, "uint8"), ("True", True, "bool"), ("False", False, "bool"),
        ("int64(5)", 5, "int64"), ("inff", math.inf, "float32"), ("-inff64", -math.inf, "float64"), ("1f16", 1.0, "float16"),
    ],
)  # fmt: skip
def test_literals_have_a_value_and_an_element_type(text: str, value: float, dtype: str) -> None:
    constant = result_of(text)
    assert isinstance(constant, syntax.Constant)
    assert (constant.value, constant.dtype) == (value, dtype)


def test_not_a_number_is_a_literal() -> None:
    constant = result_of("nanf")
    assert isinstance(constant, syntax.Constant)
    assert math.isnan(constant.value)


def test_attributes_are_numbers_strings_lists_words_and_references() -> None:
    call = result_of(
        r'op(%x, a=None, b=True, c=[[0, 1], [2i64, -3]], d="q\"\n", e=1e-05f, f=(), g=meta[attrs][2], h=Target(id=5e, k={1: "}"}), i=[])'
    )
    assert isinstance(call, syntax.Call)
    assert call.attributes == {
        "a": None, "b": True, "c": ((0, 1), (2, -3)), "d": 'q"\n', "e": 1e-05, "f": (), "g": syntax.MetaRef(1, 141, "attrs", 2),
        "h": syntax.Opaque("Target"), "i": (),
    }  # fmt: skip


def test_comments_may_stand_anywhere_and_types_may_be_missing() -> None:
    body = body_of("// a comment\n %0 = nn.relu(/* span=a:1:2 */ %x) /* span=b:3:4 */; /* ty=nonsense[[ */ nn.relu(%0)")
    assert body.bindings[0].value.type is None
    assert body.result.type is None


def test_let_bindings_become_bindings_and_scopes_become_blocks() -> None:
    body = body_of("let %a: Tensor[(2, 3), float32] = nn.relu(%x); %0 = add(%a, %y); let %b = { %1 = tanh(%0); %1 }; (let %c = %b; %c)")
    assert [binding.name for binding in body.bindings] == ["a", "0", "b"]
    assert isinstance(body.bindings[2].value, syntax.Block)
    assert isinstance(body.result, syntax.Block)


def test_a_function_may_be_called_where_it_is_written() -> None:
    call = result_of("fn (%p: Tensor[(2, 3), float32], Primitive=1) { nn.relu(%p) }(%x)")
    assert isinstance(call, syntax.Call)
    assert isinstance(call.callee, syntax.Function)


def test_tuples_are_told_from_parentheses() -> None:
    shapes = {"(%x)": "Var", "(%x,)": "Tuple", "()": "Tuple", "(%x, %y)": "Tuple"}
    assert {text: type(result_of(text)).__name__ for text in shapes} == shapes


def test_a_module_may_have_more_functions_and_an_old_version_mark() -> None:
    module = parse_relay("v0.0.4\ndef @f(%x: float32) { %x }\ndef @main(%x: float32) -> float32 { @f(%x) }")
    assert sorted(module.functions) == ["f", "main"]


def test_an_expression_with_free_variables_is_a_function_of_them() -> None:
    main = parse_relay("free_var %x: Tensor[(1, 2), float32];\n%0 = nn.relu(%x);\nfree_var %y: Tensor[(1, 2), float32];\nadd(%0, %y)").main
    assert [param.name for param in main.params] == ["x", "y"]


def test_an_unknown_dimension_is_none() -> None:
    main = parse_relay("fn (%x: Tensor[(?, 3, n), float32]) { %x }").main
    assert main.params[0].type == syntax.TensorType((None, 3, None), "float32")


def encoded(shape: tuple[int, ...], data: bytes, dtype: tuple[int, int]) -> str:
    """A tensor as TVM writes it."""
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, len(shape), *dtype, 1)
    return base64.b64encode(head + struct.pack(f"<{len(shape)}q", *shape) + struct.pack("<q", len(data)) + data).decode()


def with_metadata(tensors: list[str]) -> str:
    """A model that has constants in its metadata section."""
    constants = [{"type_key": "relay.Constant", "attrs": {"data": str(index), "span": "0"}} for index in range(len(tensors))]
    members = {"type_key": "Array", "data": list(range(3, 3 + len(tensors)))}
    nodes = [{"type_key": ""}, {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]}, members, *constants]
    graph = json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": tensors, "attrs": {"tvm_version": "0.16.0"}}, indent=2)
    return f"fn (%x: Tensor[(2), float32]) {{ add(%x, meta[relay.Constant][0]) }}\n\n#[metadata]\n{graph}"


def test_constants_are_read_from_the_metadata_section() -> None:
    module = parse_relay(with_metadata([encoded((2,), struct.pack("<2f", 1.5, -2), (2, 32)), encoded((), struct.pack("<q", 7), (0, 64))]))
    assert module.constants == {
        0: syntax.TensorData((2,), "float32", struct.pack("<2f", 1.5, -2)),
        1: syntax.TensorData((), "int64", struct.pack("<q", 7)),
    }


def test_a_damaged_constant_is_as_good_as_absent() -> None:
    good = encoded((2,), struct.pack("<2f", 1.5, -2), (2, 32))
    damaged = ["", "!!!", good[:-8], encoded((3,), b"\0" * 8, (2, 32)), encoded((2,), b"\0" * 8, (9, 32)), encoded((-2,), b"\0" * 8, (2, 32))]
    assert sorted(parse_relay(with_metadata([*damaged, good])).constants) == [len(damaged)]


def test_a_metadata_section_that_is_cut_off_is_an_error() -> None:
    text = with_metadata([encoded((2,), b"\0" * 8, (2, 32))])
    assert "metadata" in failure_of(text[:-20]).message
    assert "metadata" in failure_of(text[: text.index("#[metadata]")] + "#[metadata]\n" + "[" * 100_000).message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n\n",
        "import os\n\ndef f(x):\n    return x\n",
        '{"nodes": [1, 2]}',
        "\x7fELF\x02\x01\x00\x00",
        "// nothing",
        "@main",
        "R.relu(x)",
        "def f(x): pass",
    ],
    ids=["empty", "blank", "python", "json", "binary", "comment", "name", "relax", "def"],
)
def test_text_that_is_no_relay_is_refused_in_one_sentence(text: str) -> None:
    error = failure_of(text)
    assert "not Relay text" in error.message
    assert "line 1, column 1" in error.message


@pytest.mark.parametrize(
    ("body", "line", "column", "what"),
    [
        ("%0 = nn.relu(%x)\n nn.relu(%0)", 2, 2, "expected ';'"),
        ("nn.relu(%nowhere)", 1, 52, "%nowhere is used before it is defined"),
        ("nn.relu(%x", 1, 55, "expected ')'"),
        ("\n\n  if (%x) { %x } else { %y }", 3, 3, "conditional"),
        ("match (%x) { }", 1, 44, "match"),
        ("ref(%x)", 1, 44, "reference"),
        ("op(%x, axis=$)", 1, 56, "unexpected '$'"),
        ("op(%x, axis=[1, 2)", 1, 61, "expected ']'"),
        ("nn.relu", 1, 52, "no value"),
        ('op(%x, mode="never closed)', 1, 56, "unexpected '\"'"),
        ("%x /* never closed", 1, 47, "unexpected '/'"),
        ("12abc", 1, 44, "expected an expression"),
        ("%x.9999999999", 1, 57, "index"),
        ("op(%x, a={1: 2)", 1, 58, "unexpected ')'"),
    ],
)
def test_a_fault_is_reported_with_its_place(body: str, line: int, column: int, what: str) -> None:
    error = failure_of("fn (%x: Tensor[(2), float32], %y: float32) { " + body + " }")
    assert what in error.message, error.message
    assert f"line {line}, column " in error.message, error.message
    assert abs(int(error.message.split("column ")[1].split(":")[0]) - column) <= 4, error.message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("type List[A] { Nil, Cons(A, List[A]), }\ndef @main(%x: float32) { %x }", "algebraic data types"),
        ("def @f(%x: float32) { %x }", "no function @main"),
        ("def @main[A](%x: A) { %x }", "type parameters"),
        ("def @main(%x: float32) { %x }\ndef @main(%x: float32) { %x }", "twice"),
        ("fn (%x: float32, %x: float32) { %x }", "same name"),
        ("fn (%x: float32) { %x } nonsense", "end of the text"),
        ("fn (%x: Tensor[(1, 2) float32]) { %x }", "','"),
        ("fn (%x: Tensor[(1), quux]) { %x }", "element type"),
        ("fn (%x: Tensor[(-1), float32]) { %x }", "negative"),
        (f"fn (%x: Tensor[({'9' * 5000}), float32]) {{ %x }}", "too long"),
        ("fn (%x: Tensor[(1.5f), float32]) { %x }", "whole number"),
    ],
)
def test_what_is_not_supported_or_malformed_is_named(text: str, what: str) -> None:
    assert what in failure_of(text).message


def test_ten_thousand_bindings_are_read_without_recursion_and_fast() -> None:
    lines = "".join(f"%{index} = nn.relu(%{index - 1 if index else 'x'}) /* ty=Tensor[(1, 4), float32] */;\n" for index in range(10_000))
    begin = time.perf_counter()
    main = parse_relay(f"fn (%x: Tensor[(1, 4), float32]) {{\n{lines} nn.relu(%9999)\n}}").main
    assert len(main.body.bindings) == 10_000
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize(
    "text",
    [
        "nn.relu(" * 5000 + "%x" + ")" * 5000,
        "(" * 5000 + "%x" + ",)" * 5000,
        "%x" + ".0" * 5000,
        "%x" + "()" * 5000,
        "op(%x, a=" + "[" * 5000 + "]" * 5000 + ")",
        "{" * 5000 + "%x" + "}" * 5000,
        "let %a = " * 5000 + "%x" + "; %a" * 5000,
        "fn (%p: float32) { " * 5000 + "%x" + "}" * 5000,
        "fn (%p: " + "(" * 5000 + "float32" + ")" * 5000 + ") { %x }",
    ],
)
def test_deep_nesting_is_refused_and_does_not_crash(text: str) -> None:
    assert f"more than {MAX_DEPTH} levels of nesting" in failure_of(f"fn (%x: float32) {{ {text} }}").message


def mutations(text: str, seed: int, count: int) -> list[str]:
    """The text cut off, with characters changed, removed or put in, at places drawn from the seed."""
    draw = random.Random(seed)
    pieces = ["%", "(", ")", "[", "]", "{", "}", ".", "-1", '"', "/*", "*/", "=", ",", ";", "fn", "let ", "meta[", "1e999f", "\0", "é", "%0.0"]
    made = []
    for _ in range(count):
        place = draw.randrange(len(text))
        made.append(
            draw.choice([
                text[:place],
                text[:place] + draw.choice(pieces) + text[place:],
                text[:place] + text[place + draw.randrange(1, 20) :],
                text[:place] + chr(draw.randrange(32, 127)) + text[place + 1 :],
            ])
        )  # fmt: skip
    return made


@pytest.mark.parametrize("text", [MODEL, OPTIMISED, with_metadata([encoded((2,), b"\0" * 8, (2, 32))])], ids=["model", "optimised", "metadata"])
def test_a_damaged_text_is_read_or_refused_and_never_crashes(text: str) -> None:
    messages = []
    for damaged in mutations(text, seed=1, count=400):
        try:
            parse_relay(damaged)
        except ModelError as error:
            messages.append(error.message)
    assert len(messages) > 100
    assert all("line" in message or "metadata" in message for message in messages)


@pytest.mark.parametrize(
    "path", SAMPLES or [pytest.param(None, marks=pytest.mark.skip(reason="no samples here"))], ids=lambda p: p and p.parent.name + p.name
)
def test_the_samples_are_read_and_survive_damage(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    module = parse_relay(text)
    assert len(module.main.body.bindings) > 5
    for damaged in mutations(text, seed=2, count=20):
        try:
            parse_relay(damaged)
        except ModelError:
            continue
