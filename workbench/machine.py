"""Facts of this machine, read from the operating system and the vendors' own tools; TVM is not asked.

Files are read below a `root` (``/`` outside of tests) so that other machines can be imitated.
"""

from __future__ import annotations

import csv
import os
import platform
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil

from workbench.records.machine import CacheFacts, Compiler, CpuFacts, CudaDevice, CudaFacts, CudaToolkit, DiskFacts, Machine, MemoryFacts

QUERY_TIMEOUT_S = 15.0
MEBIBYTE = 2**20
_SIMD_FLAG = re.compile(r"sse\d?|ssse3|sse4|avx|fma$|f16c|amx|asimd|neon|sve|i8mm|bf16")
_COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")
_BINARY_PREFIXES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_ROOT = Path("/")


def read_machine() -> Machine:
    """All facts of this machine; takes about as long as ``nvidia-smi`` where there is one."""
    return Machine(
        host=platform.node(),
        system=platform.platform(),
        cpu=cpu_facts(),
        memory=memory_facts(),
        cuda=cuda_facts(),
        toolkit=cuda_toolkit(),
        compiler=c_compiler(),
    )


def cpu_facts(root: Path = _ROOT, allowed: frozenset[int] | None = None) -> CpuFacts:
    """The processor as this process may use it.

    Args:
        root: Where ``proc`` and ``sys`` are.
        allowed: Logical CPUs of the process; asked from the operating system if not given.
    """
    info = _cpu_info(root)
    flags = (info.get("flags") or info.get("Features") or "").split()
    machine_logical = psutil.cpu_count(logical=True) or 1
    logical = allowed if allowed is not None else _allowed_cpus(machine_logical)
    quota = cgroup_quota_cores(root)
    return CpuFacts(
        model=info.get("model name") or platform.processor() or platform.machine(),
        architecture=platform.machine(),
        physical_cores=_bounded(_physical_cores(root, logical), quota),
        logical_cores=len(logical),
        machine_logical_cores=machine_logical,
        quota_cores=quota,
        vector_width_bits=_vector_width_bits(flags),
        simd_features=tuple(sorted(flag for flag in flags if _SIMD_FLAG.match(flag))),
        caches=_caches(root, min(logical, default=0)),
    )


def cgroup_quota_cores(root: Path = _ROOT) -> float | None:
    """CPU time granted by the tightest cgroup above this process, in cores; None if unlimited or not on Linux."""
    quotas: list[float] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        group = Path(path.strip("/"))
        for level in (group, *group.parents):
            if not controllers:
                quotas += _quota(*_text(root / "sys/fs/cgroup" / level / "cpu.max").split()[:2])
            elif "cpu" in controllers.split(","):
                folder = root / "sys/fs/cgroup" / controllers / level
                quotas += _quota(_text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip())
    return min(quotas, default=None)


def memory_facts() -> MemoryFacts:
    """Main memory of the machine."""
    memory = psutil.virtual_memory()
    return MemoryFacts(total_bytes=int(memory.total), available_bytes=int(memory.available))


def disk_facts(path: Path) -> DiskFacts:
    """The file system that `path` is on, or would be on; a file is created and removed there to see whether that is allowed."""
    existing = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())
    usage = shutil.disk_usage(existing)
    try:
        with tempfile.TemporaryFile(dir=existing):
            writable = True
    except OSError:
        writable = False
    return DiskFacts(path=str(path), total_bytes=usage.total, free_bytes=usage.free, writable=writable)


def cuda_facts(program: str | None = None, timeout_s: float = QUERY_TIMEOUT_S) -> CudaFacts:
    """CUDA devices and driver, from ``nvidia-smi``.

    Args:
        program: The program to ask; searched on PATH if not given.
        timeout_s: A driver in trouble can block it for ever.
    """
    program = program or shutil.which("nvidia-smi")
    if program is None:
        return CudaFacts((), None, "nvidia-smi was not found, so there is no NVIDIA driver.")
    fields = "--query-gpu=index,name,compute_cap,memory.total,driver_version"
    try:
        done = _run(program, fields, "--format=csv,noheader,nounits", timeout_s=timeout_s)
    except subprocess.TimeoutExpired:
        return CudaFacts((), None, f"nvidia-smi did not answer within {timeout_s:g} s.")
    except OSError as error:
        return CudaFacts((), None, f"nvidia-smi cannot be run: {error.strerror}.")
    if done.returncode != 0:
        said = " ".join((done.stdout or done.stderr).split())[:200]
        return CudaFacts((), None, f"nvidia-smi failed: {said or f'exit code {done.returncode}'}")
    return _parse_devices(done.stdout)


