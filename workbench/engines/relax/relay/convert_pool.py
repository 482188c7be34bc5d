"""Converters of Relay's poolings, in any layout, blocked ones included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm.relax import op as R

from workbench.engines.relax.relay.convert_conv import in_layout, out_of_layout, padding_of, spread
from workbench.engines.relax.relay.operation import Converter, Operation, Value, shape_of

_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
_POOLS = {
    ("max", 1): R.nn.max_pool1d, ("max", 2): R.nn.max_pool2d, ("max", 3): R.nn.max_pool3d,
    ("avg", 1): R.nn.avg_pool1d, ("avg", 2): R.nn.avg_pool2d, ("avg", 3): R.nn.avg_pool3d,
}  # fmt: skip
_ADAPTIVE = {1: R.nn.adaptive_avg_pool1d, 2: R.nn.adaptive_avg_pool2d, 3: R.nn.adaptive_avg_pool3d}


def _pool(kind: str, rank: int) -> Converter:
    def convert(operation: Operation) -> Value:
        data, layout, now = in_layout(operation, operation.arg(0), operation.text("layout", _LAYOUTS[rank][0]), _LAYOUTS[rank])
        options: dict[str, Any] = {"count_include_pad": operation.flag("count_include_pad")} if kind == "avg" else {}
        result = _POOLS[kind, rank](
            data,
            pool_size=spread(operation, "pool_size", 1, rank),
            strides=spread(operation, "strides", 1, rank),
            padding=padding_of(operation, rank),
            dilation=spread(operation, "dilation", 1, rank),
            ceil_mode=operation.flag("ceil_mode"),
            layout=now,
            **options,
        )
        return out_of_layout(operation, result, now, operation.text("out_layout", str(layout)))

    return convert


def _adaptive(kind: str, rank: int, *, to_one: bool = False) -> Converter:
    """Global pooling (to one element) and adaptive pooling; an adaptive maximum is supported where the windows are equal."""

    def convert(operation: Operation) -> Value:
        data, layout, now = in_layout(operation, operation.arg(0), operation.text("layout", _LAYOUTS[rank][0]), _LAYOUTS[rank])
        first = 2 if now == _LAYOUTS[rank][0] else 1
        extent = list(shape_of(data)[first : first + rank])
        output = [1] * rank if to_one else operation.integers("output_size", []) or extent
        output = output * rank if len(output) == 1 else output
        if kind == "avg":
            result = _ADAPTIVE[rank](data, output, layout=now)
        elif output == [1] * rank:
            result = R.max(data, axis=list(range(first, first + rank)), keepdims=True)
        elif len(output) == rank and all(size > 0 and dim % size == 0 for dim, size in zip(extent, output, strict=True)):
            window = [dim // size for dim, size in zip(extent, output, strict=True)]
            result = _POOLS["max", rank](data, pool_size=window, strides=window, padding=[0] * (2 * rank), dilation=[1] * rank, layout=now)
        else:
            operation.fail(f"from {extent} to {output} has windows of different sizes, which is not supported")
        return out_of_layout(operation, result, now, operation.text("out_layout", str(layout)))

    return convert


CONVERTERS: Mapping[str, Converter] = {
    **{f"nn.{kind}_pool{rank}d": _pool(kind, rank) for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"nn.adaptive_{kind}_pool{rank}d": _adaptive(kind, rank) for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"nn.global_{kind}_pool{rank}d": _adaptive(kind, rank, to_one=True) for kind in ("max", "avg") for rank in (1, 2, 3)},
}
