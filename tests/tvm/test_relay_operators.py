"""Every converter of Relay operators gives what a NumPy formula gives, on tiny shapes, compiled for the CPU and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import erf
from typing import Any

import numpy as np
import pytest
import tvm
from numpy.typing import NDArray
from tvm import relax

from workbench.engines.relax.relay import attributes, import_relay, registry
from workbench.engines.relax.relay.attributes import attributes_of
from workbench.engines.relax.relay.operation import Operation, Value
from workbench.engines.relax.relay.registry import CONVERTERS

Array = NDArray[Any]
# Names of inputs, so that none becomes a random weight.
SHAPES = {
    "x": (2, 4, 6, 6), "x1": (2, 4, 6, 6), "x2": (4,), "x3": (8, 4, 3, 3), "x4": (4, 1, 3, 3), "x5": (3, 5), "x6": (7, 5), "x7": (2, 3, 5),
    "x8": (2, 5, 4), "x9": (2, 7, 5), "x10": (4, 8, 3, 3), "x11": (2, 4, 9), "x12": (6, 4, 3), "x13": (2, 2, 4, 4, 4), "x14": (3, 2, 2, 2, 2),
    "x15": (8, 2, 3, 3), "x16": (1, 1, 5, 1), "x17": (4, 2, 3, 3), "x18": (2, 4, 5), "x19": (4, 3, 3), "x20": (4,), "x21": (4,), "x22": (4,),
    "x25": (1, 1, 3, 3, 4, 8), "x26": (2, 5, 4), "x27": (3, 5),
}  # fmt: skip
INTS = {"x23": (2, 3), "x24": (2, 4, 6, 6), "input_1": (2, 3), "input_2": (3, 5)}


def values() -> dict[str, Array]:
    """The inputs of all cases; x22 is positive, for variances."""
    random = np.random.default_rng(0)
    made: dict[str, Array] = {name: random.standard_normal(shape).astype("float32") for name, shape in SHAPES.items()}
    made["x22"] = np.abs(made["x22"]) + np.float32(0.5)
    made.update({name: random.integers(0, 4, shape).astype("int32") for name, shape in INTS.items()})
    made["input_1"] = np.array([[0, 1, 2], [1, 0, 1]], "int32")
    return made


def run(text: str, arguments: dict[str, Array]) -> list[Array]:
    """Import, compile and run; the outputs in order."""
    program = import_relay(text)
    assert not program.random_weights
    executable = tvm.compile(program.module, target=tvm.target.Target({"kind": "llvm"}))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    names = [str(param.name) for param in program.module["main"].params]
    result = machine["main"](*[tvm.runtime.tensor(arguments[name]) for name in names])
    return [item.numpy() for item in result] if len(getattr(result, "shape", ())) == 0 and not hasattr(result, "numpy") else [result.numpy()]


def conv(data: Array, weight: Array, *, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1) -> Array:
    """A 2-D convolution in NCHW and OIHW, the plain sum."""
    data = np.pad(data, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    outputs, inputs, height, width = weight.shape
    rows = (data.shape[2] - dilation * (height - 1) - 1) // stride + 1
    columns = (data.shape[3] - dilation * (width - 1) - 1) // stride + 1
    result = np.zeros((data.shape[0], outputs, rows, columns), "float32")
    for channel in range(outputs):
        first = channel // (outputs // groups) * inputs
        for row in range(rows):
            for column in range(columns):
                top, left = row * stride, column * stride
                part = data[:, first : first + inputs, top : top + dilation * height : dilation, left : left + dilation * width : dilation]
                result[:, channel, row, column] = (part[:, :, :height, :width] * weight[channel]).sum((1, 2, 3))
    return result


def conv_transpose(data: Array, weight: Array, stride: int = 1, pad: int = 0, extra: int = 0) -> Array:
    """A 2-D transposed convolution in NCHW and IOHW: every element adds its kernel to the output."""
    batch, _, height, width = data.shape
    window = weight.shape[2]
    full = np.zeros((batch, weight.shape[1], (height - 1) * stride + window + extra, (width - 1) * stride + window + extra), "float32")
    for row in range(height):
        for column in range(width):
            part = np.einsum("bi,iohw->bohw", data[:, :, row, column], weight)
            full[:, :, row * stride : row * stride + window, column * stride : column * stride + window] += part
    return full[:, :, pad : full.shape[2] - pad, pad : full.shape[3] - pad]


def pool(data: Array, size: int, stride: int, pad: int, kind: str) -> Array:
    """Pooling in NCHW: ``max``, ``avg`` over what is inside, ``avg_all`` with the padding counted."""
    fill = -np.inf if kind == "max" else np.nan if kind == "avg" else 0.0
    padded = np.pad(data, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    count = (padded.shape[2] - size) // stride + 1
    reduce: Callable[..., Array] = {"max": np.max, "avg": np.nanmean, "avg_all": np.mean}[kind]
    rows = [
        [reduce(padded[:, :, r * stride : r * stride + size, c * stride : c * stride + size], axis=(2, 3)) for c in range(count)]
        for r in range(count)
    ]
    return np.moveaxis(np.array(rows, "float32"), (0, 1), (2, 3))


def normalise(data: Array, gamma: Array, beta: Array, axes: tuple[int, ...]) -> Array:
    """Zero mean and unit variance over the axes, epsilon 1e-5."""
    mean, variance = data.mean(axes, keepdims=True), data.var(axes, keepdims=True)
    return np.asarray((data - mean) / np.sqrt(variance + 1e-5) * gamma + beta)


def channels(vector: Array) -> Array:
    """A vector along the channel axis of NCHW."""
    return vector.reshape(-1, 1, 1)


def softmax(data: Array, axis: int) -> Array:
    """Exponentials that sum to one."""
    powers = np.exp(data - data.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def pack(data: Array, block: int) -> Array:
    """NCHW to NCHW[block]c."""
    batch, count, height, width = data.shape
    return data.reshape(batch, count // block, block, height, width).transpose(0, 1, 3, 4, 2)


def pack_kernel(weight: Array, inner: int, outer: int) -> Array:
    """OIHW to OIHW[inner]i[outer]o."""
    outputs, inputs, height, width = weight.shape
    split = weight.reshape(outputs // outer, outer, inputs // inner, inner, height, width)
    return split.transpose(0, 2, 4, 5, 3, 1)


def lrn(data: Array) -> Array:
    """Local response normalisation over 3 channels, with Relay's defaults."""
    squares = np.pad(data * data, ((0, 0), (1, 1), (0, 0), (0, 0)))
    total = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    return np.asarray(data / (2 + 0.0001 / 3 * total) ** 0.75)


