"""Constants are computed at lowering, and come out as TVM itself would compute them; batch normalisation becomes a scale and a shift."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from workbench.engines.relax.batch_norm import simplify_batch_norm
from workbench.engines.relax.fold import array_of, constant, fold_constants, fold_with_tvm
from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.rewriting import bindings_of, operator_name

Array = np.ndarray[Any, Any]
CPU = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})
F32 = np.array([[1.5, -2, 0.25], [4, 1, 9]], np.float32)
ROW = np.array([2, 0.5, -1], np.float32)


def function(body: Callable[[relax.BlockBuilder, Any], Any], *shape: int, dtype: str = "float32") -> tvm.IRModule:
    """A module whose ``main`` takes one tensor; `body` emits bindings and gives the result."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType(list(shape), dtype))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(body(builder, data))
        builder.emit_func_output(result)
    return builder.get()


def run(module: tvm.IRModule, *inputs: Array) -> list[Array]:
    result = relax.VirtualMachine(relax.build(module, CPU), tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs))
    return [result.numpy()] if hasattr(result, "numpy") else [item.numpy() for item in result]


def operators(module: tvm.IRModule) -> list[str]:
    return [name for binding in bindings_of(module["main"]) if (name := operator_name(binding.value))]


FOLDABLE: dict[str, Callable[[], Any]] = {
    "add with broadcasting": lambda: relax.op.add(relax.const(F32), relax.const(ROW)),
    "subtract a scalar": lambda: relax.op.subtract(relax.const(F32), relax.const(3.0)),
    "multiply scalars": lambda: relax.op.multiply(relax.const(3.0), relax.const(2.5)),
    "divide": lambda: relax.op.divide(relax.const(F32), relax.const(ROW)),
    "divide by zero": lambda: relax.op.divide(relax.const(F32), relax.const(ROW * 0)),
    "maximum": lambda: relax.op.maximum(relax.const(F32), relax.const(ROW)),
    "minimum": lambda: relax.op.minimum(relax.const(F32), relax.const(ROW)),
    "power": lambda: relax.op.power(relax.const(np.abs(F32)), relax.const(ROW)),
    "negative": lambda: relax.op.negative(relax.const(F32)),
    "square root of a negative number": lambda: relax.op.sqrt(relax.const(F32)),
    "exponential that overflows": lambda: relax.op.exp(relax.const(F32 * 100)),
    "absolute value": lambda: relax.op.abs(relax.const(F32)),
    "reciprocal square root": lambda: relax.op.rsqrt(relax.const(np.abs(F32))),
    "half precision": lambda: relax.op.add(relax.const(F32.astype(np.float16)), relax.const(ROW.astype(np.float16))),
    "double precision": lambda: relax.op.multiply(relax.const(F32.astype(np.float64), "float64"), relax.const(ROW.astype(np.float64), "float64")),
    "concatenate": lambda: relax.op.concat([relax.const(F32), relax.const(F32)], axis=1),
    "concatenate from the end": lambda: relax.op.concat([relax.const(F32), relax.const(F32)], axis=-1),
    "reshape": lambda: relax.op.reshape(relax.const(F32), (3, 2)),
    "reshape to a scalar": lambda: relax.op.reshape(relax.const(F32[:1, :1]), ()),
    "expand": lambda: relax.op.expand_dims(relax.const(ROW), [0, 2]),
    "squeeze": lambda: relax.op.squeeze(relax.const(F32[:1])),
    "flatten": lambda: relax.op.flatten(relax.const(F32)),
    "broadcast": lambda: relax.op.broadcast_to(relax.const(ROW), (4, 3)),
    "transpose": lambda: relax.op.permute_dims(relax.const(F32)),
    "permute": lambda: relax.op.permute_dims(relax.const(F32.reshape(1, 2, 3)), [2, 0, 1]),
    "cast to integers": lambda: relax.op.astype(relax.const(F32), "int32"),
    "cast of booleans": lambda: relax.op.astype(relax.const(F32 > 1), "float32"),
    "cast to booleans": lambda: relax.op.astype(relax.const(np.array([0, 1, 2], np.int32)), "bool"),
    "reshape of booleans": lambda: relax.op.reshape(relax.const(F32 > 1), (6,)),
    "nothing at all": lambda: relax.op.add(relax.const(np.zeros((0, 3), np.float32)), relax.const(ROW)),
}


