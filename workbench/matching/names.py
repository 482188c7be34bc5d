"""Names of compiled functions of old TVM, read back: which operators were fused, which function of that name it is, which call of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PREFIXES = ("tvmgen_default_", "vm_mod_", "default_")
_FUSED = re.compile(r"fuse(?:d)?_+")
_NOTHING = "nop"  # the graph executor's mark of a reshape that does nothing
_NUMBER = re.compile(r"\d+")
_LONGEST = 80
"""Longer names end in a hash in place of what is cut off (``kMaxFuncNameLength``)."""

_VARIANTS = {
    "contrib_conv2d_NCHWc": "conv2d",
    "contrib_conv2d_NCHWc_int8": "conv2d",
    "contrib_depthwise_conv2d_NCHWc": "conv2d",
    "contrib_conv2d_winograd_without_weight_transform": "conv2d",
    "contrib_conv2d_winograd_nnpack_without_weight_transform": "conv2d",
    "contrib_conv2d_gemm_without_weight_transform": "conv2d",
    "contrib_conv3d_winograd_without_weight_transform": "conv3d",
    "contrib_dense_pack": "dense",
    "depthwise_conv2d": "conv2d",
    "bias_add": "add",
    "broadcast_add": "add",
    "elemwise_add": "add",
    "broadcast_mul": "multiply",
    "elemwise_mul": "multiply",
    "broadcast_sub": "subtract",
    "elemwise_sub": "subtract",
    "broadcast_div": "divide",
    "batch_flatten": "reshape",
    "flatten": "reshape",
    "matmul": "dense",
    "fast_softmax": "softmax",
    "fast_exp": "exp",
    "fast_tanh": "tanh",
    "fast_erf": "erf",
    "auto_scheduler_layout_transform": "layout_transform",
    "meta_schedule_layout_transform": "layout_transform",
}
"""One operator under several names: layouts and algorithms that the compiler chose, and names of still older TVM."""

_OPERATORS = (
    "relu leaky_relu prelu sigmoid tanh exp log sqrt rsqrt negative abs clip cast erf copy round floor ceil trunc sign cos sin tan "
    "atan logical_not add subtract multiply divide maximum minimum power mod floor_mod floor_divide equal not_equal less less_equal "
    "greater greater_equal logical_and logical_or where broadcast_to right_shift left_shift sum mean max min prod all any argmax "
    "argmin variance conv1d conv2d conv3d conv1d_transpose conv2d_transpose conv3d_transpose dense batch_matmul max_pool1d max_pool2d "
    "max_pool3d avg_pool1d avg_pool2d avg_pool3d global_max_pool2d global_avg_pool2d adaptive_max_pool2d adaptive_avg_pool2d "
    "l2_normalize one_hot softmax log_softmax lrn topk argsort sort unique cumsum scatter scatter_nd batch_norm layer_norm "
    "instance_norm group_norm concatenate stack split reshape transpose expand_dims squeeze strided_slice take gather gather_nd tile "
    "repeat pad reverse flip upsampling upsampling3d resize resize1d resize2d image_resize image_resize2d depth_to_space "
    "space_to_depth full zeros ones arange layout_transform full_like zeros_like ones_like non_max_suppression get_valid_counts "
    "multibox_transform_loc multibox_prior roi_align yolo_reorg mirror_pad batch_to_space_nd space_to_batch_nd ndarray_size shape_of "
    "dyn_reshape dyn_strided_slice dyn_tile dyn_full contrib_reverse_reshape reverse_reshape slice_like collapse_sum_like "
    "broadcast_to_like fixed_point_multiply fixed_point_multiply_per_axis adaptive_max_pool1d adaptive_avg_pool1d adaptive_max_pool3d "
    "adaptive_avg_pool3d global_max_pool1d global_avg_pool1d global_max_pool3d global_avg_pool3d asin acos asinh acosh atanh sinh cosh log2 log10 "
    "trilu cast_like reinterpret bitwise_and bitwise_or bitwise_xor bitwise_not logical_xor trunc_divide trunc_mod collapse_sum_to reshape_like "
    "adv_index invert_permutation matrix_set_diag unravel_index reverse_sequence sequence_mask strided_set sliding_window scatter_elements "
    "sparse_to_dense sparse_reshape sparse_fill_empty_rows sparse_conv2d sparse_dense sparse_transpose sparse_add segment_sum segment_prod "
    "segment_mean segment_min segment_max grid_sample affine_grid resize3d crop_and_resize dilation2d dilate deformable_conv2d correlation "
    "bitserial_conv2d bitserial_dense bitpack roi_pool proposal multinomial uniform normal threefry_generate threefry_split cross_entropy "
    "cross_entropy_with_logits nll_loss fifo_buffer max_pool2d_grad avg_pool2d_grad max_pool2d_with_argmax conv2d_backward_weight isnan isfinite "
    "isinf squared_difference hardmax celu argwhere searchsorted dft stft logsumexp"
)
_NAMESPACES = ("nn_", "image_", "vision_", "dyn_", "qnn_", "contrib_", "random_", "dyn_nn_", "")
_VOCABULARY = {
    f"{space}{name}": canonical for space in _NAMESPACES for name, canonical in [*((name, name) for name in _OPERATORS.split()), *_VARIANTS.items()]
}
_LONGEST_OPERATOR = max(name.count("_") + 1 for name in _VOCABULARY)
MOVES = frozenset({"layout_transform", "reshape", "expand_dims", "squeeze", "copy", "transpose"})
"""Operators that move data or rename it: the compiler adds and removes them."""


@dataclass(frozen=True)
class FunctionName:
    """What a name tells.

    Attributes:
        operators: Canonical names of the fused operators, in order.
        number: Which function of that name it is, in the order in which they were compiled; 0 for the first.
        is_cut: True if the name was too long, and its last operators are not in it.
        depthwise: Whether its convolution is a depthwise one; None where the name does not tell.
    """

    operators: tuple[str, ...]
    number: int
    is_cut: bool
    depthwise: bool | None = None


def canonical(operator: str) -> str:
    """One name for an operator in whatever layout or algorithm: ``nn.contrib_conv2d_NCHWc`` is ``conv2d``."""
    flat = operator.replace(".", "_")
    return _VOCABULARY.get(flat, flat)


def bare_name(name: str) -> str:
    """The name of a compiled function without what the executor put before it."""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def parse_function(name: str) -> FunctionName:
    """Read the name of a compiled function."""
    bare = bare_name(name)
    bare = _FUSED.sub("", bare, count=1) if _FUSED.match(bare) else bare
    words = [word for word in bare.split("_") if word and word != _NOTHING]
    number = 0
    if len(words) > 1 and _NUMBER.fullmatch(words[-1]) and len(words[-1]) < 6:
        number = int(words.pop())
    is_cut = len(bare) >= _LONGEST and bool(words) and re.fullmatch(r"[0-9a-f]{8,}", words[-1]) is not None
    if is_cut:
        words.pop()
    return FunctionName(tuple(_operators(words)), number, is_cut, _depthwise(bare))


def _depthwise(bare: str) -> bool | None:
    """Blocked convolutions are of two kinds with names of their own; a plain one may be either."""
    if "depthwise_conv2d" in bare:
        return True
    return False if "contrib_conv2d_NCHWc" in bare else None


def call_number(node: str, function: str) -> int:
    """Which call of a function a node is: 0 for the first; its name has a number more than the function's."""
    rest = node.removeprefix(function).strip("_")
    return int(rest) if rest.isdecimal() and len(rest) < 8 else 0


def _operators(words: list[str]) -> list[str]:
    """The longest operators that the words make, from the left; words of none stand for themselves."""
    operators = []
    place = 0
    while place < len(words):
        for length in range(min(_LONGEST_OPERATOR, len(words) - place), 0, -1):
            if (name := "_".join(words[place : place + length])) in _VOCABULARY:
                operators.append(_VOCABULARY[name])
                break
        else:
            length = 1
            operators.append(words[place])
        place += length
    return operators
