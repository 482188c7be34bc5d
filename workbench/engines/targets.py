"""From what a user writes as a target to a complete TVM target, and the list of targets there are.

TVM takes an incomplete or wrong target in silence (no ``mcpu`` is a baseline CPU, no ``arch`` is ``sm_50``, a misspelt ``mcpu`` is
``generic``); everything here is filled in or refused instead.
"""

from __future__ import annotations

import difflib
import json
import platform
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm.target import Target, TargetKind, codegen, list_tags
from tvm_ffi import get_global_func

from workbench.errors import TargetError
from workbench.legacy.target_string import MAX_TEXT_LENGTH, parse_target_string
from workbench.records.target import TargetSpec

CUDA_LIMITS: dict[str, int] = {
    "max_threads_per_block": 1024,
    "max_num_threads": 1024,
    "thread_warp_size": 32,
    "registers_per_block": 65536,
    "max_shared_memory_per_block": 49152,
}
"""Limits of every CUDA architecture since sm_50, as TVM's tags and devices give them.

MetaSchedule refuses a CUDA target without them. The shared memory is the 48 KiB of a *static* allocation, the same on all
architectures, because TVM declares ``__shared__`` arrays statically and ptxas refuses a larger one whatever the device could offer.
"""

_INTERNAL_KINDS = frozenset({"composite", "cuda_host", "ext_dev", "test"})
_HOSTLESS_KINDS = frozenset({"c", "hexagon", "llvm"})
_SIMD_FEATURE = re.compile(r"avx|amx|sse4|fma|f16c|bmi|gfni|vaes|vpclmul")
_TVM_REFUSALS = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RuntimeError)


def resolve_target(text: str, *, threads: int) -> TargetSpec:
    """The complete target that `text` asks for.

    Args:
        text: ``auto``, ``cpu``, ``cuda``, ``cuda:sm_90``, another kind, a TVM tag, a JSON object, or an old target string.
        threads: Number of threads that kernels may use on this CPU; becomes ``num-cores`` where the text does not say.

    Raises:
        TargetError: The text is unknown, malformed or incomplete, or asks for a device that is not here.
    """
    if threads < 1:
        raise TargetError(f"{threads} threads cannot run a kernel.", "Give 1 or more.")
    if len(text) > MAX_TEXT_LENGTH:
        raise TargetError(f"The target text has {len(text)} characters; at most {MAX_TEXT_LENGTH} are read.", "Give one target.")
    text = text.strip()
    if len(text.split()) > 1 and not text.startswith("{"):
        old = parse_target_string(text)
        return _spec(old.options, threads, tuple(f"{option} was left out: this TVM has no use for it" for option in old.ignored))
    return _spec(_config_of(text), threads)


def to_tvm(spec: TargetSpec) -> Target:
    """The TVM object for `spec`; a device target without a host gets this machine's CPU as its host.

    Raises:
        TargetError: This TVM does not accept the config (for example one from a session of another TVM).
    """
    options = spec.options
    if spec.kind not in _HOSTLESS_KINDS:
        options.setdefault("host", host_cpu_config())
    return _construct(options)


def host_cpu_config() -> dict[str, Any]:
    """The target dict of this machine's CPU, without a number of cores."""
    name = str(codegen.llvm_get_system_cpu()) or "generic"
    config: dict[str, Any] = {"kind": "llvm", "mcpu": name}
    triple = str(codegen.llvm_get_system_triple())
    if _architecture(triple) != _architecture(platform.machine()):
        config["mtriple"] = str(get_global_func("tvm.codegen.llvm.GetProcessTriple")())
    lacking = _lacking_features(config)
    if lacking:
        config["mattr"] = [f"-{feature}" for feature in lacking]
    return config


def cuda_arch() -> str | None:
    """Architecture of the first CUDA device, e.g. ``sm_90``; None if there is none or it does not take and give back one number."""
    device = tvm.cuda(0)
    if not device.exist:
        return None
    try:
        returned = tvm.runtime.tensor(np.array([1.0], dtype="float32"), device).numpy()
    except RuntimeError:
        return None
    return f"sm_{str(device.compute_version).replace('.', '')}" if returned[0] == 1.0 else None


def buildable_kinds() -> tuple[str, ...]:
    """Target kinds that this build of TVM can generate code for."""
    kinds = (str(kind) for kind in Target.list_kinds())
    return tuple(
        sorted(kind for kind in kinds if kind not in _INTERNAL_KINDS and get_global_func(f"target.build.{kind}", allow_missing=True) is not None)
    )


def target_tags(kind: str | None = None) -> tuple[str, ...]:
    """TVM's tags (``nvidia/nvidia-h100``), of one kind or of every kind that can be built."""
    kinds = {kind} if kind else set(buildable_kinds())
    return tuple(sorted(str(tag) for tag, target in list_tags().items() if str(target.kind.name) in kinds))