PACKED = 'layout_transform(%x, src_layout="NCHW", dst_layout="NCHW2c")'
PACKED_WEIGHT = 'layout_transform(%x4, src_layout="OIHW", dst_layout="OIHW1i2o")'
BLOCKED_LAYOUTS = 'data_layout="NCHW4c", kernel_layout="OIHW4i8o", out_layout="NCHW8c"'
TO_THE_LEFT = 'coordinate_transformation_mode="asymmetric", rounding_method="floor"'
Case = tuple[str, Callable[[dict[str, Array]], Any]]
NN: list[Case] = [
    ("nn.conv2d(%x, %x3, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3])", lambda v: conv(v["x"], v["x3"], pad=1)),
    ("nn.conv2d(%x, %x3, strides=[2, 2], padding=[0, 0])", lambda v: conv(v["x"], v["x3"], stride=2)),
    ("nn.conv2d(%x, %x3, padding=[1], dilation=[2, 2])", lambda v: conv(v["x"], v["x3"], pad=1, dilation=2)),
    ("nn.conv2d(%x, %x4, groups=4, channels=4)", lambda v: conv(v["x"], v["x4"], groups=4)),
    ("nn.conv2d(%x, %x15, groups=2)", lambda v: conv(v["x"], v["x15"], groups=2)),
    ("nn.conv2d(%x, %x17, groups=4, channels=8)", lambda v: conv(v["x"], v["x17"].reshape(8, 1, 3, 3), groups=4)),
    (
        'nn.conv2d(transpose(%x, axes=[0, 2, 3, 1]), transpose(%x3, axes=[2, 3, 1, 0]), data_layout="NHWC", kernel_layout="HWIO")',
        lambda v: conv(v["x"], v["x3"]).transpose(0, 2, 3, 1),
    ),
    (
        'nn.conv2d(transpose(%x, axes=[0, 2, 3, 1]), transpose(%x4, axes=[2, 3, 0, 1]), groups=4, data_layout="NHWC", kernel_layout="HWOI")',
        lambda v: conv(v["x"], v["x4"], groups=4).transpose(0, 2, 3, 1),
    ),
    (
        'nn.conv2d(transpose(%x, axes=[1, 2, 3, 0]), %x3, data_layout="CHWN", out_layout="NHWC")',
        lambda v: conv(v["x"], v["x3"]).transpose(0, 2, 3, 1),
    ),
    (
        f"nn.contrib_conv2d_NCHWc({PACKED.replace('2c', '4c')}, %x25, padding=[1, 1], {BLOCKED_LAYOUTS})",
        lambda v: pack(conv(v["x"], v["x25"].transpose(0, 5, 1, 4, 2, 3).reshape(8, 4, 3, 3), pad=1), 8),
    ),
    (
        f'nn.contrib_depthwise_conv2d_NCHWc({PACKED}, {PACKED_WEIGHT}, groups=4, data_layout="NCHW2c", kernel_layout="OIHW1i2o")',
        lambda v: pack(conv(v["x"], v["x4"], groups=4), 2),
    ),
    ("nn.conv1d(%x11, %x12, padding=[1, 1])", lambda v: conv1d(v["x11"], v["x12"])),
    ("nn.conv3d(%x13, %x14)", lambda v: conv3d(v["x13"], v["x14"])),
    ("nn.conv2d_transpose(%x, %x10, strides=[2, 2], padding=[1, 1, 1, 1])", lambda v: conv_transpose(v["x"], v["x10"], 2, 1)),
    (
        "nn.conv2d_transpose(%x, %x10, strides=[2, 2], padding=[1, 1], output_padding=[1, 1], channels=8)",
        lambda v: conv_transpose(v["x"], v["x10"], 2, 1, 1),
    ),
    (
        'nn.conv2d_transpose(transpose(%x, axes=[0, 2, 3, 1]), transpose(%x10, axes=[2, 3, 0, 1]), data_layout="NHWC", kernel_layout="HWIO")',
        lambda v: conv_transpose(v["x"], v["x10"]).transpose(0, 2, 3, 1),
    ),
    ("nn.dense(%x5, %x6, units=7)", lambda v: v["x5"] @ v["x6"].T),
    ("nn.dense(%x7, %x6)", lambda v: v["x7"] @ v["x6"].T),
    (
        'nn.contrib_dense_pack(%x5, layout_transform(%x6, src_layout="NC", dst_layout="NC7n"), weight_layout="NC7n", units=None)',
        lambda v: v["x5"] @ v["x6"].T,
    ),
    ("nn.batch_matmul(%x7, %x9, transpose_b=True)", lambda v: v["x7"] @ v["x9"].transpose(0, 2, 1)),
    ("nn.batch_matmul(%x7, %x8)", lambda v: v["x7"] @ v["x8"]),
    ("nn.matmul(%x7, %x8)", lambda v: v["x7"] @ v["x8"]),
    ("nn.matmul(%x8, %x26, transpose_a=True)", lambda v: v["x8"].transpose(0, 2, 1) @ v["x26"]),
    ("nn.bias_add(%x, %x2)", lambda v: v["x"] + channels(v["x2"])),
    ("nn.bias_add(%x8, %x2, axis=-1)", lambda v: v["x8"] + v["x2"]),
    (
        "nn.batch_norm(%x, %x2, %x20, %x21, %x22, epsilon=0.001f).0",
        lambda v: (v["x"] - channels(v["x21"])) / np.sqrt(channels(v["x22"]) + 0.001) * channels(v["x2"]) + channels(v["x20"]),
    ),
    (
        "nn.batch_norm(%x8, %x2, %x20, %x21, %x22, axis=2, scale=False).0",
        lambda v: (v["x8"] - v["x21"]) / np.sqrt(v["x22"] + 1e-5) + v["x20"],
    ),
    (
        "nn.batch_norm(%x8, %x2, %x20, %x21, %x22, axis=2, center=False).0",
        lambda v: (v["x8"] - v["x21"]) / np.sqrt(v["x22"] + 1e-5) * v["x2"],
    ),
    ("nn.layer_norm(%x8, %x2, %x20)", lambda v: normalise(v["x8"], v["x2"], v["x20"], (2,))),
    ("nn.instance_norm(%x, %x2, %x20)", lambda v: normalise(v["x"], channels(v["x2"]), channels(v["x20"]), (2, 3))),
    (
        "nn.group_norm(%x, %x2, %x20, num_groups=2)",
        lambda v: (
            normalise(v["x"].reshape(2, 2, 2, 6, 6), np.float32(1), np.float32(0), (2, 3, 4)).reshape(2, 4, 6, 6) * channels(v["x2"])
            + channels(v["x20"])
        ),
    ),
    (
        "nn.l2_normalize(%x, eps=1e-10f, axis=[1])",
        lambda v: v["x"] / np.sqrt(np.maximum((v["x"] ** 2).sum(1, keepdims=True), 1e-10)),
    ),
    ("nn.lrn(%x, size=3)", lambda v: lrn(v["x"])),
    ("nn.softmax(%x5)", lambda v: softmax(v["x5"], -1)),
    ("nn.softmax(%x, axis=1)", lambda v: softmax(v["x"], 1)),
    ("nn.fast_softmax(%x5)", lambda v: softmax(v["x5"], -1)),
    ("nn.log_softmax(%x5)", lambda v: np.log(softmax(v["x5"], -1))),
    ("nn.max_pool2d(%x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])", lambda v: pool(v["x"], 3, 2, 1, "max")),
    ("nn.avg_pool2d(%x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])", lambda v: pool(v["x"], 3, 2, 1, "avg")),
    (
        "nn.avg_pool2d(%x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1], count_include_pad=True)",
        lambda v: pool(v["x"], 3, 2, 1, "avg_all"),
    ),
    ("nn.max_pool2d(%x, pool_size=[3, 3], strides=[2, 2], ceil_mode=True)", lambda v: pool(np_edge(v["x"]), 3, 2, 0, "max")),
    (
        'nn.max_pool2d(layout_transform(%x, src_layout="NCHW", dst_layout="NCHW2c"), pool_size=[2, 2], strides=[2, 2], layout="NCHW2c")',
        lambda v: pack(pool(v["x"], 2, 2, 0, "max"), 2),
    ),
    (
        'nn.avg_pool2d(transpose(%x, axes=[0, 2, 3, 1]), pool_size=[2, 2], strides=[2, 2], layout="NHWC")',
        lambda v: pool(v["x"], 2, 2, 0, "avg").transpose(0, 2, 3, 1),
    ),
    ("nn.max_pool1d(%x11, pool_size=[3], strides=[3])", lambda v: v["x11"].reshape(2, 4, 3, 3).max(-1)),
    ("nn.avg_pool1d(%x11, pool_size=[3], strides=[3])", lambda v: v["x11"].reshape(2, 4, 3, 3).mean(-1)),
    ("nn.avg_pool3d(%x13, pool_size=[2, 2, 2], strides=[2, 2, 2])", lambda v: v["x13"].reshape(2, 2, 2, 2, 2, 2, 2, 2).mean((3, 5, 7))),
    ("nn.global_avg_pool2d(%x)", lambda v: v["x"].mean((2, 3), keepdims=True)),
    ("nn.global_max_pool2d(%x)", lambda v: v["x"].max((2, 3), keepdims=True)),
    ("nn.adaptive_avg_pool2d(%x, output_size=[2, 3])", lambda v: v["x"].reshape(2, 4, 2, 3, 3, 2).mean((3, 5))),
    ("nn.adaptive_max_pool2d(%x, output_size=[2, 3])", lambda v: v["x"].reshape(2, 4, 2, 3, 3, 2).max((3, 5))),
    ("nn.prelu(%x, %x2)", lambda v: np.where(v["x"] > 0, v["x"], v["x"] * channels(v["x2"]))),
    ("nn.pad(%x5, 1.5f, pad_width=[[1, 0], [0, 2]])", lambda v: np.pad(v["x5"], ((1, 0), (0, 2)), constant_values=1.5)),
    ('nn.pad(%x5, 0f, pad_width=[[1, 1], [2, 2]], pad_mode="reflect")', lambda v: np.pad(v["x5"], ((1, 1), (2, 2)), "reflect")),
    ('nn.pad(%x5, 0f, pad_width=[[1, 1], [2, 2]], pad_mode="edge")', lambda v: np.pad(v["x5"], ((1, 1), (2, 2)), "edge")),
    ('nn.mirror_pad(%x5, mode="REFLECT", pad_width=[[1, 1], [2, 2]])', lambda v: np.pad(v["x5"], ((1, 1), (2, 2)), "reflect")),
    ("nn.upsampling(%x, scale_h=2f, scale_w=2f)", lambda v: v["x"].repeat(2, 2).repeat(2, 3)),
    (
        'image.resize2d(%x, size=[3, 3], roi=[0f, 0f, 0f, 0f], method="linear")',
        lambda v: v["x"].reshape(2, 4, 3, 2, 3, 2).mean((3, 5)),
    ),
    (
        f'image.resize2d(transpose(%x, axes=[0, 2, 3, 1]), size=[12, 12], layout="NHWC", method="nearest_neighbor", {TO_THE_LEFT})',
        lambda v: v["x"].repeat(2, 2).repeat(2, 3).transpose(0, 2, 3, 1),
    ),
    ("nn.batch_flatten(%x)", lambda v: v["x"].reshape(2, -1)),
    ("nn.space_to_depth(%x, block_size=2)", lambda v: v["x"].reshape(2, 4, 3, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 16, 3, 3)),
    ("nn.depth_to_space(%x, block_size=2)", lambda v: v["x"].reshape(2, 2, 2, 1, 6, 6).transpose(0, 3, 4, 1, 5, 2).reshape(2, 1, 12, 12)),
    (
        'nn.depth_to_space(%x, block_size=2, mode="CRD")',
        lambda v: v["x"].reshape(2, 1, 2, 2, 6, 6).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 12, 12),
    ),
]


