"""Old target strings (``llvm -mcpu=skylake-avx512 -num-cores=2``) as the target dicts that TVM 0.25 and later read.

Pure: it knows TVM's option names (a test compares them with the installed TVM) but does not import TVM, and does not fill in what
the string leaves out.
"""

from __future__ import annotations

import difflib
import json
import shlex
from dataclasses import dataclass
from typing import Union

from workbench.errors import TargetError

MAX_TEXT_LENGTH = 4096

Value = Union[str, int, bool, "list[str]", "dict[str, object]"]

_COMMON = {"keys": "list", "tag": "str", "device": "str", "model": "str", "libs": "list", "host": "target"}
_GPU_LIMITS = {"max_num_threads": "int", "thread_warp_size": "int", "max_threads_per_block": "int", "max_shared_memory_per_block": "int"}
_FAST_MATH_FLAGS = ("nnan", "ninf", "nsz", "arcp", "contract", "reassoc")
_FAST_MATH = dict.fromkeys(("fast-math", *(f"fast-math-{flag}" for flag in _FAST_MATH_FLAGS)), "bool")

KIND_OPTIONS: dict[str, dict[str, str]] = {
    "llvm": {
        **_COMMON, **_FAST_MATH, "mattr": "list", "mcpu": "str", "mtriple": "str", "mfloat-abi": "str", "mabi": "str",
        "num-cores": "int", "opt-level": "int", "cl-opt": "list", "jit": "str", "vector-width": "int",
    },
    "cuda": {**_COMMON, **_GPU_LIMITS, "mcpu": "str", "arch": "str", "registers_per_block": "int", "l2_cache_size_bytes": "int"},
    "c": {**_COMMON, "mcpu": "str", "march": "str", "workspace-byte-alignment": "int", "constants-byte-alignment": "int"},
    "hexagon": {
        **_COMMON, "mattr": "list", "mcpu": "str", "mtriple": "str", "llvm-options": "list", "num-cores": "int", "vtcm-capacity": "int",
    },
    "metal": {**_COMMON, **_GPU_LIMITS, "max_function_args": "int"},
    "nvptx": {**_COMMON, "mcpu": "str", "mtriple": "str", "max_num_threads": "int", "thread_warp_size": "int"},
    "opencl": {
        **_COMMON, **_GPU_LIMITS, "texture_spatial_limit": "int", "texture_depth_limit": "int", "max_function_args": "int",
        "image_base_address_alignment": "int",
    },
    "rocm": {**_COMMON, **_GPU_LIMITS, "mcpu": "str", "mtriple": "str", "mattr": "list"},
    "vulkan": {**_COMMON, **_GPU_LIMITS, "mattr": "list", "device_type": "str", "device_name": "str", "driver_name": "str"},
    "webgpu": {
        **_COMMON, "max_num_threads": "int", "max_shared_memory_per_block": "int", "supports_subgroups": "bool", "thread_warp_size": "int",
    },
}  # fmt: skip
"""Options that TVM 0.27 accepts, with their types, for the kinds that old strings name."""

_RENAMED = {"target": "mtriple", "shared_memory_per_block": "max_shared_memory_per_block", "O": "opt-level"}


@dataclass(frozen=True)
class OldTarget:
    """What an old target string says, in TVM's present form.

    Attributes:
        config: The target dict as JSON text with sorted keys.
        ignored: Options of the string that today's TVM does not accept (or that say nothing), as they were written.
    """

    config: str
    ignored: tuple[str, ...]

    @property
    def options(self) -> dict[str, object]:
        """The target dict, a fresh copy each time."""
        return dict(json.loads(self.config))


def parse_target_string(text: str) -> OldTarget:
    """The target dict that an old target string stands for.

    Raises:
        TargetError: The string is not in the old form, names an unknown kind, or gives an option a value of the wrong type.
    """
    if len(text) > MAX_TEXT_LENGTH:
        message = f"The target text has {len(text)} characters; at most {MAX_TEXT_LENGTH} are read."
        raise TargetError(message, "Give one target, e.g. 'llvm -mcpu=skylake-avx512 -num-cores=4'.")
    options, ignored = _parse(text, inside_host=False)
    return OldTarget(json.dumps(options, sort_keys=True), tuple(ignored))