def _config_of(text: str) -> dict[str, Any]:
    """The target dict that one word or a JSON object asks for, not yet complete."""
    if text.startswith("{"):
        return _from_json(text)
    if text == "cuda" or (text == "auto" and cuda_arch() is not None):
        return _here_cuda()
    if text in {"auto", "cpu"}:
        return {"kind": "llvm"}
    if text.startswith("cuda:"):
        return {"kind": "cuda", "arch": text.removeprefix("cuda:")}
    if text in list_tags():
        return {"tag": text}
    if text in {str(kind) for kind in Target.list_kinds()}:
        return {"kind": text}
    raise _unknown(text)


def _spec(config: dict[str, Any], threads: int, remarks: tuple[str, ...] = ()) -> TargetSpec:
    tag = config.get("tag")
    if tag:
        config = {**_tag_config(tag), **{name: value for name, value in config.items() if name != "tag"}}
    kind = config.get("kind")
    if kind not in buildable_kinds():
        raise TargetError(f"This TVM cannot build for the kind {_shown(kind)}.", f"Kinds it can: {', '.join(buildable_kinds())}.")
    config = _completed(config, threads)
    _check_names(str(kind), config)
    _construct(config)
    local = kind == "llvm" and config == _completed({"kind": "llvm"}, threads)
    description = _description(config) + (f" ({tag})" if tag else "")
    text = json.dumps(config, sort_keys=True)
    return TargetSpec(str(kind), text, "cpu" if local else _label(config), description, remarks)


def _completed(config: Mapping[str, Any], threads: int) -> dict[str, Any]:
    completed = dict(config)
    if "host" in completed:
        completed["host"] = _checked_host(completed["host"])
    if completed["kind"] == "llvm":
        if "mcpu" not in completed and _is_local(completed.get("mtriple")):
            completed = {**host_cpu_config(), **completed}
        completed.setdefault("num-cores", threads)
        _check_llvm(completed)
    if completed["kind"] == "cuda":
        _check_cuda_arch(completed.get("arch"))
        completed = {**CUDA_LIMITS, **completed}
        for name in CUDA_LIMITS:
            _check_count(name, completed[name])
    return completed


def _checked_host(host: Any) -> dict[str, Any]:
    """A host from the user's text: ``"llvm"``, a dict, or an old string."""
    config = parse_target_string(host).options if isinstance(host, str) else host
    if not isinstance(config, dict) or config.get("kind") not in _HOSTLESS_KINDS:
        raise TargetError(f"{_shown(host)} cannot be the host of a target.", 'Give "host": {"kind": "llvm", "mcpu": ...} or leave it out.')
    if config["kind"] == "llvm":
        if "mcpu" not in config and _is_local(config.get("mtriple")):
            config = {**host_cpu_config(), **config}
        _check_llvm(config)
    return dict(config)


def _check_llvm(config: Mapping[str, Any]) -> None:
    triple = config.get("mtriple", str(codegen.llvm_get_system_triple()))
    # llvm_get_cpu_archlist dies with SIGSEGV on an unknown triple, so the triple is checked first.
    if not isinstance(triple, str) or not codegen.llvm_is_valid_cpu("generic", triple):
        raise TargetError(f"LLVM does not know the triple {_shown(triple)}.", "Correct mtriple, e.g. x86_64-linux-gnu or aarch64-linux-gnu.")
    name = config.get("mcpu")
    if name is not None and (not isinstance(name, str) or not codegen.llvm_is_valid_cpu(name, triple)):
        known = [str(cpu) for cpu in codegen.llvm_get_cpu_archlist(Target({"kind": "llvm", "mtriple": triple}))]
        raise TargetError(f"LLVM does not know the CPU {_shown(name)} for {triple}.", _suggestion(str(name), known, "Correct mcpu."))
    features = config.get("mattr", [])
    if not isinstance(features, list) or not all(re.fullmatch(r"[+-][\w.-]+", str(feature)) for feature in features):
        raise TargetError(f"{_shown(features)} is not a list of CPU features.", 'Write mattr as ["+avx2", "+fma"], each with + or -.')
    _check_count("num-cores", config.get("num-cores", 1))


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        raise TargetError(f"The target's {name} is {_shown(value)}.", "Give a whole number, 1 or more, or leave it out.")


def _check_names(kind: str, config: Mapping[str, Any]) -> None:
    known = [str(name) for name in TargetKind.options_from_name(kind)]
    for name in config:
        if name not in known:
            raise TargetError(f"{_shown(name)} is not an option of the target kind {kind}.", _suggestion(name, known, "Correct it or leave it out."))


