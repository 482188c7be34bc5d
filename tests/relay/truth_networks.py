"""Runs in a Python with old TVM: networks of kinds that ``tvm.relay.testing`` has none of, small, with all that matching stumbled over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relay
from tvm.relay import testing


def number(value: float) -> Any:
    """A scalar."""
    return relay.const(value, "float32")


class Builder:
    """Makes layers whose parameters have names of their own."""

    def __init__(self) -> None:
        self.count = 0

    def parameter(self, shape: tuple[int, ...], kind: str = "weight") -> Any:
        self.count += 1
        return relay.var(f"p{self.count}_{kind}", shape=shape)

    def conv(self, data: Any, read: int, made: int, size: int = 3, *, groups: int = 1, stride: int = 1, bias: bool = False) -> Any:
        weight = self.parameter((made, read // groups, size, size))
        options = {"padding": (size // 2,) * 2, "channels": made, "kernel_size": (size, size), "groups": groups, "strides": (stride, stride)}
        result = relay.nn.conv2d(data, weight, **options)
        return relay.nn.bias_add(result, self.parameter((made,), "bias")) if bias else result

    def norm(self, data: Any, channels: int) -> Any:
        self.count += 1
        kinds = ("gamma", "beta", "moving_mean", "moving_var")
        return relay.nn.batch_norm(data, *(relay.var(f"n{self.count}_{kind}", shape=(channels,)) for kind in kinds))[0]

    def dense(self, data: Any, read: int, made: int) -> Any:
        result = relay.nn.dense(data, self.parameter((made, read)), units=made)
        return relay.nn.bias_add(result, self.parameter((made,), "bias"))

    def layer_norm(self, data: Any, size: int) -> Any:
        return relay.nn.layer_norm(data, self.parameter((size,), "gamma"), self.parameter((size,), "beta"))


def image(channels: int, size: int) -> Any:
    """The input."""
    return relay.var("data", shape=(1, channels, size, size))


def hard_swish(data: Any) -> Any:
    return data * (relay.clip(data + number(3.0), 0.0, 6.0) / number(6.0))


def swish(data: Any) -> Any:
    return data * relay.sigmoid(data)


def transformer(build: Builder) -> Any:
    """Two blocks as GPT-2 has them: one product that is split into three, a mask, layer norms, GELU by tanh."""
    mask = build.parameter((1, 1, 16, 16))
    hidden = relay.var("data", shape=(1, 16, 64)) + build.parameter((1, 16, 64))
    for _ in range(2):
        flat = relay.reshape(build.layer_norm(hidden, 64), (16, 64))
        parts = relay.split(relay.reshape(build.dense(flat, 64, 192), (1, 16, 192)), 3, axis=2)
        query, key, value = (
            relay.reshape(relay.transpose(relay.reshape(parts[place], (1, 16, 4, 16)), (0, 2, 1, 3)), (4, 16, 16)) for place in range(3)
        )
        scores = relay.reshape(relay.nn.batch_matmul(query, key), (1, 4, 16, 16)) * number(0.25) + mask
        seen = relay.nn.batch_matmul(relay.reshape(relay.nn.softmax(scores), (4, 16, 16)), relay.transpose(value, (0, 2, 1)))
        seen = relay.reshape(relay.transpose(relay.reshape(seen, (1, 4, 16, 16)), (0, 2, 1, 3)), (16, 64))
        hidden = hidden + relay.reshape(build.dense(seen, 64, 64), (1, 16, 64))
        inner = build.dense(relay.reshape(build.layer_norm(hidden, 64), (16, 64)), 64, 256)
        inner = number(0.5) * inner * (number(1.0) + relay.tanh(number(0.8) * (inner + number(0.04) * relay.power(inner, number(3.0)))))
        hidden = hidden + relay.reshape(build.dense(inner, 256, 64), (1, 16, 64))
    return build.dense(relay.reshape(build.layer_norm(hidden, 64), (16, 64)), 64, 100)


def excitation(build: Builder) -> Any:
    """Inverted residuals with squeeze-and-excitation as MobileNet v3 and EfficientNet have them, whose scales go onto the weights behind them."""
    hidden, read = hard_swish(build.norm(build.conv(image(3, 64), 3, 16, stride=2), 16)), 16
    for made, inner, stride, act in (
        (16, 16, 1, relay.nn.relu),
        (24, 72, 2, swish),
        (24, 72, 1, swish),
        (40, 120, 2, hard_swish),
        (40, 120, 1, hard_swish),
    ):
        value = act(build.norm(build.conv(hidden, read, inner, 1), inner))
        value = act(build.norm(build.conv(value, inner, inner, 5, groups=inner, stride=stride), inner))
        gate = swish(build.conv(relay.nn.adaptive_avg_pool2d(value, (1, 1)), inner, inner // 4, 1, bias=True))
        value = value * relay.sigmoid(build.conv(gate, inner // 4, inner, 1, bias=True))
        value = build.norm(build.conv(value, inner, made, 1), made)
        hidden = hidden + value if stride == 1 and read == made else value
        read = made
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(hidden))
    return build.dense(hard_swish(build.dense(flat, 40, 128)), 128, 10)


def shuffled(build: Builder) -> Any:
    """Channels that are split, convolved by halves, and shuffled."""
    hidden = build.norm(build.conv(image(3, 64), 3, 32, stride=2), 32)
    for _ in range(3):
        halves = relay.split(hidden, 2, axis=1)
        value = relay.nn.relu(build.norm(build.conv(halves[1], 16, 16, 1), 16))
        value = relay.nn.relu(build.norm(build.conv(build.norm(build.conv(value, 16, 16, groups=16), 16), 16, 16, 1), 16))
        hidden = relay.reshape(relay.concatenate((halves[0], value), 1), (1, 2, 16, 32, 32))
        hidden = relay.reshape(relay.transpose(hidden, (0, 2, 1, 3, 4)), (1, 32, 32, 32))
    return build.dense(relay.mean(hidden, axis=[2, 3]), 32, 10)


def detector(build: Builder) -> Any:
    """Two scales of boxes, as YOLO has them."""
    hidden, read, last = image(3, 64), 3, None
    for made in (16, 32, 64):
        last = relay.nn.leaky_relu(build.norm(build.conv(hidden, read, made), made), 0.1)
        hidden, read = relay.nn.max_pool2d(last, (2, 2), strides=(2, 2)), made
    hidden = relay.nn.leaky_relu(build.norm(build.conv(hidden, 64, 128), 128), 0.1)
    grown = relay.image.resize2d(build.conv(hidden, 128, 32, 1, bias=True), (16, 16), method="nearest_neighbor")
    heads = ((build.conv(hidden, 128, 18, 1, bias=True), 8), (build.conv(relay.concatenate((grown, last), 1), 96, 18, 1, bias=True), 16))
    found = []
    for head, size in heads:
        parts = relay.split(relay.transpose(relay.reshape(head, (1, 3, 6, size, size)), (0, 1, 3, 4, 2)), [2, 4], axis=-1)
        boxes = (relay.sigmoid(parts[0]) * number(2.0) - number(0.5), relay.exp(parts[1]) * number(10.0), relay.sigmoid(parts[2]))
        found.append(relay.reshape(relay.concatenate(boxes, -1), (1, 3 * size * size, 6)))
    return relay.concatenate(found, 1)


def style(build: Builder) -> Any:
    """Instance norms, group norms, reflected borders."""
    hidden, read = image(3, 32), 3
    for made, stride in ((16, 1), (32, 2), (32, 1)):
        padded = relay.nn.pad(hidden, ((0, 0), (0, 0), (1, 1), (1, 1)), pad_mode="reflect")
        value = relay.nn.conv2d(padded, build.parameter((made, read, 3, 3)), channels=made, kernel_size=(3, 3), strides=(stride, stride))
        hidden = relay.nn.relu(relay.nn.instance_norm(value, build.parameter((made,), "gamma"), build.parameter((made,), "beta")))
        read = made
    for _ in range(2):
        value = build.conv(hidden, 32, 32)
        value = relay.nn.group_norm(value, build.parameter((32,), "gamma"), build.parameter((32,), "beta"), num_groups=8)
        hidden = hidden + relay.nn.relu(value)
    return relay.tanh(build.conv(relay.nn.upsampling(hidden, 2, 2), 32, 3, bias=True))


def unet(build: Builder) -> Any:
    """Down and up again, with what was there on the way down: calls of one function far apart."""

    def twice(data: Any, read: int, made: int) -> Any:
        first = relay.nn.relu(build.conv(data, read, made, bias=True))
        return relay.nn.relu(build.conv(first, made, made, bias=True))

    top = twice(image(8, 32), 8, 16)
    middle = twice(relay.nn.max_pool2d(top, (2, 2), strides=(2, 2)), 16, 32)
    bottom = twice(relay.nn.max_pool2d(middle, (2, 2), strides=(2, 2)), 32, 64)
    middle = twice(relay.concatenate((relay.nn.upsampling(bottom, 2, 2), middle), 1), 96, 32)
    top = twice(relay.concatenate((relay.nn.upsampling(middle, 2, 2), top), 1), 48, 16)
    return relay.sigmoid(build.conv(top, 16, 2, bias=True))


def workload(network: Callable[[Builder], Any]) -> Any:
    """A network with parameters."""
    result = network(Builder())
    return testing.create_workload(relay.Function(relay.analysis.free_vars(result), result))


NETWORKS = {item.__name__: item for item in (transformer, excitation, shuffled, detector, style, unet)}