@pytest.mark.parametrize("case", FOLDABLE)
def test_a_constant_is_folded_to_what_tvm_computes(case: str) -> None:
    module = function(lambda builder, data: builder.emit(FOLDABLE[case]()), 1)
    folded = next(bindings_of(fold_constants(module)["main"])).value
    assert isinstance(folded, tvm.ir.GenericConst)
    assert folded.ty == next(bindings_of(module["main"])).value.ty
    if case != "nothing at all":
        np.testing.assert_allclose(folded.value.numpy(), run(module, np.ones(1, np.float32))[0], rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: relax.op.add(relax.const(np.array([1, 2], np.int32)), relax.const(np.array([3, 4], np.int32))),
        lambda: relax.op.astype(relax.const(F32), "bfloat16"),
        lambda: relax.op.tanh(relax.const(F32)),
        lambda: relax.op.floor_divide(relax.const(np.array([7, -7], np.int32)), relax.const(np.array([2, 2], np.int32))),
    ],
)
def test_what_numpy_does_not_fold_is_left_to_tvm(make: Callable[[], Any]) -> None:
    module = function(lambda builder, data: builder.emit(make()), 1)
    assert len(operators(fold_constants(module))) == 1
    assert not operators(fold_with_tvm(module))


def test_tvm_is_not_asked_to_fold_where_nothing_is_constant() -> None:
    module = function(lambda builder, data: builder.emit(relax.op.add(builder.emit(relax.op.exp(data)), relax.const(ROW))), 3)
    assert fold_with_tvm(module) is module


def test_a_large_transposed_weight_is_copied_in_blocks_and_right() -> None:
    weights = np.random.default_rng(0).random((1030, 517), dtype=np.float32)
    np.testing.assert_array_equal(constant(weights.T).value.numpy(), weights.T)
    repeated = np.broadcast_to(np.float32(3), (300, 2, 1000))
    np.testing.assert_array_equal(constant(repeated).value.numpy(), repeated)


def test_a_constant_keeps_no_hold_on_the_array() -> None:
    weights = np.zeros((600, 600), np.float32)
    held = constant(weights)
    weights[:] = 1
    assert not array_of(held).any()  # type: ignore[union-attr]


STATISTICS = [np.array(values, np.float32) for values in ([1.5, -2, 0.5, 1], [0.5, 1, -1, 0], [0.1, 0.2, -0.3, 0.4], [0.5, 1, 2, 3])]


def batch_norm(data: Any, axis: int = 1, **options: Any) -> Any:
    return relax.op.nn.batch_norm(data, *map(relax.const, STATISTICS), axis=axis, **{"training": False, **options})