def _check_cuda_arch(arch: Any) -> None:
    remedy = 'Give it as in cuda:sm_90 or {"kind": "cuda", "arch": "sm_90"}.'
    if arch is None:
        raise TargetError("The CUDA target does not say its architecture, and TVM would silently take sm_50.", remedy)
    if not isinstance(arch, str) or not re.fullmatch(r"sm_([2-9]\d|1\d\d)[af]?", arch):
        raise TargetError(f"{_shown(arch)} is not a CUDA architecture.", remedy)


def _here_cuda() -> dict[str, Any]:
    arch = cuda_arch()
    if arch is None:
        raise TargetError("There is no working CUDA device here to take the architecture from.", "Give the architecture: cuda:sm_90.")
    device = tvm.cuda(0)
    return {
        "kind": "cuda",
        "arch": arch,
        "max_threads_per_block": int(device.max_threads_per_block),
        "thread_warp_size": int(device.warp_size),
        "max_shared_memory_per_block": int(device.max_shared_memory_per_block),
    }


def _from_json(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TargetError(f"The target is not readable JSON: {error}.", 'Write it as {"kind": "llvm", "mcpu": "znver4"}.') from error
    if not isinstance(config, dict) or not ({"kind", "tag"} & config.keys()):
        raise TargetError("The target's JSON has neither a kind nor a tag.", 'Write it as {"kind": "llvm", "mcpu": "znver4"}.')
    return config


def _tag_config(tag: Any) -> dict[str, Any]:
    if not isinstance(tag, str) or tag not in list_tags():
        raise _unknown(tag)
    exported: dict[str, Any] = _plain(Target(tag))
    exported.pop("tag", None)
    return exported


def _plain(value: Any) -> Any:
    """An exported target as JSON-ready values; ``feature.*`` entries, which TVM derives again from mcpu, are left out."""
    if isinstance(value, Target):
        value = value.export()
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "items"):
        return {str(name): _plain(item) for name, item in value.items() if not str(name).startswith("feature.") and item != ""}
    return [_plain(item) for item in value]


def _construct(config: Mapping[str, Any]) -> Target:
    try:
        return Target(dict(config))
    except _TVM_REFUSALS as error:
        reason = str(error).strip().split(" Target creation from")[0][-300:]
        raise TargetError(f"TVM refuses the target: {reason}", "Correct or remove the option that it names.") from error


def _lacking_features(config: Mapping[str, Any]) -> list[str]:
    """SIMD features that LLVM assumes for the CPU's name but that this (virtual) machine masks; using one is SIGILL."""
    present = {str(name): bool(value) for name, value in get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")().items()}
    assumed = {str(feature) for feature in codegen.llvm_get_cpu_features(Target(dict(config)))}
    return sorted(feature for feature in assumed if _SIMD_FEATURE.match(feature) and present.get(feature) is False)


def _is_local(triple: Any) -> bool:
    return triple is None or (isinstance(triple, str) and _architecture(triple) == _architecture(platform.machine()))


def _architecture(triple: str) -> str:
    name = triple.split("-", maxsplit=1)[0].lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _label(config: Mapping[str, Any]) -> str:
    kind = str(config["kind"])
    detail = config.get("arch") if kind == "cuda" else config.get("mcpu") or config.get("mtriple") or config.get("model")
    text = f"{kind}-{detail}" if detail else kind
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text)[:60]


def _description(config: Mapping[str, Any]) -> str:
    kind = str(config["kind"])
    if kind == "cuda":
        return f"cuda {config['arch']}"
    name = " ".join(str(part) for part in (kind, config.get("mcpu")) if part)
    parts = [name] if _is_local(config.get("mtriple")) else [name, str(config["mtriple"])]
    cores = config.get("num-cores")
    if cores:
        parts.append(f"{cores} thread{'' if cores == 1 else 's'}")
    return ", ".join(parts)


def _unknown(text: Any) -> TargetError:
    names = ["auto", "cpu", "cuda", "cuda:sm_90", *buildable_kinds(), *target_tags()]
    forms = 'Give auto, cpu, cuda, cuda:sm_90, a TVM tag such as nvidia/nvidia-h100, or JSON such as {"kind": "llvm", "mcpu": "znver4"}.'
    return TargetError(f"There is no target {_shown(text)}.", _suggestion(str(text), names, forms))


def _suggestion(text: str, names: list[str], otherwise: str) -> str:
    lowered = text.lower()[:100]
    stem = lowered.rsplit("/", maxsplit=1)[-1]
    containing = [name for name in names if stem in name] if len(stem) >= 3 else []
    near = containing[:3] or difflib.get_close_matches(lowered, names, n=3)
    return f"Did you mean {' or '.join(near)}? {otherwise}" if near else otherwise


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