def np_edge(data: Array) -> Array:
    """One more row and column, which never wins a maximum."""
    return np.pad(data, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=-np.inf)


def conv1d(data: Array, weight: Array) -> Array:
    """A 1-D convolution with one element of padding."""
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1)))
    return np.stack([np.einsum("ncw,ocw->no", padded[:, :, i : i + 3], weight) for i in range(data.shape[2])], -1)


def conv3d(data: Array, weight: Array) -> Array:
    """A 3-D convolution with a window of 2, without padding."""
    span = range(data.shape[2] - 1)
    flat = [np.einsum("ncdhw,ocdhw->no", data[:, :, d : d + 2, h : h + 2, w : w + 2], weight) for d in span for h in span for w in span]
    return np.stack(flat, -1).reshape(data.shape[0], weight.shape[0], len(span), len(span), len(span))


MATH: list[Case] = [
    *[
        (f"{name}(%x5)", lambda v, function=function: function(v["x5"]))
        for name, function in {
            "abs": np.abs,
            "negative": np.negative,
            "floor": np.floor,
            "ceil": np.ceil,
            "round": np.round,
            "sin": np.sin,
            "cos": np.cos,
            "exp": np.exp,
            "fast_exp": np.exp,
            "tanh": np.tanh,
            "fast_tanh": np.tanh,
            "sign": np.sign,
            "trunc": np.trunc,
            "atan": np.arctan,
            "erf": np.vectorize(erf),
            "fast_erf": np.vectorize(erf),
            "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
            "copy": lambda x: x,
            "annotation.stop_fusion": lambda x: x,
            "on_device": lambda x: x,
            "nn.relu": lambda x: np.maximum(x, 0),
            "isnan": np.isnan,
        }.items()
    ],
    *[
        (f"{name}(%x22)", lambda v, function=function: function(v["x22"]))
        for name, function in {"log": np.log, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}.items()
    ],
    *[
        (f"{name}(%x5, %x27)", lambda v, function=function: function(v["x5"], v["x27"]))
        for name, function in {
            "add": np.add,
            "subtract": np.subtract,
            "multiply": np.multiply,
            "divide": np.divide,
            "maximum": np.maximum,
            "minimum": np.minimum,
            "less": np.less,
            "less_equal": np.less_equal,
            "greater": np.greater,
            "greater_equal": np.greater_equal,
            "equal": np.equal,
            "not_equal": np.not_equal,
            "mod": np.fmod,
            "floor_mod": np.mod,
            "floor_divide": np.floor_divide,
        }.items()
    ],
    ("power(%x5, 2f)", lambda v: v["x5"] ** 2),
    ("power(%x22, 1.5f)", lambda v: v["x22"] ** 1.5),
    ("add(%x, expand_dims(%x2, axis=1, num_newaxis=2))", lambda v: v["x"] + channels(v["x2"])),
    ("right_shift(%x23, 1)", lambda v: v["x23"] >> 1),
    ("left_shift(%x23, 2 /* ty=int32 */)", lambda v: v["x23"] << 2),
    ("logical_and(greater(%x5, 0f), less(%x27, 0f))", lambda v: (v["x5"] > 0) & (v["x27"] < 0)),
    ("logical_or(greater(%x5, 0f), less(%x27, 0f))", lambda v: (v["x5"] > 0) | (v["x27"] < 0)),
    ("logical_not(greater(%x5, 0f))", lambda v: ~(v["x5"] > 0)),
    ("where(greater(%x5, 0f), %x5, %x27)", lambda v: np.where(v["x5"] > 0, v["x5"], v["x27"])),
    ("clip(%x5, a_min=-0.5f, a_max=0.5f)", lambda v: np.clip(v["x5"], -0.5, 0.5)),
    ("clip(%x23, a_min=1f, a_max=6e+30f)", lambda v: np.maximum(v["x23"], 1)),
    ("nn.leaky_relu(%x5, alpha=0.1f)", lambda v: np.where(v["x5"] > 0, v["x5"], np.float32(0.1) * v["x5"])),
    ("nn.dropout(%x5).0", lambda v: v["x5"]),
    ('cast(%x23, dtype="float32")', lambda v: v["x23"].astype("float32")),
    ("cast_like(%x23, %x5)", lambda v: v["x23"].astype("float32")),
    ("sum(%x)", lambda v: v["x"].sum()),
    ("sum(%x, axis=[1, -1])", lambda v: v["x"].sum((1, 3))),
    ("mean(%x, axis=[2, 3], keepdims=True)", lambda v: v["x"].mean((2, 3), keepdims=True)),
    ("max(%x, axis=[1], exclude=True)", lambda v: v["x"].max((0, 2, 3))),
    ("min(%x, axis=[0])", lambda v: v["x"].min(0)),
    ("prod(%x5, axis=[1])", lambda v: v["x5"].prod(1)),
    ("variance(%x, mean(%x, axis=[1], keepdims=True), axis=[1])", lambda v: v["x"].var(1)),
    ("variance(%x, mean(%x, axis=[1], keepdims=True), axis=[1], keepdims=True, unbiased=True)", lambda v: v["x"].var(1, ddof=1, keepdims=True)),
    ("argmax(%x, axis=[1])", lambda v: v["x"].argmax(1).astype("int32")),
    ("argmin(%x5, axis=[1], keepdims=True)", lambda v: v["x5"].argmin(1).astype("int32")[:, None]),
    ("argmax(%x, axis=[2, 3])", lambda v: v["x"].reshape(2, 4, 36).argmax(2).astype("int32")),
    ("any(greater(%x5, 1f), axis=[1])", lambda v: (v["x5"] > 1).any(1)),
    ("all(greater(%x5, -1f), axis=[1])", lambda v: (v["x5"] > -1).all(1)),
    ("cumsum(%x5, axis=1)", lambda v: v["x5"].cumsum(1)),
    ("cumsum(%x5)", lambda v: v["x5"].ravel().cumsum()),
]

