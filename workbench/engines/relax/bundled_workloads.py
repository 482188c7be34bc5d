"""The TE workloads that come with the workbench; their default arguments are in `workbench.workloads.BUNDLED`."""

from __future__ import annotations

from typing import Any

from tvm import te, topi

from workbench.workloads import register_workload


@register_workload
def conv2d_relu(N: int, H: int, W: int, CO: int, CI: int, KH: int, KW: int, stride: int, padding: int) -> list[Any]:  # noqa: N803 - TVM's names
    """Convolution (NCHW), bias and ReLU."""
    data = te.placeholder((N, CI, H, W), name="data")
    weight = te.placeholder((CO, CI, KH, KW), name="weight")
    bias = te.placeholder((1, CO, 1, 1), name="bias")
    conv = topi.nn.conv2d(data, weight, stride, padding, dilation=1, out_dtype="float32")
    return [data, weight, bias, _bias_relu(conv, bias)]


@register_workload
def depthwise_conv2d(N: int, H: int, W: int, C: int, KH: int, KW: int, stride: int, padding: int) -> list[Any]:  # noqa: N803 - TVM's names
    """Depthwise convolution (NCHW, one filter per channel), bias and ReLU."""
    data = te.placeholder((N, C, H, W), name="data")
    weight = te.placeholder((C, 1, KH, KW), name="weight")
    bias = te.placeholder((1, C, 1, 1), name="bias")
    conv = topi.nn.depthwise_conv2d_nchw(data, weight, stride, padding, dilation=1, out_dtype="float32")
    return [data, weight, bias, _bias_relu(conv, bias)]


def _bias_relu(conv: Any, bias: Any) -> Any:
    biased = te.compute(conv.shape, lambda n, c, h, w: conv[n, c, h, w] + bias[0, c, 0, 0], name="bias_add", tag="broadcast")
    return te.compute(conv.shape, lambda *index: te.max(biased(*index), 0.0), name="relu", tag="elemwise")


@register_workload
def matmul(M: int, N: int, K: int) -> list[Any]:  # noqa: N803 - the usual names
    """Product of an M x K and a K x N matrix."""
    a = te.placeholder((M, K), name="A")
    b = te.placeholder((K, N), name="B")
    return [a, b, _product(a, b, "matmul")]


@register_workload
def matmul_add(M: int, N: int, K: int) -> list[Any]:  # noqa: N803 - the usual names
    """Product of an M x K and a K x N matrix, plus a row of N biases."""
    a = te.placeholder((M, K), name="A")
    b = te.placeholder((K, N), name="B")
    bias = te.placeholder((N,), name="bias")
    product = _product(a, b, "matmul")
    return [a, b, bias, te.compute((M, N), lambda i, j: product[i, j] + bias[j], name="bias_add", tag="broadcast")]


def _product(a: Any, b: Any, name: str) -> Any:
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name, tag="matmul")


@register_workload
def softmax(rows: int, columns: int) -> list[Any]:
    """Softmax over each row."""
    data = te.placeholder((rows, columns), name="data")
    return [data, topi.nn.softmax(data, axis=-1)]


@register_workload
def attention(heads: int, length: int, size: int) -> list[Any]:
    """Softmax of the scaled product of queries and keys, times the values; each heads x length x size."""
    query, key, value = (te.placeholder((heads, length, size), name=name) for name in ("query", "key", "value"))
    d = te.reduce_axis((0, size), name="d")
    scores = te.compute((heads, length, length), lambda h, i, j: te.sum(query[h, i, d] * key[h, j, d], axis=d), name="scores", tag="batch_matmul")
    scaled = te.compute(scores.shape, lambda *index: scores(*index) * (size**-0.5), name="scale", tag="elemwise")
    weights = topi.nn.softmax(scaled, axis=-1)
    t = te.reduce_axis((0, length), name="t")
    output = te.compute(
        (heads, length, size), lambda h, i, j: te.sum(weights[h, i, t] * value[h, t, j], axis=t), name="weighted_sum", tag="batch_matmul"
    )
    return [query, key, value, output]
