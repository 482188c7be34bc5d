"""A user's own IRModule, as a file of TVMScript or as JSON, becomes a program whose kernels compute what NumPy says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from workbench.engines.relax.lowering import Lowered, lower
from workbench.engines.relax.program import Program
from workbench.engines.relax.relax_import import import_ir_json, import_module, import_tvmscript
from workbench.errors import ModelError

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})
IMPORTS = "import tvm\nfrom tvm.script import ir as I, relax as R, tirx as T\n\n"
MLP = """@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 16), "float32"), b: R.Tensor((16,), "float32")) -> R.Tensor((4, 16), "float32"):
        with R.dataflow():
            h: R.Tensor((4, 16), "float32") = R.matmul(x, w)
            s: R.Tensor((4, 16), "float32") = R.add(h, b)
            y: R.Tensor((4, 16), "float32") = R.nn.relu(s)
            R.output(y)
        return y
"""
HAND_WRITTEN = """@I.ir_module
class Mine:
    @T.prim_func(s_tir=True)
    def scale2(a: T.Buffer((4, 8), "float32"), o: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            with T.sblock("scale"):
                vi, vj = T.axis.remap("SS", [i, j])
                o[vi, vj] = a[vi, vj] * T.float32(2)

    @T.prim_func(s_tir=True)
    def unused(a: T.Buffer((4, 8), "float32"), o: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            with T.sblock("scale"):
                vi, vj = T.axis.remap("SS", [i, j])
                o[vi, vj] = a[vi, vj]

    @R.function
    def entry(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        cls = Mine
        o1_ = R.call_tir(cls.scale2, (x,), out_ty=R.Tensor((4, 8), "float32"))
        z = R.nn.relu(o1_)
        return z
"""
SEVERAL = """@I.ir_module
class Module:
    @R.function(private=True)
    def activation(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        y = R.nn.relu(x)
        return y

    @R.function
    def layer(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        R.func_attr({"Codegen": "mine"})
        cls = Module
        h = R.matmul(x, w)
        y = cls.activation(h)
        return y

    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32"), v: R.Tensor((8, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        cls = Module
        a = cls.layer(x, w)
        b = cls.layer(a, v)
        return b
"""
Array = np.ndarray[Any, Any]


def save(folder: Path, text: str) -> Path:
    path = folder / "model.py"
    path.write_text(text, encoding="utf-8")
    return path


def parse(text: str) -> tvm.IRModule:
    return tvm.script.from_source(text)


def lowered(program: Program) -> Lowered:
    return lower(program, TARGET, fusion=True, on_step=lambda name: None)


def run(result: Lowered, *inputs: Array) -> Array:
    machine = relax.VirtualMachine(relax.build(result.module, TARGET), [tvm.cpu()])
    return np.asarray(machine["main"](*[tvm.runtime.tensor(value) for value in inputs], *result.parameters).numpy())


def calls(result: Lowered) -> list[tuple[str, list[str]]]:
    return [(call.kernel, [str(origin) for origin in call.origins]) for call in result.calls]


def draw(*shapes: Sequence[int]) -> list[Array]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape, "float32") for shape in shapes]


X, W, B = draw((4, 8), (8, 16), (16,))
MLP_RESULT = np.maximum(X @ W + B, 0)


def check_mlp(program: Program, *inputs: Array) -> list[tuple[str, list[str]]]:
    result = lowered(program)
    np.testing.assert_allclose(run(result, *(inputs or (X, W, B))), MLP_RESULT, rtol=1e-5, atol=1e-5)
    return calls(result)


def test_a_python_file_gives_its_module_with_lines_as_locations(tmp_path: Path) -> None:
    found = check_mlp(import_tvmscript(save(tmp_path, IMPORTS + MLP)))
    assert found == [("fused_matmul_add_relu", ["matmul h (line 9)", "add s (line 10)", "nn.relu y (line 11)"])]
    assert not [name for name in sys.modules if name.startswith("workbench_tvmscript")]


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    check_mlp(import_tvmscript(save(tmp_path, IMPORTS + MLP)))
    program = import_tvmscript(save(tmp_path, IMPORTS + MLP.replace("R.nn.relu", "R.negative")))
    np.testing.assert_allclose(run(lowered(program), X, W, B), -(X @ W + B), rtol=1e-5, atol=1e-5)


def test_the_printed_script_of_a_module_is_read_too(tmp_path: Path) -> None:
    check_mlp(import_tvmscript(save(tmp_path, parse(MLP).script())))


@pytest.mark.parametrize("head", ["", IMPORTS])
def test_constants_come_with_the_script_if_it_was_saved_with_them(tmp_path: Path, head: str) -> None:
    bound = relax.transform.BindParams("main", {"w": W, "b": B})(parse(MLP))
    check_mlp(import_tvmscript(save(tmp_path, head + bound.script(show_meta=True))), X)
    with pytest.raises(ModelError, match=r"without the values of its constants\. Save it with module\.script\(show_meta=True\)"):
        import_tvmscript(save(tmp_path, head + bound.script()))


def test_a_file_may_use_modules_beside_it_and_hold_a_function_alone(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("SIZE = 8", encoding="utf-8")
    function = '@R.function\ndef net(x: R.Tensor((4, SIZE), "float32")) -> R.Tensor((4, SIZE), "float32"):\n    y = R.nn.relu(x)\n    return y\n'
    program = import_tvmscript(save(tmp_path, f"{IMPORTS}from beside_it import SIZE\n{function}"))
    np.testing.assert_array_equal(run(lowered(program), X), np.maximum(X, 0))
    assert str(tmp_path) not in sys.path
    del sys.modules["beside_it"]


def test_the_module_named_module_is_chosen_among_several(tmp_path: Path) -> None:
    check_mlp(import_tvmscript(save(tmp_path, IMPORTS + HAND_WRITTEN + "\n\n" + MLP)))
    with pytest.raises(ModelError, match=r"defines 2 IRModules: Mine, Other\. Name the one to use Module\."):
        import_tvmscript(save(tmp_path, IMPORTS + HAND_WRITTEN + "\n\n" + MLP.replace("Module", "Other")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"model\.py (is no TVMScript that TVM can parse|defines)"),
        ("import os\nx = 3", r"defines no IRModule"),
        ("import os\nraise ValueError('bad \\x1b[31m')", r"model\.py fails: ValueError: bad \\x1b\[31m"),
        ("import sys\nsys.exit(2)", r"model\.py fails: SystemExit: 2"),
        ("def f(:", r"model\.py is no TVMScript: invalid syntax"),
        ("\x00", r"model\.py is no TVMScript"),
        (
            "@I.ir_module\nclass Module:\n    @R.function\n    def main(x):\n        return y",
            r"is no TVMScript that TVM can parse: .*Type annotation is required",
        ),
        (HAND_WRITTEN.split("\n\n", maxsplit=1)[0] + "\n", r"has no Relax function"),
    ],
)
def test_a_file_without_a_usable_module_says_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as failure:
        import_tvmscript(save(tmp_path, text))
    assert failure.value.remedy


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"absent\.py cannot be read"):
        import_tvmscript(tmp_path / "absent.py")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match=r"bytes\.py is no TVMScript"):
        import_tvmscript(tmp_path / "bytes.py")


@pytest.mark.parametrize("passes", [0, 1, 2, 3])
def test_a_module_in_any_state_of_lowering_is_read_from_json(passes: int) -> None:
    with TARGET:
        steps = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(), relax.transform.FuseTIR()]
        module = parse(MLP)
        for step in steps[: {0: 0, 1: 1, 2: 3, 3: 4}[passes]]:
            module = step(module)
    found = check_mlp(import_ir_json(tvm.ir.save_json(module)))
    names = {
        0: ["matmul h", "add s", "nn.relu y"],
        1: ["matmul h", "add s", "relu y"],
        2: ["matmul h", "add s", "relu gv"],
        3: ["fused_matmul_add_relu gv"],
    }
    assert [(kernel, [origin.partition(" (")[0] for origin in origins]) for kernel, origins in found] == [("fused_matmul_add_relu", names[passes])]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", '{"root_index": 0, "nodes": []}', "é" * 3])
def test_text_that_is_no_module_in_json_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match=r"The text is no IRModule|holds a value of type"):
        import_ir_json(text)


def test_json_that_is_cut_off_or_holds_something_else_is_refused() -> None:
    with pytest.raises(ModelError, match=r"The text is no IRModule"):
        import_ir_json(tvm.ir.save_json(parse(MLP))[:500])
    with pytest.raises(ModelError, match=r"holds a value of type IntImm"):
        import_ir_json(tvm.ir.save_json(tvm.tirx.const(1)))


def test_a_kernel_written_by_hand_stays_as_it_is_and_an_entry_of_another_name_is_found() -> None:
    result = lowered(import_module(parse(HAND_WRITTEN)))
    assert calls(result) == [("scale2", ["scale2 o1_ (line 20)"]), ("relu", ["nn.relu z (line 21)"])]
    assert result.ops["scale2"] == ("scale2",)
    assert {variable.name_hint for variable in result.module.functions} == {"main", "scale2", "relu"}
    np.testing.assert_array_equal(run(result, X), np.maximum(2 * X, 0))


def test_other_functions_are_inlined_each_call_with_its_own_origins() -> None:
    w, v = draw((8, 8), (8, 8))
    result = lowered(import_module(parse(SEVERAL)))
    assert calls(result) == [("fused_matmul_relu", ["matmul h (line 12)", "nn.relu y (line 5)"])] * 2
    np.testing.assert_allclose(run(result, X, w, v), np.maximum(np.maximum(X @ w, 0) @ v, 0), rtol=1e-4, atol=1e-4)


def with_attributes(**attributes: Any) -> tvm.IRModule:
    module = parse(MLP)
    main = module["main"]
    for name, value in attributes.items():
        main = main.with_attr(name, value)
    module.update_func(module.get_global_var("main"), main)
    return module


def test_without_num_input_all_parameters_are_inputs() -> None:
    program = import_module(parse(MLP))
    assert int(program.module["main"].attrs["num_input"]) == 3
    assert program.random_weights is False
    assert lowered(program).parameters == ()


def test_weights_are_taken_from_the_attribute_params() -> None:
    program = import_module(with_attributes(num_input=1, params=[tvm.runtime.tensor(W), tvm.runtime.tensor(B)]))
    check_mlp(program, X)
    assert program.random_weights is False
    assert "params" not in program.module["main"].attrs


def test_weights_without_values_are_random_and_the_same_each_time() -> None:
    first, second = (lowered(import_module(with_attributes(num_input=1))) for _ in range(2))
    assert import_module(with_attributes(num_input=1)).random_weights is True
    assert sorted(value.shape for value in first.parameters) == [(8, 16), (16,)]
    for one, other in zip(first.parameters, second.parameters, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert np.isfinite(run(first, X)).all()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"num_input": 4}, r"num_input of main is 4, but main has 3"),
        ({"num_input": 1, "params": [tvm.runtime.tensor(W)]}, r"params of main has 1 values for 2 weights"),
        ({"num_input": 1, "params": [tvm.runtime.tensor(B), tvm.runtime.tensor(W)]}, r"The weights do not fit"),
    ],
)
def test_weights_that_do_not_fit_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        import_module(with_attributes(**attributes))


def function(
    body: str, parameters: str = 'x: R.Tensor((4, 8), "float32")', result: str = 'R.Tensor((4, 8), "float32")', options: str = ""
) -> tvm.IRModule:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return parse(f"@I.ir_module\nclass Module:\n    @R.function{options}\n    def main({parameters}) -> {result}:\n{lines}\n")


SYMBOLIC = {"parameters": 'x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, "k"), "float32")', "result": 'R.Tensor(("n", "k"), "float32")'}
SYMBOLIC_BODY = "n = T.int64()\nk = T.int64()\nh = R.matmul(x, w)\nreturn h"


def test_symbolic_dimensions_take_the_numbers_of_the_given_shapes() -> None:
    module = function(SYMBOLIC_BODY, **SYMBOLIC)
    result = lowered(import_module(module, {"x": (4, 8), "w": (8, 16)}))
    np.testing.assert_allclose(run(result, X, W), X @ W, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, r"dynamic dimensions: x \(n, 8\), w \(8, k\)\. Give them numbers, e\.g\. --shape x=1,8"),
        ({"x": (4, 8)}, r"dynamic dimensions: w \(8, k\)\."),
        ({"y": (4, 8)}, r"no input named y\. Its inputs are: x \(n, 8\), w \(8, k\)"),
        ({"x": (4, 9), "w": (8, 2)}, r"Shape \(4, 9\) does not fit input x"),
        ({"x": (4, 8, 1)}, r"does not fit input x, which is declared as \(n, 8\)"),
        ({"x": (0, 8)}, r"does not fit input x"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        import_module(function(SYMBOLIC_BODY, **SYMBOLIC), shapes)


def test_one_symbol_cannot_have_two_numbers() -> None:
    module = function(
        "n = T.int64()\ny = R.add(x, z)\nreturn y", 'x: R.Tensor(("n",), "float32"), z: R.Tensor(("n",), "float32")', 'R.Tensor(("n",), "float32")'
    )
    with pytest.raises(ModelError, match=r"the dimension n two numbers: 3 and 4"):
        import_module(module, {"x": (3,), "z": (4,)})


@pytest.mark.parametrize(
    ("body", "options", "message"),
    [
        (
            {
                "body": "if c:\n    y = R.nn.relu(x)\nelse:\n    y = R.exp(x)\nreturn y",
                "parameters": 'x: R.Tensor((4, 8), "float32"), c: R.Tensor((), "bool")',
            },
            "",
            "branches",
        ),
        ({"body": '_ = R.print(x, format="{}")\nreturn x'}, "(pure=False)", "side effects"),
        (
            {"body": "y = t[0]\nreturn y", "parameters": 't: R.Tuple(R.Tensor((4, 8), "float32"))'},
            "",
            "Parameter t is no tensor but of the type tuple",
        ),
        ({"body": "return x", "parameters": 'x: R.Tensor((4, 8), "float32"), s: R.Shape([2])'}, "", "Parameter s is no tensor but of the type shape"),
    ],
)
def test_what_has_no_single_order_of_kernels_is_refused(body: dict[str, str], options: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        import_module(function(**body, options=options))


def test_a_module_past_call_tir_is_refused() -> None:
    with TARGET:
        module = relax.transform.CallTIRRewrite()(relax.transform.ToNonDataflow()(relax.transform.LegalizeOps()(parse(MLP))))
    with pytest.raises(ModelError, match=r"allocates memory\. Give the module before it is lowered for the VM"):
        import_module(module)


def test_a_function_that_calls_itself_is_refused() -> None:
    text = SEVERAL.replace("y = cls.activation(h)", "y = cls.layer(h, w)")
    with pytest.raises(ModelError, match=r"The function layer calls itself"):
        import_module(parse(text))


def test_several_functions_without_main_are_refused_by_name() -> None:
    text = SEVERAL.replace("def main", "def other").replace("b = cls.layer(a, v)", "b = R.exp(a)").replace("a = cls.layer(x, w)", "a = R.exp(x)")
    with pytest.raises(ModelError, match=r"no function main, but .*layer.*\. Name the entry function main\."):
        import_module(parse(text))


def test_tuples_and_second_names_keep_the_origin_of_what_they_read() -> None:
    module = function("s = R.split(x, 2, axis=1)\no1_ = s[0]\ny = R.exp(o1_)\nreturn y", result='R.Tensor((4, 4), "float32")')
    result = lowered(import_module(module))
    assert [origin for _, origins in calls(result) for origin in origins] == ["split s (line 5)", "exp y (line 7)"]
    np.testing.assert_allclose(run(result, X), np.exp(X[:, :4]), rtol=1e-5)