def weights(*shape: int) -> Any:
    return relax.const(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def normalised(first: Callable[[Any], Any], **options: Any) -> Callable[[relax.BlockBuilder, Any], Any]:
    """A body: an operator, then a batch normalisation of its value."""

    def body(builder: relax.BlockBuilder, data: Any) -> Any:
        value = builder.emit(first(data))
        return builder.emit(relax.TupleGetItem(builder.emit(batch_norm(value, **options)), 0))

    return body


def conv2d(data: Any, **options: Any) -> Any:
    groups = options.get("groups", 1)
    return relax.op.nn.conv2d(data, weights(4, 4 // groups, 3, 3), padding=1, **options)


def biased(builder: relax.BlockBuilder, data: Any, bias: Any) -> Any:
    value = builder.emit(relax.op.add(builder.emit(conv2d(data)), bias))
    return builder.emit(relax.TupleGetItem(builder.emit(batch_norm(value)), 0))


def shared(builder: relax.BlockBuilder, data: Any) -> Any:
    value = builder.emit(conv2d(data))
    return builder.emit(relax.op.add(value, builder.emit(relax.TupleGetItem(builder.emit(batch_norm(value)), 0))))


def statistics_returned(builder: relax.BlockBuilder, data: Any) -> Any:
    result = builder.emit(batch_norm(builder.emit(conv2d(data))))
    return relax.Tuple([builder.emit(relax.TupleGetItem(result, index)) for index in range(3)])


BATCH_NORMS: dict[str, tuple[Callable[[relax.BlockBuilder, Any], Any], tuple[int, ...], list[str]]] = {
    "after a convolution": (normalised(conv2d), (1, 4, 5, 5), ["nn.conv2d", "add"]),
    "after a grouped convolution": (normalised(lambda data: conv2d(data, groups=2)), (1, 4, 5, 5), ["nn.conv2d", "add"]),
    "after a depthwise convolution": (normalised(lambda data: conv2d(data, groups=4)), (1, 4, 5, 5), ["nn.conv2d", "add"]),
    "after NHWC": (
        normalised(lambda data: relax.op.nn.conv2d(data, weights(3, 3, 4, 4), data_layout="NHWC", kernel_layout="HWIO"), axis=3),
        (1, 5, 5, 4),
        ["nn.conv2d", "add"],
    ),
    "after conv1d": (normalised(lambda data: relax.op.nn.conv1d(data, weights(4, 4, 3))), (1, 4, 9), ["nn.conv1d", "add"]),
    "after conv3d": (normalised(lambda data: relax.op.nn.conv3d(data, weights(4, 4, 2, 2, 2))), (1, 4, 3, 3, 3), ["nn.conv3d", "add"]),
    "after a transposed convolution": (
        normalised(lambda data: relax.op.nn.conv2d_transpose(data, weights(4, 4, 3, 3))),
        (1, 4, 5, 5),
        ["nn.conv2d_transpose", "multiply", "add"],
    ),
    "on the last axis of NCHW": (normalised(conv2d, axis=-1), (1, 4, 4, 4), ["nn.conv2d", "multiply", "add"]),
    "after a bias per channel": (lambda builder, data: biased(builder, data, weights(1, 4, 1, 1)), (1, 4, 5, 5), ["nn.conv2d", "add"]),
    "after a bias without batch": (lambda builder, data: biased(builder, data, weights(4, 1, 1)), (1, 4, 5, 5), ["nn.conv2d", "add"]),
    "after a scalar bias": (lambda builder, data: biased(builder, data, relax.const(0.5)), (1, 4, 5, 5), ["nn.conv2d", "add"]),
    "after a sum with another size": (
        lambda builder, data: biased(builder, data, weights(1, 4, 5, 5)),
        (1, 4, 5, 5),
        ["nn.conv2d", "add", "multiply", "add"],
    ),
    "after a sum with the input": (lambda builder, data: biased(builder, data, data), (1, 4, 5, 5), ["nn.conv2d", "add", "multiply", "add"]),
    "of what others read": (shared, (1, 4, 5, 5), ["nn.conv2d", "multiply", "add", "add"]),
    "without a factor": (normalised(conv2d, scale=False), (1, 4, 5, 5), ["nn.conv2d", "add"]),
    "without a summand": (normalised(conv2d, center=False), (1, 4, 5, 5), ["nn.conv2d", "add"]),
    "of the input": (normalised(relax.op.negative), (1, 4, 5, 5), ["negative", "multiply", "add"]),
    "whose statistics are read": (statistics_returned, (1, 4, 5, 5), ["nn.conv2d", "add"]),
}


@pytest.mark.parametrize("case", BATCH_NORMS)
def test_a_batch_normalisation_becomes_a_scale_and_a_shift(case: str) -> None:
    body, shape, expected = BATCH_NORMS[case]
    module = function(body, *shape)
    simplified = simplify_batch_norm(module, OriginTable())
    assert operators(simplified) == [f"relax.{name}" for name in expected]
    data = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    reference = relax.transform.DecomposeOpsForInference()(module)
    for value, other in zip(run(simplified, data), run(reference, data), strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-4)


def test_a_batch_normalisation_that_trains_stays() -> None:
    module = function(normalised(conv2d, training=True), 1, 4, 5, 5)
    assert operators(simplify_batch_norm(module, OriginTable())) == ["relax.nn.conv2d", "relax.nn.batch_norm"]
