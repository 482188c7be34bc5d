"""The kernels that the tuning benchmarks search: TE workloads, the same for the workbench and for stock TVM."""

from __future__ import annotations

from typing import Any

from tvm import te, topi

from workbench import register_workload

TASKS: dict[str, tuple[str, list[int]]] = {
    "conv2d 1x512x7x7 512 3x3": ("conv2d", [512, 7, 512]),
    "conv2d 1x64x56x56 64 3x3": ("conv2d", [64, 56, 64]),
    "matmul 1024": ("matmul", [1024, 1024, 1024]),
    "dense 1x768x3072": ("dense", [1, 768, 3072]),
    "depthwise 1x256x28x28": ("depthwise", [256, 28]),
}
"""Name of the workload function and its arguments, by title."""


@register_workload
def conv2d(channels: int, size: int, filters: int) -> list[Any]:
    """A 3x3 convolution in NCHW, padding 1."""
    data = te.placeholder((1, channels, size, size), name="data")
    kernel = te.placeholder((filters, channels, 3, 3), name="kernel")
    return [data, kernel, topi.nn.conv2d_nchw(data, kernel, 1, 1, 1)]


@register_workload
def matmul(rows: int, columns: int, depth: int) -> list[Any]:
    """A product of two matrices."""
    left = te.placeholder((rows, depth), name="left")
    right = te.placeholder((depth, columns), name="right")
    axis = te.reduce_axis((0, depth), name="k")
    return [left, right, te.compute((rows, columns), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis), name="product")]


@register_workload
def dense(rows: int, depth: int, columns: int) -> list[Any]:
    """A dense layer without bias."""
    data = te.placeholder((rows, depth), name="data")
    weight = te.placeholder((columns, depth), name="weight")
    return [data, weight, topi.nn.dense(data, weight)]


@register_workload
def depthwise(channels: int, size: int) -> list[Any]:
    """A depthwise 3x3 convolution in NCHW, padding 1."""
    data = te.placeholder((1, channels, size, size), name="data")
    kernel = te.placeholder((channels, 1, 3, 3), name="kernel")
    return [data, kernel, topi.nn.depthwise_conv2d_nchw(data, kernel, (1, 1), (1, 1), (1, 1))]


FUNCTIONS = {"conv2d": conv2d, "matmul": matmul, "dense": dense, "depthwise": depthwise}