SHAPE: list[Case] = [
    ("reshape(%x, newshape=[0, -1])", lambda v: v["x"].reshape(2, -1)),
    ("reshape(%x, newshape=[0, 0, -3])", lambda v: v["x"].reshape(2, 4, 36)),
    ("reshape(%x, newshape=[-4, 1, -1, -2])", lambda v: v["x"].reshape(1, 2, 4, 6, 6)),
    ("reshape(%x, newshape=[-3, -4, 2, 3, 6])", lambda v: v["x"].reshape(8, 2, 3, 6)),
    ("reshape(%x, newshape=[1i64, 288i64])", lambda v: v["x"].reshape(1, 288)),
    ("contrib_reverse_reshape(%x, newshape=[-1, 0])", lambda v: v["x"].reshape(48, 6)),
    ("reshape_like(%x5, reshape(%x27, newshape=[15]))", lambda v: v["x5"].reshape(15)),
    ("transpose(%x, axes=[0, 2, 3, 1])", lambda v: v["x"].transpose(0, 2, 3, 1)),
    ("transpose(%x5)", lambda v: v["x5"].T),
    ("transpose(%x5, axes=None)", lambda v: v["x5"].T),
    ("squeeze(%x16)", lambda v: v["x16"].reshape(5)),
    ("squeeze(%x16, axis=[0, -1])", lambda v: v["x16"].reshape(1, 5)),
    ("expand_dims(%x5, axis=-1)", lambda v: v["x5"][:, :, None]),
    ("expand_dims(%x5, axis=1, num_newaxis=2)", lambda v: v["x5"][:, None, None]),
    ("concatenate((%x, %x1, %x), axis=1)", lambda v: np.concatenate([v["x"], v["x1"], v["x"]], 1)),
    ("split(%x, indices_or_sections=2, axis=1).1", lambda v: v["x"][:, 2:]),
    ("split(%x, indices_or_sections=[1, 3], axis=1).1", lambda v: v["x"][:, 1:3]),
    ("strided_slice(%x, begin=[0, 1], end=[1, 4], strides=[1, 2])", lambda v: v["x"][0:1, 1:4:2]),
    ("strided_slice(%x5, begin=[-1], end=[-10], strides=[-1], axes=[1])", lambda v: v["x5"][:, ::-1]),
    ("strided_slice(%x5, begin=[0, 1], end=[3, 5], strides=[2])", lambda v: v["x5"][0:3:2, 1:5]),
    ('strided_slice(%x, begin=[0, 1, 2, 0], end=[-1, 2, 3, 4], slice_mode="size")', lambda v: v["x"][:, 1:3, 2:5, 0:4]),
    ("strided_slice(%x, begin=[0, 0, 1], end=[2147483647, 2147483647, 2147483647], strides=[1])", lambda v: v["x"][:, :, 1:]),
    ("slice_like(%x6, %x5, axes=[0])", lambda v: v["x6"][:3]),
    ("take(%x5, %input_1, axis=0)", lambda v: v["x5"][v["input_1"]]),
    ("take(%x5, %input_1, axis=-1)", lambda v: v["x5"][:, v["input_1"]]),
    ("take(%x5, %input_1)", lambda v: v["x5"].ravel()[v["input_1"]]),
    ("take(%x5, 1, axis=0)", lambda v: v["x5"][1]),
    ("gather(%x6, %input_2, axis=0)", lambda v: np.take_along_axis(v["x6"], v["input_2"], 0)),
    ("gather_nd(%x5, %input_1)", lambda v: v["x5"][v["input_1"][0], v["input_1"][1]]),
    ("stack((%x5, %x27), axis=1)", lambda v: np.stack([v["x5"], v["x27"]], 1)),
    ("stack((%x5, %x27), axis=-1)", lambda v: np.stack([v["x5"], v["x27"]], -1)),
    ("tile(%x5, reps=[2, 1, 3])", lambda v: np.tile(v["x5"], (2, 1, 3))),
    ("repeat(%x5, repeats=2, axis=1)", lambda v: v["x5"].repeat(2, 1)),
    ("reverse(%x5, axis=1)", lambda v: v["x5"][:, ::-1]),
    ("broadcast_to(%x2, shape=[3, 4])", lambda v: np.broadcast_to(v["x2"], (3, 4))),
    ("broadcast_to_like(%x2, %x8)", lambda v: np.broadcast_to(v["x2"], (2, 5, 4))),
    ('zeros(shape=[2, 3], dtype="float32")', lambda v: np.zeros((2, 3), "float32")),
    ('ones(shape=[2], dtype="int32")', lambda v: np.ones(2, "int32")),
    ("zeros_like(%x5)", lambda v: np.zeros((3, 5), "float32")),
    ("ones_like(%x5)", lambda v: np.ones((3, 5), "float32")),
    ('full(2.5f, shape=[2, 2], dtype="float32")', lambda v: np.full((2, 2), 2.5, "float32")),
    ("full_like(%x5, 2f)", lambda v: np.full((3, 5), 2, "float32")),
    ('arange(1, 10, 3, start=meta[x][0], dtype="int64")', lambda v: np.arange(1, 10, 3)),
    ('one_hot(%input_1, 1f, 0f, depth=3, dtype="float32")', lambda v: np.eye(3, dtype="float32")[v["input_1"]]),
    ("one_hot(%input_1, 2f, -1f, depth=3, axis=0)", lambda v: np.moveaxis(np.eye(3, dtype="float32")[v["input_1"]] * 3 - 1, -1, 0)),
    ('shape_of(%x, dtype="int64")', lambda v: np.array([2, 4, 6, 6])),
    ("ndarray_size(%x)", lambda v: np.int32(288)),
    ('einsum((%x7, %x8), equation="bij,bjk->bik")', lambda v: v["x7"] @ v["x8"]),
    ("sort(%x5, axis=1)", lambda v: np.sort(v["x5"], 1)),
    ("trilu(%x5, 1, upper=False)", lambda v: np.tril(v["x5"], 1)),
    ("trilu(%x5, 0)", lambda v: np.triu(v["x5"])),
    ("adv_index((%x5, %input_1))", lambda v: v["x5"][v["input_1"]]),
    ("scatter_elements(%x6, %input_2, %x5, axis=1)", lambda v: scatter(v["x6"], v["input_2"], v["x5"])),
    (
        "nn.space_to_batch_nd(%x, block_shape=[2, 2], paddings=[[0, 0], [2, 0]])",
        lambda v: np.pad(v["x"], ((0, 0), (0, 0), (2, 0), (0, 0))).reshape(2, 2, 2, 4, 2, 6).transpose(2, 4, 0, 1, 3, 5).reshape(8, 2, 4, 6),
    ),
    (
        "nn.batch_to_space_nd(%x3, block_shape=[2, 2], crops=[[0, 0], [1, 0]])",
        lambda v: v["x3"].reshape(2, 2, 2, 4, 3, 3).transpose(2, 3, 0, 4, 1, 5).reshape(2, 8, 6, 3)[:, :, 1:],
    ),
    (
        'nn.upsampling(layout_transform(%x, src_layout="NCHW", dst_layout="NCHW2c"), scale_h=2f, scale_w=2f, layout="NCHW2c")',
        lambda v: pack(v["x"].repeat(2, 2).repeat(2, 3), 2),
    ),
    ("topk(%x5, k=2).0", lambda v: -np.sort(-v["x5"], 1)[:, :2]),
    ("argsort(%x5, axis=1)", lambda v: v["x5"].argsort(1).astype("int32")),
    ('layout_transform(%x, src_layout="NCHW", dst_layout="NHWC")', lambda v: v["x"].transpose(0, 2, 3, 1)),
    ('layout_transform(%x, src_layout="NCHW", dst_layout="NCHW2c")', lambda v: pack(v["x"], 2)),
    (
        'layout_transform(layout_transform(%x, src_layout="NCHW", dst_layout="NCHW2c"), src_layout="NCHW2c", dst_layout="NCHW4c")',
        lambda v: pack(v["x"], 4),
    ),
    ('layout_transform(%x3, src_layout="OIHW", dst_layout="OIHW2i4o")', lambda v: pack_kernel(v["x3"], 2, 4)),
    (
        f"concatenate(({PACKED}, {PACKED.replace('%x', '%x1')}), axis=1)",
        lambda v: pack(np.concatenate([v["x"], v["x1"]], 1), 2),
    ),
    (
        f"add({PACKED}, reshape(%x2, newshape=[1, 2, 1, 1, 2]))",
        lambda v: pack(v["x"] + channels(v["x2"]), 2),
    ),
    (
        f"add({PACKED}, reshape(strided_slice(%x2, begin=[0], end=[2]), newshape=[1, 1, 1, 1, 2]))",
        lambda v: pack(v["x"], 2) + v["x2"][:2],
    ),
    (
        'nn.pad(layout_transform(%x, src_layout="NCHW", dst_layout="NCHW2c"), 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1], [0, 0]])',
        lambda v: pack(np.pad(v["x"], ((0, 0), (0, 0), (1, 1), (1, 1))), 2),
    ),
]


