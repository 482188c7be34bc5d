"""How old TVM's fusion sees operators: their patterns (``TOpPattern``), as Relay of TVM 0.8 to 0.18 registers them."""

from __future__ import annotations

ELEMWISE, BROADCAST, INJECTIVE, REDUCE, OUT_FUSABLE, TUPLE, OPAQUE = 0, 1, 2, 3, 4, 7, 8

_ELEMWISE = (
    "nn.relu nn.leaky_relu nn.dropout sigmoid tanh exp log sqrt rsqrt negative abs clip cast erf copy round floor ceil trunc sign cos sin tan "
    "atan logical_not bitwise_not fast_tanh fast_exp fast_erf isnan isfinite isinf zeros_like ones_like fixed_point_multiply asin acos asinh "
    "acosh atanh sinh cosh log2 log10 trilu zeros ones full full_like cast_like reinterpret"
)
_BROADCAST = (
    "add subtract multiply divide maximum minimum power mod floor_mod floor_divide equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_xor right_shift left_shift nn.bias_add nn.prelu where broadcast_to broadcast_to_like squared_difference "
    "bitwise_and bitwise_or bitwise_xor trunc_divide trunc_mod tile repeat expand_dims fixed_point_multiply_per_axis"
)
_REDUCE = "sum mean max min prod all any argmax argmin variance logsumexp collapse_sum_like collapse_sum_to"
_OUT_FUSABLE = (
    "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.dense nn.matmul nn.batch_matmul nn.max_pool1d "
    "nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.global_max_pool2d nn.global_avg_pool2d nn.adaptive_max_pool2d "
    "nn.adaptive_avg_pool2d nn.adaptive_avg_pool1d nn.adaptive_max_pool1d nn.l2_normalize nn.correlation nn.deformable_conv2d "
    "nn.bitserial_conv2d one_hot nn.conv2d_NCHWc_int8 nn.sparse_dense nn.softmax nn.fast_softmax nn.log_softmax nn.batch_norm vision.roi_align "
    "vision.roi_pool nn.adaptive_max_pool3d nn.adaptive_avg_pool3d nn.max_pool2d_grad nn.avg_pool2d_grad nn.max_pool2d_with_argmax "
    "nn.conv2d_backward_weight nn.sparse_conv2d nn.sparse_transpose nn.bitserial_dense nn.nll_loss image.dilation2d dyn.one_hot"
)
_OPAQUE = (
    "nn.lrn topk argsort sort unique vision.non_max_suppression vision.get_valid_counts vision.multibox_transform_loc vision.multibox_prior "
    "vision.proposal cumsum cumprod scatter scatter_nd device_copy nn.layer_norm nn.instance_norm nn.group_norm random.uniform shape_of arange "
    "argwhere scatter_elements searchsorted hardmax celu dft stft sliding_window sparse_to_dense dyn.sparse_to_dense sparse_fill_empty_rows "
    "segment_sum segment_prod segment_mean segment_min segment_max dyn.topk vision.regular_non_max_suppression "
    "vision.all_class_non_max_suppression nn.sparse_add nn.fifo_buffer nn.cross_entropy nn.cross_entropy_with_logits random.normal "
    "random.multinomial random.threefry_generate random.threefry_split nn.contrib_conv2d_winograd_nnpack_weight_transform annotation.stop_fusion "
    "annotation.checkpoint annotation.compiler_begin annotation.compiler_end on_device call_lowered debug"
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
