"""A TE workload becomes one kernel of its name, whose rows name its stages and whose result is NumPy's."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, topi

from workbench.engines.relax import bundled_workloads, te_import
from workbench.engines.relax.kernels import describe_kernels
from workbench.engines.relax.lowering import Lowered, lower
from workbench.engines.relax.te_import import import_workload
from workbench.errors import ModelError
from workbench.records.origin import Origin
from workbench.workloads import BUNDLED, load_function, register_workload

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})
SMALL = {
    "conv2d_relu": (1, 5, 5, 4, 3, 3, 3, 1, 1),
    "matmul": (4, 6, 8),
    "matmul_add": (4, 6, 8),
    "depthwise_conv2d": (1, 5, 5, 3, 3, 3, 2, 1),
    "softmax": (4, 6),
    "attention": (2, 5, 4),
}
STAGES = {
    "conv2d_relu": ["pad pad_temp", "conv2d_nchw conv2d_nchw", "broadcast bias_add", "elemwise relu"],
    "matmul": ["matmul matmul"],
    "matmul_add": ["matmul matmul", "broadcast bias_add"],
    "depthwise_conv2d": ["pad PaddedInput", "depthwise_conv2d_nchw DepthwiseConv2d", "broadcast bias_add", "elemwise relu"],
    "softmax": [f"softmax_output T_softmax_{stage}" for stage in ("maxelem", "exp", "expsum", "norm")],
    "attention": [
        "batch_matmul scores",
        "elemwise scale",
        *[f"softmax_output T_softmax_{stage}" for stage in ("maxelem", "exp", "expsum", "norm")],
        "batch_matmul weighted_sum",
    ],
}
Array = np.ndarray[Any, Any]


def lowered(function: Callable[..., Any], arguments: Sequence[Any], **options: Any) -> Lowered:
    return lower(import_workload(function, arguments, **options), TARGET, fusion=True, on_step=lambda name: None)


def run(result: Lowered, *inputs: Array) -> list[Array]:
    machine = relax.VirtualMachine(relax.build(result.module, TARGET), [tvm.cpu()])
    outputs = machine["main"](*[tvm.runtime.tensor(value) for value in inputs])
    return [outputs.numpy()] if isinstance(outputs, tvm.runtime.Tensor) else [output.numpy() for output in outputs]


def random_inputs(result: Lowered) -> list[Array]:
    random = np.random.default_rng(0)
    return [random.standard_normal([int(size) for size in parameter.ty.shape.values], "float32") for parameter in result.module["main"].params]


def blocks(result: Lowered, kernel: str) -> list[str]:
    return [name for name in re.findall(r'T\.sblock\("(\w+)"\)', result.module[kernel].script()) if name != "root"]


def softmax(values: Array) -> Array:
    exponentials = np.exp(values - values.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True))


def convolution(data: Array, weight: Array, stride: int, *, depthwise: bool) -> Array:
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::stride, ::stride]
    return np.asarray(np.einsum("nchwij,cij->nchw", windows, weight[:, 0]) if depthwise else np.einsum("nchwij,ocij->nohw", windows, weight))


EXPECTED: dict[str, Callable[..., Array]] = {
    "conv2d_relu": lambda data, weight, bias: np.maximum(convolution(data, weight, 1, depthwise=False) + bias, 0),
    "depthwise_conv2d": lambda data, weight, bias: np.maximum(convolution(data, weight, 2, depthwise=True) + bias, 0),
    "matmul": lambda a, b: a @ b,
    "matmul_add": lambda a, b, bias: a @ b + bias,
    "softmax": softmax,
    "attention": lambda q, k, v: softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])) @ v,
}


@pytest.mark.parametrize("name", list(BUNDLED))
def test_a_bundled_workload_is_one_kernel_with_the_result_of_numpy(name: str) -> None:
    result = lowered(load_function(BUNDLED[name].function), SMALL[name])
    assert [call.kernel for call in result.calls] == [name]
    assert result.ops[name] == (name,)
    assert [str(origin) for origin in result.calls[0].origins] == STAGES[name]
    assert blocks(result, name) == [origin.name for origin in result.calls[0].origins]
    assert result.parameters == ()
    inputs = random_inputs(result)
    assert int(result.module["main"].attrs["num_input"]) == len(inputs)
    np.testing.assert_allclose(run(result, *inputs)[0], EXPECTED[name](*inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", list(BUNDLED))
def test_the_default_arguments_fit_the_function(name: str) -> None:
    function = getattr(bundled_workloads, name)
    assert list(inspect.signature(function).parameters) == list(BUNDLED[name].defaults)
    assert function.__doc__
    assert import_workload(function, BUNDLED[name].arguments).module["main"].params


def test_arithmetic_is_counted_and_a_search_space_exists() -> None:
    [kernel] = describe_kernels(lowered(bundled_workloads.matmul, (16, 16, 16)), TARGET, on_kernel=lambda done, total: None)
    assert kernel.flop == 2 * 16**3
    assert kernel.space_size is not None
    assert kernel.space_size > 1000
    assert kernel.untunable == ""
    assert [tensor.shape for tensor in (*kernel.parameters, *kernel.results)] == [(16, 16)] * 3


def test_stages_of_one_name_are_told_apart_as_in_the_kernel_and_several_outputs_come_back() -> None:
    def stages(n: int) -> list[Any]:
        a = te.placeholder((n, n), name="a")
        b = te.compute((n, n), lambda i, j: a[i, j] + 1)
        c = te.compute((n, n), lambda i, j: b[i, j] * 2)
        d = te.compute((n, n), lambda i, j: (c[i, j], b[i, j]))
        e = te.compute((n, n), lambda i, j: d[0][i, j] + d[1][i, j])
        return [a, *d, e]

    result = lowered(stages, (3,))
    assert [origin.name for origin in result.calls[0].origins] == ["compute", "compute_1", "compute_v0", "compute_v1", "compute_2"]
    assert blocks(result, "stages") == [origin.name for origin in result.calls[0].origins]
    data = np.arange(9, dtype="float32").reshape(3, 3)
    for got, expected in zip(run(result, data), [2 * (data + 1), data + 1, 3 * (data + 1)], strict=True):
        np.testing.assert_array_equal(got, expected)


def test_the_kernel_is_named_as_registered_and_numbers_in_the_name_stay() -> None:
    def layer() -> list[Any]:
        a = te.placeholder((4,), name="a")
        return [a, topi.nn.relu(a)]

    register_workload("stage 4.relu1", layer, override=True)
    assert lowered(layer, ()).ops == {"stage_4_relu1": ("stage_4_relu1",)}
    assert lowered(layer, (), name="conv2d1").ops == {"conv2d1": ("conv2d1",)}


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("main", "workload_main"), ("exp", "exp"), ("7x7", "workload_7x7"), ("é", "workload"), ("<lambda>", "lambda"), ("malloc", "malloc")],
)
def test_any_name_makes_a_kernel_that_runs(name: str, kernel: str) -> None:
    def layer() -> list[Any]:
        a = te.placeholder((4,), name="a.1")
        return [a, topi.nn.relu(a)]

    result = lowered(layer, (), name=name)
    assert [call.kernel for call in result.calls] == [kernel]
    np.testing.assert_array_equal(run(result, np.array([-1, 0, 1, 2], "float32"))[0], [0, 0, 1, 2])


def test_two_inputs_of_one_name_and_an_unused_input_are_kept_apart() -> None:
    def layer() -> list[Any]:
        a, b, c = te.placeholder((4,), name="x"), te.placeholder((4,), name="x"), te.placeholder((2,), name="unused")
        return [a, b, c, te.compute((4,), lambda i: a[i] - b[i], name="difference")]

    result = lowered(layer, ())
    assert [parameter.name for parameter in result.module["main"].params] == ["x", "x_1", "unused"]
    one, two = np.arange(4, dtype="float32"), np.ones(4, "float32")
    np.testing.assert_array_equal(run(result, one, two, np.zeros(2, "float32"))[0], one - two)


def test_a_kernel_of_an_external_call_is_an_origin_too() -> None:
    def layer() -> list[Any]:
        a = te.placeholder((4,), name="a")
        return [a, te.extern((4,), [a], lambda i, o: tvm.tirx.call_packed("some.function", i[0], o[0]), name="outside")]

    assert lowered(layer, ()).calls[0].origins == (Origin("extern", "outside"),)


def relu_of(tensor: Any) -> Any:
    return te.compute(tensor.shape, lambda *index: te.max(tensor(*index), 0.0), name="relu")


def placeholder(name: str = "a") -> Any:
    return te.placeholder((4,), name=name)


def without_input() -> list[Any]:
    a, b = placeholder(), placeholder("b")
    return [a, te.compute((4,), lambda i: a[i] + b[i])]


def output_first() -> list[Any]:
    a = placeholder()
    return [relu_of(a), a]


def twice() -> list[Any]:
    output = relu_of(placeholder("a"))
    return [*output.op.input_tensors, output, output]


def dynamic() -> list[Any]:
    a = te.placeholder((te.var("n"), 4), name="a")
    return [a, relu_of(a)]


def failing() -> list[Any]:
    raise RuntimeError("no \x1b[31m such layer")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: None, r"returned NoneType\. Return a list of TE tensors"),
        (lambda: 3, r"returned int\."),
        (lambda: relu_of(placeholder()), r"returned one tensor, relu, but not its inputs"),
        (lambda: [placeholder(), "x"], r"a list whose item 1 is of type str, not a TE tensor"),
        (lambda: [placeholder()], r"returned no output"),
        (list, r"returned no output"),
        (without_input, r"reads b, which are not in the list it returned"),
        (output_first, r"returned the input a after an output"),
        (twice, r"returned the same tensor twice"),
        (dynamic, r"a of dynamic has a shape that is no number"),
        (failing, r"failing\(\) raised RuntimeError: no \\x1b\[31m such layer Check the arguments"),
    ],
)
def test_a_workload_that_cannot_be_used_says_why(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        import_workload(function, ())


@pytest.mark.parametrize(
    ("sizes", "free_bytes", "message"),
    [
        ((-1, 2, 3), 10**9, r"A of matmul has the shape \(-1, 3\), with a dimension that is not positive\. Check the sizes"),
        ((0, 2, 3), 10**9, "with a dimension that is not positive"),
        ((100_000, 100_000, 100_000), 10**12, "more elements than the 32-bit indices of its kernel can count"),
        ((10_000, 10_000, 10_000), 10**9, r"inputs and outputs of matmul need 1\.1 GiB; 0\.9 GiB are the most"),
    ],
)
def test_sizes_that_no_kernel_can_have_are_refused(sizes: tuple[int, ...], free_bytes: int, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(te_import, "memory_limit", lambda: free_bytes)
    with pytest.raises(ModelError, match=message):
        import_workload(bundled_workloads.matmul, sizes)


def test_wrong_arguments_are_shown_with_what_python_says() -> None:
    with pytest.raises(ModelError, match=r"matmul\(1, 2\) raised TypeError: matmul\(\) missing 1 required positional argument: 'K'"):
        import_workload(bundled_workloads.matmul, (1, 2))
    with pytest.raises(ModelError, match=r"matmul\('a', 2, 3\)"):
        import_workload(bundled_workloads.matmul, ("a", 2, 3))
