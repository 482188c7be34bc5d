"""Facts of machines: this one, and others imitated by files and by programs that stand in for the vendors' tools."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from workbench import machine
from workbench.records.machine import Machine

X86_INFO = "processor : 0\nmodel name : Imitated CPU\nflags : fpu sse2 avx avx2 fma\n\nprocessor : 1\nmodel name : Other\nflags : fpu\n"
ARM_INFO = "processor : 0\nFeatures : fp asimd asimddp\n"


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def put_siblings(root: Path, siblings: list[str]) -> None:
    for cpu, text in enumerate(siblings):
        put(root, f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", text + "\n")


def put_program(folder: Path, name: str, body: str) -> str:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_facts_of_this_machine_come_back_from_json_as_they_were() -> None:
    here = machine.read_machine()
    assert Machine.from_dict(json.loads(json.dumps(here.to_dict()))) == here


def test_this_process_may_use_at_least_one_core_and_no_more_than_its_affinity() -> None:
    cpu = machine.cpu_facts()
    assert 1 <= cpu.physical_cores <= cpu.logical_cores <= cpu.machine_logical_cores


@pytest.mark.parametrize(
    ("siblings", "allowed", "cores"),
    [
        (["0,2", "1,3", "0,2", "1,3"], {0, 1, 2, 3}, 2),
        (["0-1", "0-1", "2-3", "2-3"], {0, 1}, 1),
        (["0", "1", "2", "3"], {1, 3}, 2),
    ],
    ids=["four threads on two cores", "both threads of one core", "two of four cores without SMT"],
)
def test_smt_siblings_inside_the_affinity_count_as_one_core(tmp_path: Path, siblings: list[str], allowed: set[int], cores: int) -> None:
    put_siblings(tmp_path, siblings)
    facts = machine.cpu_facts(tmp_path, frozenset(allowed))
    assert (facts.physical_cores, facts.logical_cores) == (cores, len(allowed))


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4.0),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n1:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
            },
            2.0,
        ),
        ({"proc/self/cgroup": "1:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"proc/self/cgroup": "nonsense\n0::/\n", "sys/fs/cgroup/cpu.max": "\n"}, None),
        ({}, None),
    ],
    ids=["v2 parent is tighter", "v2 root", "v1", "v1 unlimited", "damaged", "no cgroups"],
)
def test_the_tightest_cgroup_quota_is_found(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    for name, text in files.items():
        put(tmp_path, name, text)
    assert machine.cgroup_quota_cores(tmp_path) == quota


@pytest.mark.parametrize(("quota", "cores"), [("150000", 1), ("250000", 2), ("10000", 1), ("900000", 4)])
def test_a_cgroup_quota_bounds_the_cores_from_one_up(tmp_path: Path, quota: str, cores: int) -> None:
    put_siblings(tmp_path, ["0", "1", "2", "3"])
    put(tmp_path, "proc/self/cgroup", "0::/\n")
    put(tmp_path, "sys/fs/cgroup/cpu.max", f"{quota} 100000\n")
    assert machine.cpu_facts(tmp_path, frozenset(range(4))).physical_cores == cores


@pytest.mark.parametrize(
    ("info", "width", "features"),
    [
        (X86_INFO, 256, ("avx", "avx2", "fma", "sse2")),
        (X86_INFO.replace("fma", "fma avx512f"), 512, ("avx", "avx2", "avx512f", "fma", "sse2")),
        ("flags : sse sse2\n", 128, ("sse", "sse2")),
        (ARM_INFO, 128, ("asimd", "asimddp")),
        ("", 128, ()),
    ],
    ids=["avx2", "avx512", "sse", "neon", "no cpuinfo"],
)
def test_the_vector_width_follows_from_the_cpu_flags(tmp_path: Path, info: str, width: int, features: tuple[str, ...]) -> None:
    put(tmp_path, "proc/cpuinfo", info)
    facts = machine.cpu_facts(tmp_path, frozenset({0}))
    assert (facts.vector_width_bits, facts.simd_features) == (width, features)
    assert facts.model


def test_a_process_that_a_signal_halts_is_known_until_it_goes_on() -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        try:
            assert not machine.is_halted(process.pid)
            os.kill(process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            assert machine.is_halted(process.pid)
            os.kill(process.pid, signal.SIGCONT)
            os.waitid(os.P_PID, process.pid, os.WCONTINUED)
            assert not machine.is_halted(process.pid)
        finally:
            process.kill()
    assert not machine.is_halted(process.pid), "it is no more"


@pytest.mark.parametrize("pid", [-1, 0, 2**30])
def test_what_is_no_process_is_not_halted(pid: int) -> None:
    assert not machine.is_halted(pid)


def test_the_first_processor_names_the_model(tmp_path: Path) -> None:
    put(tmp_path, "proc/cpuinfo", X86_INFO)
    assert machine.cpu_facts(tmp_path, frozenset({0})).model == "Imitated CPU"


def test_cuda_devices_are_read_with_names_that_hold_commas_and_values_that_are_missing(tmp_path: Path) -> None:
    body = "print('0, NVIDIA H200, 9.0, 143771, 570.1\\n1, \"Odd, Name\", [N/A], [N/A], 570.1')"
    facts = machine.cuda_facts(put_program(tmp_path, "nvidia-smi", body))
    assert [(device.index, device.name, device.arch) for device in facts.devices] == [(0, "NVIDIA H200", "sm_90"), (1, "Odd, Name", "")]
    assert [device.memory_bytes for device in facts.devices] == [143771 * 2**20, None]
    assert (facts.driver_version, facts.why_none) == ("570.1", "")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import sys; sys.exit('NVIDIA-SMI has failed\\nbecause of the driver')", "NVIDIA-SMI has failed because of the driver"),
        ("import sys; sys.exit(9)", "exit code 9"),
        ("print('No devices were found')", "lists no device"),
        ("import time; time.sleep(60)", "did not answer within 0.5 s"),
    ],
    ids=["driver fault", "silent failure", "no device", "hangs"],
)
def test_a_driver_in_trouble_gives_no_devices_and_the_reason(tmp_path: Path, body: str, why: str) -> None:
    facts = machine.cuda_facts(put_program(tmp_path, "nvidia-smi", body), timeout_s=0.5 if "sleep" in body else 15.0)
    assert facts.devices == ()
    assert why in facts.why_none


def test_without_nvidia_smi_the_reason_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not found" in machine.cuda_facts().why_none


def test_a_program_that_cannot_be_run_is_a_reason_not_an_error(tmp_path: Path) -> None:
    assert "cannot be run" in machine.cuda_facts(str(tmp_path / "missing")).why_none


def test_the_toolkit_of_cuda_home_is_preferred(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    nvcc = put_program(tmp_path / "bin", "nvcc", "print('Cuda compilation tools, release 12.4, V12.4.131')")
    toolkit = machine.cuda_toolkit({"CUDA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert (toolkit.nvcc_path, toolkit.nvcc_version) == (nvcc, "12.4.131")


def test_the_compiler_is_the_one_that_tvm_would_take(tmp_path: Path) -> None:
    put_program(tmp_path, "gcc", "print('gcc 1.0')")
    clang = put_program(tmp_path, "clang", "print('clang 2.0\\nmore')")
    found = machine.c_compiler({"PATH": str(tmp_path)})
    assert found is not None
    assert found.version == "gcc 1.0"
    named = machine.c_compiler({"PATH": str(tmp_path), "CXX": clang})
    assert named is not None
    assert (named.path, named.version) == (clang, "clang 2.0")


@pytest.mark.parametrize("environment", [{}, {"CXX": "no-such-compiler"}, {"CC": "ccache gcc"}])
def test_no_compiler_is_none(tmp_path: Path, environment: dict[str, str]) -> None:
    assert machine.c_compiler({"PATH": str(tmp_path), **environment}) is None


def test_disk_facts_of_a_folder_to_come_are_those_of_its_nearest_parent_and_leave_nothing(tmp_path: Path) -> None:
    disk = machine.disk_facts(tmp_path / "not" / "yet")
    assert disk.writable
    assert 0 < disk.free_bytes <= disk.total_bytes
    assert list(tmp_path.iterdir()) == []


def put_caches(root: Path, caches: list[tuple[str, str, str, str]]) -> None:
    for index, (level, kind, size, shared) in enumerate(caches):
        for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
            put(root, f"sys/devices/system/cpu/cpu1/cache/index{index}/{name}", f"{text}\n")


def test_caches_of_data_come_smallest_first_with_who_shares_them(tmp_path: Path) -> None:
    put_caches(
        tmp_path, [("1", "Data", "48K", "1"), ("1", "Instruction", "32K", "1"), ("3", "Unified", "32M", "0-3,8"), ("2", "Unified", "1024K", "1,5")]
    )
    facts = machine.cpu_facts(tmp_path, frozenset({1, 2}))
    assert [(cache.name, cache.size_bytes, cache.shared_by) for cache in facts.caches] == [
        ("L1d", 48 * 2**10, 1),
        ("L2", 2**20, 2),
        ("L3", 32 * 2**20, 5),
    ]


@pytest.mark.parametrize("size", ["", "x", "-1K", "1T", "9" * 30 + "K"])
def test_a_cache_whose_size_cannot_be_read_is_left_out(size: str, tmp_path: Path) -> None:
    put_caches(tmp_path, [("1", "Data", size, "1"), ("2", "Unified", "1M", "nonsense")])
    assert [(cache.name, cache.shared_by) for cache in machine.cpu_facts(tmp_path, frozenset({1})).caches] == [("L2", 1)]


def test_a_machine_that_does_not_tell_its_caches_has_none(tmp_path: Path) -> None:
    assert machine.cpu_facts(tmp_path, frozenset({0})).caches == ()