def _parse(text: str, *, inside_host: bool) -> tuple[dict[str, object], list[str]]:
    tokens = _tokens(text)
    kind, accepted = tokens[0], _accepted_options(tokens[0])
    options: dict[str, object] = {"kind": kind}
    ignored: list[str] = []
    position = 1
    while position < len(tokens):
        written, name, raw, position = _next_option(tokens, position, accepted)
        name = _present_name(name, accepted)
        if name not in accepted or (name == "host" and inside_host):
            ignored.append(written)
            continue
        if name in options:
            raise TargetError(f"The target gives -{name} twice.", "Keep one of them.")
        if accepted[name] == "target":
            options[name], from_host = _parse(raw or "", inside_host=True)
            ignored.extend(f"host: {option}" for option in from_host)
            continue
        value = _convert(written, raw, accepted[name])
        if _says_nothing(name, value):
            ignored.append(written)
        else:
            options[name] = value
    return options, ignored


def _tokens(text: str) -> list[str]:
    try:
        tokens = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"The target text has an unbalanced quote or escape: {_shown(text)}.", "Close the quote.") from error
    if not tokens:
        raise TargetError("The target text is empty.", "Start with a kind, e.g. 'llvm -mcpu=skylake-avx512'.")
    if not all(token.isprintable() for token in tokens):
        raise TargetError("The target text has control characters.", "Give plain text, e.g. 'llvm -mcpu=skylake-avx512'.")
    return tokens


def _accepted_options(kind: str) -> dict[str, str]:
    if kind in KIND_OPTIONS:
        return KIND_OPTIONS[kind]
    if kind.startswith("-"):
        raise TargetError(f"The target text starts with the option {_shown(kind)}.", "Start with a kind, e.g. 'llvm -mcpu=...'.")
    near = difflib.get_close_matches(kind, KIND_OPTIONS, n=1)
    remedy = f"Did you mean '{near[0]}'?" if near else f"Known kinds: {', '.join(sorted(KIND_OPTIONS))}."
    raise TargetError(f"There is no target kind {_shown(kind)}.", remedy)


def _next_option(tokens: list[str], position: int, accepted: dict[str, str]) -> tuple[str, str, str | None, int]:
    """The option at `position`: as written, its name, its value (None for a bare flag), and where the next one starts."""
    token = tokens[position]
    if not token.startswith("-") or not token.strip("-"):
        raise TargetError(f"{_shown(token)} in the target text is not an option.", "Write options as -name=value.")
    name, equals, value = token.lstrip("-").partition("=")
    if not name:
        raise TargetError(f"{_shown(token)} in the target text has no name.", "Write options as -name=value.")
    if equals:
        return token, name, value, position + 1
    takes_value = accepted.get(_present_name(name, accepted)) != "bool"
    following = tokens[position + 1] if position + 1 < len(tokens) else "-"
    if takes_value and not following.startswith("-"):
        return f"{token} {following}", name, following, position + 2
    return token, name, None, position + 1


def _present_name(name: str, accepted: dict[str, str]) -> str:
    for candidate in (name, _RENAMED.get(name, name), name.replace("_", "-"), name.replace("-", "_")):
        if candidate in accepted:
            return candidate
    return name


def _convert(written: str, raw: str | None, kind: str) -> Value:
    if kind == "bool":
        words = {None: True, "1": True, "true": True, "0": False, "false": False}
        word = raw.lower() if raw is not None else None
        if word not in words:
            raise TargetError(f"{_shown(written)} needs true or false.", "Correct the option or leave it out.")
        return words[word]
    if raw is None or (kind != "list" and not raw):
        raise TargetError(f"{_shown(written)} has no value.", "Write it as -name=value or leave it out.")
    if kind == "list":
        return [part.strip() for part in raw.split(",") if part.strip()]
    if kind == "str":
        return raw
    try:
        number = int(raw)
    except ValueError as error:
        raise TargetError(f"{_shown(written)} needs a whole number.", "Correct the number or leave the option out.") from error
    if abs(number) >= 2**31:
        raise TargetError(f"The number in {_shown(written)} is out of range.", "Correct the number or leave the option out.")
    return number


def _says_nothing(name: str, value: Value) -> bool:
    """Old TVM printed -1 for a number that it did not know, and options with empty lists."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value < 0 or (name == "num-cores" and value == 0)
    return value == []


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