def scatter(data: Array, indices: Array, updates: Array) -> Array:
    """A copy with the updates put in along axis 1 (of repeated places the last one counts)."""
    result = data.copy()
    np.put_along_axis(result[:3], indices, updates, 1)
    return result


def text_of(cases: list[Case]) -> str:
    """One function that computes all cases."""
    types = {name: f"Tensor[{shape}, float32]" for name, shape in SHAPES.items()}
    types.update({name: f"Tensor[{shape}, int32]" for name, shape in INTS.items()})
    params = ", ".join(f"%{name}: {kind}" for name, kind in types.items())
    lines = "".join(f"  %{index} = {expression};\n" for index, (expression, _) in enumerate(cases))
    outputs = ", ".join(f"%{index}" for index in range(len(cases)))
    return f"fn ({params}) {{\n{lines}  ({outputs},)\n}}"


@pytest.mark.parametrize("cases", [NN, MATH, SHAPE], ids=["nn", "math", "shape"])
def test_every_case_gives_what_numpy_gives(cases: list[Case]) -> None:
    inputs = values()
    outputs = run(text_of(cases), inputs)
    wrong = []
    for (expression, formula), output in zip(cases, outputs, strict=True):
        expected = np.asarray(formula(inputs))
        if expected.dtype not in (output.dtype, np.float64):
            wrong.append(f"{expression}: {output.dtype}, not {expected.dtype}")
        elif output.shape != expected.shape or not np.allclose(output, expected, rtol=2e-4, atol=2e-5):
            wrong.append(f"{expression}: {output.shape} and {expected.shape}, {output.ravel()[:4]} and {expected.ravel()[:4]}")
    assert not wrong, "\n".join(wrong)


