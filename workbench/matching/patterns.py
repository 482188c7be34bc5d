"""How old TVM's fusion sees operators: their patterns (``TOpPattern``), as Relay of TVM 0.8 to 0.18 registers them."""

from __future__ import annotations

ELEMWISE, BROADCAST, INJECTIVE, REDUCE, OUT_FUSABLE, TUPLE, OPAQUE = 0, 1, 2, 3, 4, 7, 8

_ELEMWISE = (
    "nn.relu nn.leaky_relu nn.dropout sigmoid tanh exp log sqrt rsqrt negative abs clip cast erf copy round floor ceil trunc sign cos sin tan atan "
    "logical_not bitwise_not fast_tanh fast_exp fast_erf isnan isfinite isinf zeros_like ones_like fixed_point_multiply nn.fast_softmax"
)
_BROADCAST = (
    "add subtract multiply divide maximum minimum power mod floor_mod floor_divide equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_xor right_shift left_shift nn.bias_add nn.prelu where broadcast_to broadcast_to_like squared_difference"
)
_REDUCE = "sum mean max min prod all any argmax argmin variance logsumexp"
_OUT_FUSABLE = (
    "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.dense nn.matmul nn.batch_matmul nn.max_pool1d "
    "nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.global_max_pool2d nn.global_avg_pool2d nn.adaptive_max_pool2d "
    "nn.adaptive_avg_pool2d nn.adaptive_avg_pool1d nn.adaptive_max_pool1d nn.l2_normalize nn.correlation nn.deformable_conv2d nn.bitserial_conv2d "
    "one_hot nn.conv2d_NCHWc_int8 nn.sparse_dense"
)
_OPAQUE = (
    "nn.softmax nn.log_softmax nn.lrn topk argsort sort unique vision.non_max_suppression vision.get_valid_counts vision.multibox_transform_loc "
    "vision.multibox_prior vision.roi_align vision.roi_pool vision.proposal cumsum cumprod scatter scatter_nd device_copy nn.batch_norm "
    "nn.layer_norm nn.instance_norm nn.group_norm random.uniform"
)
_KINDS = {
    **dict.fromkeys(_ELEMWISE.split(), ELEMWISE),
    **dict.fromkeys(_BROADCAST.split(), BROADCAST),
    **dict.fromkeys(_REDUCE.split(), REDUCE),
    **dict.fromkeys(_OUT_FUSABLE.split(), OUT_FUSABLE),
    **dict.fromkeys(_OPAQUE.split(), OPAQUE),
}


def pattern_of(operator: str) -> int:
    """An operator's pattern; what is not listed moves data about, as most of the rest does."""
    return _KINDS.get(operator, OUT_FUSABLE if operator.startswith("nn.contrib_") else INJECTIVE)
