"""The attributes of Relay's operators by name, as TVM 0.8 to 0.18 prints them: what has another name is misspelt."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.legacy.relay import syntax
from workbench.legacy.relay.walk import walk
from workbench.spelling import near_misses


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NONE: frozenset[str] = frozenset()
_AXIS = _words("axis")
_REWRITTEN = _words("auto_scheduler_rewritten_layout meta_schedule_original_shape")  # what the tuners of old TVM leave behind
_CONV = _words("strides padding dilation groups channels kernel_size data_layout kernel_layout out_layout out_dtype") | _REWRITTEN
_CONV_TRANSPOSE = (_CONV - _REWRITTEN) | _words("output_padding")
_NORM = _words("axis epsilon center scale")
_POOL = _words("pool_size strides padding dilation ceil_mode layout out_layout")
_REDUCE = _words("axis keepdims exclude")
_SCAN = _words("axis dtype exclusive")
_SORT = _words("axis is_ascend dtype")
_TENSOR = _words("shape dtype")
_DEPTH = _words("block_size layout mode")
_PRODUCT = _words("units out_dtype transpose_a transpose_b") | _REWRITTEN
_PLACE = _words(
    "compiler device_type device_id body_is_fixed is_fixed constrain_body constrain_result virtual_device se_scope src_dev_type dst_dev_type "
    "src_se_scope dst_se_scope src_virtual_device dst_virtual_device"
)

_ATTRIBUTES: Mapping[str, frozenset[str]] = {
    **{f"nn.conv{rank}d": _CONV for rank in (1, 2, 3)},
    **{f"nn.conv{rank}d_transpose": _CONV_TRANSPOSE for rank in (1, 2, 3)},
    **dict.fromkeys(("nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc"), _CONV),
    **{f"nn.max_pool{rank}d": _POOL for rank in (1, 2, 3)},
    **{f"nn.avg_pool{rank}d": _POOL | _words("count_include_pad") for rank in (1, 2, 3)},
    **{f"nn.global_{kind}_pool{rank}d": _words("layout out_layout") for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"nn.adaptive_{kind}_pool{rank}d": _words("output_size layout out_layout") for kind in ("max", "avg") for rank in (1, 2, 3)},
    **dict.fromkeys(("all", "any", "max", "mean", "min", "prod", "sum"), _REDUCE),
    **dict.fromkeys(("argmax", "argmin"), _REDUCE | _words("select_last_index")),
    **dict.fromkeys(("cumprod", "cumsum"), _SCAN),
    **dict.fromkeys(("argsort", "sort"), _SORT),
    **dict.fromkeys(("nn.batch_norm", "nn.instance_norm", "nn.layer_norm"), _NORM),
    **dict.fromkeys(("nn.fast_softmax", "nn.log_softmax", "nn.softmax"), _AXIS),
    **dict.fromkeys(("concatenate", "gather", "nn.bias_add", "nn.prelu", "reverse", "scatter", "squeeze", "stack"), _AXIS),
    **dict.fromkeys(("broadcast_to", "full", "ones", "zeros"), _TENSOR),
    **dict.fromkeys(("nn.depth_to_space", "nn.space_to_depth"), _DEPTH),
    **dict.fromkeys(
        (
            "annotation.stop_fusion",
            "stop_fusion",
            "annotation.compiler_begin",
            "annotation.compiler_end",
            "compiler_begin",
            "compiler_end",
            "copy",
            "device_copy",
            "on_device",
        ),
        _PLACE,
    ),
    "arange": _words("start stop step dtype"),
    **dict.fromkeys(("cast", "ndarray_size", "shape_of"), _words("dtype")),
    "clip": _words("a_min a_max"),
    "einsum": _words("equation"),
    "expand_dims": _words("axis num_newaxis"),
    "gather_nd": _words("batch_dims index_rank"),
    "image.resize2d": _words(
        "size roi layout method coordinate_transformation_mode rounding_method cubic_alpha cubic_exclude extrapolation_value out_dtype"
    ),
    "layout_transform": _words("src_layout dst_layout"),
    "nn.batch_matmul": _PRODUCT - _words("units"),
    "nn.batch_to_space_nd": _words("block_shape crops"),
    "nn.contrib_dense_pack": _words("units out_dtype weight_layout"),
    "nn.dense": _words("units out_dtype") | _REWRITTEN,
    "nn.dropout": _words("rate"),
    "nn.group_norm": _NORM | _words("num_groups"),
    "nn.l2_normalize": _words("eps axis"),
    "nn.leaky_relu": _words("alpha"),
    "nn.lrn": _words("size axis bias alpha beta"),
    "nn.matmul": _PRODUCT,
    "nn.mirror_pad": _words("mode pad_width"),
    "nn.pad": _words("pad_width pad_mode pad_value"),
    "nn.space_to_batch_nd": _words("block_shape paddings pad_value"),
    "nn.upsampling": _words("scale_h scale_w layout method align_corners"),
    "one_hot": _words("depth axis dtype"),
    "repeat": _words("repeats axis"),
    **dict.fromkeys(("contrib_reverse_reshape", "reshape"), _words("newshape allowzero")),
    "reshape_like": _words("lhs_begin lhs_end rhs_begin rhs_end"),
    "scatter_elements": _words("axis reduction"),
    "slice_like": _words("axes"),
    "split": _words("indices_or_sections axis"),
    "strided_slice": _words("begin end strides slice_mode axes"),
    "take": _words("axis mode batch_dims"),
    "tile": _words("reps"),
    "topk": _words("k axis ret_type is_ascend dtype"),
    "transpose": _words("axes"),
    "trilu": _words("upper"),
    "variance": _REDUCE | _words("unbiased"),
}


def attributes_of(operator: str) -> frozenset[str]:
    """Names of the attributes that a Relay operator can have; most have none."""
    return _ATTRIBUTES.get(operator, _NONE)


def refuse_unknown_attributes(module: syntax.Module) -> None:
    """Raise ModelError if a call has an attribute that its operator does not have, whose default would else be taken without a word."""
    for function in module.functions.values():
        for node in walk(function):
            if isinstance(node, syntax.Call) and isinstance(node.callee, syntax.Operator):
                _check(node, node.callee.name)


def _check(call: syntax.Call, operator: str) -> None:
    known = attributes_of(operator)
    for name in call.attributes:
        if name not in known:
            listing = f"Its attributes are {', '.join(sorted(known))}." if known else "It has none: leave it out."
            raise ModelError(
                f"Relay text, line {call.line}, column {call.column}: {operator} has no attribute {plain(name)}.", near_misses(name, known) or listing
            )
