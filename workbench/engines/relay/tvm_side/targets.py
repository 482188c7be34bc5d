"""The workbench's target as this TVM's own, with a CPU that its LLVM knows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import tvm

from .failing import TARGET, Refusal
from .held import Held
from .wire import Blob

_LEVELS = (("x86-64-v4", "skylake-avx512"), ("x86-64-v3", "haswell"), ("x86-64-v2", "nehalem"))
_NEEDED = (
    ("skylake-avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}),
    ("haswell", {"avx2", "fma", "bmi1", "bmi2"}),
    ("nehalem", {"sse4_2", "popcnt"}),
)
_DETAILS = ("mcpu", "mattr", "mtriple", "num-cores", "arch", "max_threads_per_block", "max_shared_memory_per_block", "thread_warp_size")
_REMEDY = 'Give it as JSON, e.g. {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell"}.'


def take(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Hold the target ``config``, a target dict of the workbench's; ``machine`` is this machine's architecture."""
    del blobs, progress
    config, remarks = translate(arguments["config"], arguments["machine"])
    try:
        held.target = tvm.target.Target(config)
    except Exception as error:
        raise Refusal(TARGET, f"The old TVM refuses the target: {last_line(error)}.", _REMEDY) from error
    return {"target": str(held.target), "config": json.dumps(config, sort_keys=True), "remarks": remarks}


def understand(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """What the target ``config`` is in this TVM: its own target dict, and what had to be changed; nothing is held."""
    described = take(Held(), arguments, blobs, progress)
    del held
    return {**described, "config": json.loads(described["config"])}


def missing(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> str:
    """Why the target that is held cannot run here: the device of an ``index`` is not there; empty if it is."""
    del blobs, progress
    kind = held.target.kind.name
    return "" if kind == "llvm" or tvm.device(kind, arguments["index"]).exist else f"no {kind.upper()} device here"


def translate(config: dict[str, Any], machine: str) -> tuple[dict[str, Any], list[str]]:
    """This TVM's target dict, and what had to be changed."""
    remarks: list[str] = []
    chosen = {name: config[name] for name in ("kind", *_DETAILS) if name in config}
    kind = chosen.get("kind")
    if tvm.get_global_func(f"target.build.{kind}", allow_missing=True) is None:
        raise Refusal(TARGET, f"The old TVM cannot build for {kind}.", "Use a TVM that was built for it, or the target cpu.")
    if kind == "llvm":
        return _with_known_cpu(chosen, machine, remarks), remarks
    if kind == "cuda":
        host = _with_known_cpu(dict(config.get("host") or {"kind": "llvm"}), machine, remarks)
        chosen["host"] = {name: value for name, value in host.items() if name in ("kind", "mcpu", "mattr", "mtriple")}
    return chosen, remarks


def _with_known_cpu(config: dict[str, Any], machine: str, remarks: list[str]) -> dict[str, Any]:
    """The old TVM's LLVM may have another triple by default, and may not know this processor: both are silently generic then."""
    config.setdefault("mtriple", f"{machine}-linux-gnu")
    name = config.get("mcpu")
    if name is None or _knows(name, config["mtriple"]):
        return config
    nearest = dict(_LEVELS).get(name) or (_nearest() if config["mtriple"].partition("-")[0] == machine else "")
    remarks.append(f"the old LLVM does not know {name}: {nearest or 'a generic CPU'} was taken")
    config.pop("mattr", None)  # what that processor has by its name and this machine lacks
    if nearest:
        config["mcpu"] = nearest
    else:
        del config["mcpu"]
    return config


def _knows(name: str, triple: str) -> bool:
    """True if this TVM's LLVM has the processor; asked by compiling for it, since old ones tell nobody what they know."""
    valid = tvm.get_global_func("target.llvm_is_valid_cpu", allow_missing=True)
    if valid is not None:
        return bool(valid(name, triple))
    names = tvm.get_global_func("target.llvm_get_cpu_archlist", allow_missing=True)
    if names is not None:
        return name in {str(item) for item in names(tvm.target.Target({"kind": "llvm", "mtriple": triple}))}
    return name not in ("znver4", "znver5", "sapphirerapids", "graniterapids", "emeraldrapids") or _llvm() >= 16


def _llvm() -> int:
    version = tvm.get_global_func("target.llvm_version_major", allow_missing=True)
    return int(version()) if version is not None else 0


def _nearest() -> str:
    """The best processor that every LLVM knows and that has nothing which this machine lacks; empty if there is none."""
    match = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    flags = set(match.group(1).split()) if match else set()
    return next((name for name, needed in _NEEDED if needed <= flags), "")


def last_line(error: BaseException) -> str:
    """The last line of an error of TVM's that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300].rstrip(".")


CALLS = {"take": take, "understand": understand, "missing": missing}