class Asked(dict[str, Any]):
    """Attributes that note which ones they are asked for."""

    def __init__(self, values: Mapping[str, Any], names: set[str]) -> None:
        super().__init__(values)
        self.names = names

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


def test_every_attribute_that_a_converter_asks_for_is_one_that_its_operator_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, set[str]] = {}
    convert = registry.convert

    def noting(operation: Operation) -> Value:
        names = asked.setdefault(operation.operator, set())
        return convert(replace(operation, attributes=Asked(operation.attributes, names)))

    monkeypatch.setattr(registry, "convert", noting)
    for cases in (NN, MATH, SHAPE):
        import_relay(text_of(cases))
    strange = {operator: names - attributes_of(operator) for operator, names in asked.items() if names - attributes_of(operator)}
    assert strange == {"nn.batch_matmul": {"units"}}  # which shares the code of an operator that has it


def test_the_attributes_are_those_of_operators_that_can_be_converted() -> None:
    assert {operator for operator in attributes._ATTRIBUTES if operator not in CONVERTERS} == set()  # noqa: SLF001 - the table itself


def test_almost_every_operator_has_a_case() -> None:
    tested = " ".join(expression for cases in (NN, MATH, SHAPE) for expression, _ in cases)
    untested = {name for name in CONVERTERS if f"{name}(" not in tested}
    assert len(untested) < len(CONVERTERS) * 0.3, sorted(untested)
