"""TE workloads as Relay functions, so that all that is done with a model is done with them too."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Callable, Sequence

import tvm
from tvm import relay, te

from .failing import MODEL, Refusal

_OPERATOR = "workbench.te_workload"
_registered: set[str] = set()


def _conv2d_relu(n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int, stride: int, padding: int) -> Any:
    data, weight, bias = _tensor("data", n, ci, h, w), _tensor("weight", co, ci, kh, kw), _tensor("bias", 1, co, 1, 1)
    product = relay.nn.conv2d(data, weight, strides=stride, padding=padding, channels=co, kernel_size=(kh, kw))
    return relay.Function([data, weight, bias], relay.nn.relu(relay.add(product, bias)))


def _depthwise_conv2d(n: int, h: int, w: int, c: int, kh: int, kw: int, stride: int, padding: int) -> Any:
    data, weight, bias = _tensor("data", n, c, h, w), _tensor("weight", c, 1, kh, kw), _tensor("bias", 1, c, 1, 1)
    product = relay.nn.conv2d(data, weight, strides=stride, padding=padding, groups=c, channels=c, kernel_size=(kh, kw))
    return relay.Function([data, weight, bias], relay.nn.relu(relay.add(product, bias)))


def _matmul(m: int, n: int, k: int) -> Any:
    a, b = _tensor("A", m, k), _tensor("B", k, n)
    return relay.Function([a, b], relay.nn.matmul(a, b))


def _matmul_add(m: int, n: int, k: int) -> Any:
    a, b, bias = _tensor("A", m, k), _tensor("B", k, n), _tensor("bias", n)
    return relay.Function([a, b, bias], relay.add(relay.nn.matmul(a, b), bias))


def _softmax(rows: int, columns: int) -> Any:
    data = _tensor("data", rows, columns)
    return relay.Function([data], relay.nn.softmax(data, axis=-1))


BUNDLED: dict[str, Callable[..., Any]] = {
    "conv2d_relu": _conv2d_relu,
    "depthwise_conv2d": _depthwise_conv2d,
    "matmul": _matmul,
    "matmul_add": _matmul_add,
    "softmax": _softmax,
}
"""The bundled workloads that Relay has operators for."""


def _tensor(name: str, *shape: int) -> Any:
    return relay.var(name, shape=shape, dtype="float32")


def as_relay(function: Callable[..., Any], arguments: Sequence[Any], name: str) -> Any:
    """A Relay function that calls one operator, which computes what a TE workload says: inputs first, the output last.

    Raises:
        Refusal: It returns no TE tensors of this TVM, or several are outputs.
    """
    made = function(*arguments)
    tensors = list(made) if isinstance(made, (list, tuple)) else [made]
    if not all(isinstance(tensor, te.Tensor) for tensor in tensors):
        raise Refusal(MODEL, f"The workload {name} returns no TE tensors of the old TVM.", "Return [input, ..., output].")
    inputs = [tensor for tensor in tensors if isinstance(tensor.op, te.PlaceholderOp)]
    outputs = [tensor for tensor in tensors if not isinstance(tensor.op, te.PlaceholderOp)]
    if len(outputs) != 1 or not inputs:
        raise Refusal(MODEL, f"The workload {name} has {len(inputs)} inputs and {len(outputs)} outputs.", "Return its inputs and one output.")
    told = json.dumps([name, list(arguments)], sort_keys=True)
    operator = f"{_OPERATOR}.{hashlib.sha256(told.encode()).hexdigest()[:16]}"  # the same in every process
    names = [str(tensor.op.name) for tensor in inputs]

    def compute(attributes: Any, tensors: Sequence[Any], kind: Any) -> list[Any]:
        del attributes, kind
        again = _called_with(function, arguments, dict(zip(names, tensors)))
        return [tensor for tensor in again if not isinstance(tensor.op, te.PlaceholderOp)]

    if operator not in _registered:
        _register(operator, names, outputs[0], compute)
        _registered.add(operator)
    parameters = [relay.var(item, shape=[int(size) for size in tensor.shape], dtype=str(tensor.dtype)) for item, tensor in zip(names, inputs)]
    return relay.Function(parameters, relay.Call(relay.op.get(operator), parameters))


def _called_with(function: Callable[..., Any], arguments: Sequence[Any], tensors: dict[str, Any]) -> Sequence[Any]:
    """What the workload returns when its placeholders are tensors that there are already."""
    stock = te.placeholder

    def placeholder(shape: Any, dtype: Any = None, name: str = "placeholder") -> Any:
        return tensors[name] if name in tensors else stock(shape, dtype, name)

    te.placeholder = placeholder
    try:
        return list(function(*arguments))
    finally:
        te.placeholder = stock


@tvm.target.generic_func  # type: ignore[untyped-decorator] # TVM has no types
def schedule_workload(attributes: Any, outputs: Sequence[Any], target: Any) -> Any:
    """The untuned kernel: loops as they are written. TVM takes no function that does not look for the target's own."""
    del attributes, target
    return te.create_schedule([tensor.op for tensor in outputs])


def _register(name: str, names: Sequence[str], output: Any, compute: Callable[..., Any]) -> None:
    result = relay.TensorType([int(size) for size in output.shape], str(output.dtype))
    relay.op.op.register(name, "A TE workload of the user's.")
    operator = relay.op.get(name)
    operator.set_num_inputs(len(names))
    for item in names:
        operator.add_argument(item, "Tensor", "an input")
    operator.add_type_rel(name, lambda *_: result)
    operator.set_support_level(10)
    relay.op.op.register_pattern(name, relay.op.OpPattern.OPAQUE)
    relay.op.op.register_compute(name, compute)
    relay.op.op.register_schedule(name, schedule_workload)
