"""What is right and wrong with this installation and machine; looks, changes nothing, prints nothing.

TVM is only asked in a child process (`workbench.engines.relax.abi_check`), because a wrong pair of packages kills the process.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from workbench import machine
from workbench.errors import InputError
from workbench.escaping import plain
from workbench.old_python import VARIABLE, ask_versions, find_old_python
from workbench.records.machine import CpuFacts, CudaFacts, Machine

TVM_VERSION = "0.27.0.post1"
FFI_VERSION = "0.1.14.post1"
PIN = f"pip install apache-tvm=={TVM_VERSION} apache-tvm-ffi=={FFI_VERSION}"
ABI_COMMAND = (sys.executable, "-P", "-m", "workbench.engines.relax.abi_check")
ABI_TIMEOUT_S = 120.0
LOW_DISK_BYTES = 2 * 10**9
LOW_MEMORY_BYTES = 10**9
GIB = 2**30

_XGBOOST_TOO_NEW = 2

Status = Literal["ok", "warning", "fault"]


@dataclass(frozen=True)
class Check:
    """One line of the report.

    Attributes:
        name: What was looked at.
        status: ``warning``: works, but less well; ``fault``: something will not work.
        value: What was found.
        remedy: What to do about it; empty if nothing.
    """

    name: str
    status: Status
    value: str
    remedy: str = ""


@dataclass(frozen=True)
class DoctorReport:
    """All checks, in the order in which a reader wants them."""

    checks: tuple[Check, ...]
    machine: Machine

    @property
    def healthy(self) -> bool:
        """Whether no check found a fault."""
        return all(check.status != "fault" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        return {"healthy": self.healthy, "checks": [asdict(check) for check in self.checks], "machine": self.machine.to_dict()}


@dataclass(frozen=True)
class AbiResult:
    """How the self-check in the child process ended.

    Attributes:
        facts: What the child printed before the risky part; empty if it did not come that far.
        failure: What happened, in one phrase; empty if everything worked.
        remedy: What to do about the failure.
    """

    facts: Mapping[str, Any]
    failure: str = ""
    remedy: str = ""


def examine(
    *,
    sessions: Path = Path("workbench-sessions"),
    abi_command: Sequence[str] = ABI_COMMAND,
    abi_timeout_s: float = ABI_TIMEOUT_S,
    environment: Mapping[str, str] = os.environ,
    python: str = "",
) -> DoctorReport:
    """Run every check.

    Args:
        sessions: Where session directories will be written; need not exist.
        abi_command: The self-check to run in a child process.
        abi_timeout_s: When to give the child up.
        environment: Environment variables to judge.
        python: The old Python of the relay engine, as the user gives it; empty takes the environment variable's, if there is one.
    """
    here = machine.read_machine()
    abi = run_abi_check(abi_command, abi_timeout_s)
    checks = (
        _check_python(),
        _check_version("tvm", "apache-tvm", TVM_VERSION),
        _check_version("tvm-ffi", "apache-tvm-ffi", FFI_VERSION),
        _check_abi(abi),
        _check_xgboost(abi),
        _check_compiler(here, environment),
        _check_cpu(here.cpu, abi),
        _check_threads(here.cpu, abi, environment),
        _check_memory(here),
        _check_cuda(here.cuda, abi),
        _check_toolkit(here),
        _check_disk(sessions),
        _check_tracker(environment),
        _check_old_python(python or environment.get(VARIABLE, "")),
    )
    return DoctorReport(checks, here)


def run_abi_check(command: Sequence[str] = ABI_COMMAND, timeout_s: float = ABI_TIMEOUT_S) -> AbiResult:
    """Run the self-check in a child process and say how it ended."""
    root = str(Path(__file__).parent.parent)
    paths = os.pathsep.join(path for path in (root, os.environ.get("PYTHONPATH", "")) if path)
    child = subprocess.Popen(
        list(command),
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    try:
        stdout, stderr = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        stdout, stderr = child.communicate()
        facts, stage = _facts(stdout), _last_stage(stderr)
        return AbiResult(facts, f"no answer within {timeout_s:g} s{stage}", "See whether another process uses up this machine, then run it again.")
    return _judge(child.returncode, _facts(stdout), stderr)


def _judge(returncode: int, facts: Mapping[str, Any], stderr: str) -> AbiResult:
    stage = _last_stage(stderr)
    if returncode < 0:
        name = _signal_name(-returncode)
        return AbiResult(facts, f"died with {name}{stage}", _signal_remedy(name))
    if returncode != 0:
        lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith("stage ")]
        said = lines[-1].strip()[:300] if lines else f"exit code {returncode}"
        return AbiResult(facts, f"failed{stage}: {said}", f"Install the tested pair: {PIN}")
    if not facts:
        return AbiResult(facts, "the self-check gave no answer that can be read", f"Install the tested pair: {PIN}")
    return AbiResult(facts)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signal_remedy(name: str) -> str:
    if name == "SIGKILL":
        return "Free some memory (the system kills processes that use too much), then run it again."
    if name == "SIGILL":
        return "This CPU lacks an instruction that LLVM assumes; run on the machine itself or pass its CPU flags through to the virtual machine."
    return f"Install the pair that works together: {PIN}"


def _facts(stdout: str) -> dict[str, Any]:
    for line in stdout.splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict):
            return values
    return {}


def _last_stage(stderr: str) -> str:
    stages = [line.removeprefix("stage ") for line in stderr.splitlines() if line.startswith("stage ")]
    return f" while {stages[-1]}" if stages else ""


def _check_python() -> Check:
    return Check("python", "ok", f"{platform.python_version()} at {sys.executable}")


def _check_version(name: str, package: str, tested: str) -> Check:
    version = _installed_version(package)
    if version is None:
        return Check(name, "fault", f"{package} is not installed", f"Install it: {PIN}")
    if version != tested:
        return Check(name, "warning", f"{version}; tested with {tested}", f"If something fails, install the tested pair: {PIN}")
    return Check(name, "ok", version)


def _check_abi(abi: AbiResult) -> Check:
    if abi.failure:
        return Check("self-check", "fault", abi.failure, abi.remedy)
    kinds = ", ".join(map(str, abi.facts.get("kinds", [])))
    value = f"built and ran a kernel; LLVM {abi.facts.get('llvm')}; targets: {kinds} and {abi.facts.get('tag_count')} tags"
    return Check("self-check", "ok", value)


def _check_xgboost(abi: AbiResult) -> Check:
    installed = _installed_version("xgboost") or _installed_version("xgboost-cpu")
    remedy = "Install it: pip install xgboost (without it the search cannot learn from its trials)."
    if installed is None:
        return Check("xgboost", "warning", "not installed", remedy)
    problem = abi.facts.get("xgboost_error")
    if problem:
        return Check("xgboost", "warning", f"{installed}, but it does not load: {problem}", "Install it again: pip install --force-reinstall xgboost")
    return Check("xgboost", "ok", installed)


def _check_compiler(here: Machine, environment: Mapping[str, str]) -> Check:
    if here.compiler is None:
        named = environment.get("CXX") or environment.get("CC")
        value = f"{named} (from CXX or CC) is not a program" if named else "none found"
        remedy = "Correct CXX or CC to one program without options." if named else "Install one (apt-get install g++); kernels are linked with it."
        return Check("c compiler", "fault", value, remedy)
    if not here.compiler.version:
        return Check("c compiler", "warning", f"{here.compiler.path} does not say its version", "Try it: it may be broken.")
    return Check("c compiler", "ok", f"{here.compiler.path}, {here.compiler.version}")


def _check_cpu(cpu: CpuFacts, abi: AbiResult) -> Check:
    parts = [
        f"{cpu.model} ({cpu.architecture})",
        f"mcpu {abi.facts.get('mcpu', 'unknown')}",
        f"{cpu.physical_cores} cores used of {cpu.logical_cores} logical ({cpu.machine_logical_cores} in the machine)",
        f"vectors of {cpu.vector_width_bits} bits",
    ]
    if cpu.quota_cores is not None:
        parts.append(f"cgroup grants {cpu.quota_cores:g} cores")
    return Check("cpu", "ok", ", ".join(parts))


def _check_threads(cpu: CpuFacts, abi: AbiResult, environment: Mapping[str, str]) -> Check:
    text = environment.get("TVM_NUM_THREADS")
    cores = cpu.physical_cores
    remedy = f"Set TVM_NUM_THREADS={cores}, the physical cores of this process, also where you use the tuned module."
    if text is None:
        alone = abi.facts.get("pool_threads")
        without = f"; TVM alone would take {alone}, so set it where you use the tuned module" if alone not in (None, cores) else ""
        return Check("threads", "ok", f"TVM_NUM_THREADS is not set; the workbench uses {cores}{without}")
    if text.strip() != str(cores):
        return Check("threads", "warning", f"TVM_NUM_THREADS={text}", remedy)
    return Check("threads", "ok", f"TVM_NUM_THREADS={text}")


def _check_memory(here: Machine) -> Check:
    memory = here.memory
    value = f"{memory.available_bytes / GIB:.1f} GiB available of {memory.total_bytes / GIB:.1f} GiB"
    if memory.available_bytes < LOW_MEMORY_BYTES:
        return Check("memory", "warning", value, "Close other programs; building kernels needs about 1 GB.")
    return Check("memory", "ok", value)


def _check_cuda(cuda: CudaFacts, abi: AbiResult) -> Check:
    if not cuda.devices:
        return Check("cuda devices", "ok", f"none ({cuda.why_none.rstrip('.')}); CUDA sources can still be read")
    shown = [f"{device.name} {device.arch} {(device.memory_bytes or 0) / GIB:.0f} GiB" for device in cuda.devices]
    value = f"{'; '.join(shown)}; driver {cuda.driver_version}"
    if abi.facts and not abi.facts.get("cuda_arch"):
        remedy = "See whether CUDA_VISIBLE_DEVICES hides them or the driver is too old."
        return Check("cuda devices", "warning", f"{value}; TVM cannot use them", remedy)
    return Check("cuda devices", "ok", value)


def _check_toolkit(here: Machine) -> Check:
    toolkit = here.toolkit
    found = [f"nvcc {toolkit.nvcc_version or 'of unknown version'} at {toolkit.nvcc_path}"] if toolkit.nvcc_path else []
    others = (("ptxas", toolkit.ptxas_path), ("cuobjdump", toolkit.cuobjdump_path), ("nvdisasm", toolkit.nvdisasm_path))
    found += [f"{name} at {path}" for name, path in others if path]
    if not found:
        return Check("cuda toolkit", "ok", "none; CUDA sources can still be read, PTX and SASS cannot")
    if not toolkit.nvcc_path and here.cuda.devices:
        remedy = "Install nvcc, or NVRTC with pip install cuda-bindings; CUDA kernels are built with it."
        return Check("cuda toolkit", "warning", ", ".join(found), remedy)
    missing = [name for name, path in (("nvcc", toolkit.nvcc_path), *others) if not path]
    return Check("cuda toolkit", "ok", ", ".join(found) + (f"; no {' or '.join(missing)}" if missing else ""))


def _check_disk(sessions: Path) -> Check:
    disk = machine.disk_facts(sessions)
    value = f"{disk.free_bytes / GIB:.1f} GiB free for {disk.path}"
    if not disk.writable:
        return Check("disk", "fault", f"{disk.path} cannot be written", "Give another folder with --session, or change its permissions.")
    if disk.free_bytes < LOW_DISK_BYTES:
        return Check("disk", "warning", value, "Free some space or give a folder on another disk with --session.")
    return Check("disk", "ok", value)


def _check_old_python(given: str) -> Check:
    """What the relay engine's Python has and lacks."""
    name = "old python"
    if not given:
        return Check(name, "ok", f"not used ({VARIABLE} is not set)")
    try:
        python = find_old_python(given)
    except InputError as error:
        return Check(name, "fault", error.message, error.remedy)
    found = ask_versions(python)
    if found.failure:
        return Check(name, "fault", f"{plain(python, 120)}: {found.failure}", found.remedy)
    value = f"{plain(python, 120)}: " + ", ".join(f"{item} {version}" for item, version in found.versions.items() if not version.startswith("!"))
    without = _without_xgboost(found.versions.get("xgboost", ""))
    if without:
        return Check(name, "warning", f"{value}; {without}: searches have no cost model", 'Install an older one there: pip install "xgboost<2".')
    broken = next((f"{item} does not load ({version[1:]})" for item, version in found.versions.items() if version.startswith("!")), "")
    if broken:
        return Check(name, "warning", f"{value}; {broken}", "Install it there again.")
    if "pytest" not in found.versions:
        return Check(name, "warning", f"{value}; no pytest, which parts of old TVM import", "Install it there: pip install pytest.")
    return Check(name, "ok", value)


def _without_xgboost(version: str) -> str:
    """Why old TVM has no cost model with a version of XGBoost, which is its error behind an exclamation mark if it does not load; empty if it has."""
    if not version:
        return "no xgboost"
    if version.startswith("!"):
        return f"xgboost does not load ({version[1:]})"
    major = re.match(r"\d+", version)  # what has no number is tried
    return f"xgboost {version} is too new" if major and int(major.group()) >= _XGBOOST_TOO_NEW else ""


def _check_tracker(environment: Mapping[str, str]) -> Check:
    host, port = environment.get("TVM_TRACKER_HOST"), environment.get("TVM_TRACKER_PORT")
    if not host and not port:
        return Check("rpc tracker", "ok", "not used (TVM_TRACKER_HOST and TVM_TRACKER_PORT are not set)")
    if not host or not port or not port.isdigit() or not 0 < int(port) < 65536:
        value = f"TVM_TRACKER_HOST={host or ''}, TVM_TRACKER_PORT={port or ''}"
        return Check("rpc tracker", "warning", value, "Set both, the port to a number from 1 to 65535, or neither.")
    return Check("rpc tracker", "ok", f"{host}:{port}")


def _installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