def cuda_toolkit(environment: Mapping[str, str] = os.environ) -> CudaToolkit:
    """nvcc, ptxas, cuobjdump and nvdisasm, from CUDA_HOME, PATH, ``/usr/local/cuda`` or NVIDIA's wheels."""
    homes = [environment[name] for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    wheels = [str(folder) for folder in Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin")]
    folders = [*(f"{home}/bin" for home in homes), *environment.get("PATH", "").split(os.pathsep), "/usr/local/cuda/bin", *wheels]
    search = os.pathsep.join(folder for folder in folders if folder)
    nvcc, ptxas, cuobjdump, nvdisasm = (shutil.which(name, path=search) for name in ("nvcc", "ptxas", "cuobjdump", "nvdisasm"))
    release = re.search(r"release (\S+), V(\S+)", _output_of(nvcc, "--version")) if nvcc else None
    return CudaToolkit(nvcc, release.group(2) if release else None, ptxas, cuobjdump, nvdisasm)


def c_compiler(environment: Mapping[str, str] = os.environ) -> Compiler | None:
    """The compiler that TVM would take: CXX or CC, else the first of g++, gcc, clang++, clang, c++, cc; None if there is none."""
    named = environment.get("CXX") or environment.get("CC")
    for name in (named,) if named else _COMPILERS:
        path = shutil.which(name, path=environment.get("PATH"))
        if path:
            lines = _output_of(path, "--version").splitlines()
            return Compiler(path, lines[0].strip() if lines else "")
    return None


def is_halted(pid: int) -> bool:
    """True if a process stands still because of a signal (SIGSTOP, Ctrl-Z) or a debugger; False where that cannot be known."""
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except (psutil.Error, ValueError):  # ValueError: that is no number of a process
        return False


def _cpu_info(root: Path) -> dict[str, str]:
    """The fields of the first processor in ``/proc/cpuinfo``."""
    fields: dict[str, str] = {}
    for line in _text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _allowed_cpus(machine_logical: int) -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(machine_logical))


def _physical_cores(root: Path, allowed: frozenset[int]) -> int:
    topology = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    siblings = {cpu: _text(root / topology.format(cpu)).strip() for cpu in allowed}
    if all(siblings.values()):
        return len(set(siblings.values()))
    return min(psutil.cpu_count(logical=False) or len(allowed), len(allowed))


def _caches(root: Path, cpu: int) -> tuple[CacheFacts, ...]:
    """Caches of data of one logical CPU, smallest first."""
    found = []
    for folder in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
        level, kind, size, shared = (_text(folder / name).strip() for name in ("level", "type", "size", "shared_cpu_list"))
        number = re.fullmatch(r"(\d{1,12})([KMG]?)", size)
        if number and level.isdigit() and kind in {"Data", "Unified"}:
            name = f"L{int(level)}{'d' if kind == 'Data' else ''}"
            found.append(CacheFacts(name, int(number[1]) * _BINARY_PREFIXES[number[2]], _count_of_list(shared)))
    return tuple(sorted(found, key=lambda cache: cache.size_bytes))


def _count_of_list(text: str) -> int:
    """How many numbers a list such as ``0-3,8`` names; 1 if it cannot be read."""
    total = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return 1
        total += max(int(last or first) - int(first) + 1, 0)
    return max(total, 1)


def _bounded(cores: int, quota_cores: float | None) -> int:
    return cores if quota_cores is None else max(1, min(cores, int(quota_cores)))


def _quota(quota: str = "", period: str = "") -> list[float]:
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return []
    return [int(quota) / int(period)]


def _vector_width_bits(flags: list[str]) -> int:
    if "avx512f" in flags:
        return 512
    return 256 if "avx2" in flags else 128


def _parse_devices(text: str) -> CudaFacts:
    devices, driver = [], None
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(row) != 5 or not row[0].isdigit():
            continue
        index, name, capability, memory_mib, driver = row
        arch = f"sm_{capability.replace('.', '')}" if re.fullmatch(r"\d+\.\d", capability) else ""
        memory_bytes = int(memory_mib) * MEBIBYTE if memory_mib.isdigit() else None
        devices.append(CudaDevice(int(index), name, arch, memory_bytes))
    return CudaFacts(tuple(devices), driver, "" if devices else "nvidia-smi lists no device.")


def _output_of(program: str, argument: str) -> str:
    try:
        done = _run(program, argument, timeout_s=QUERY_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _run(program: str, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout_s,
        check=False,
    )


def _text(path: Path) -> str:
    """What the file says; empty if it is missing or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
