"""What a machine is: CPU, memory, disk, CUDA devices and toolkit, C compiler; facts only, no judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.records.decode import decode


@dataclass(frozen=True)
class CacheFacts:
    """One cache of data.

    Attributes:
        name: ``L1d``, ``L2``, ``L3``.
        size_bytes: Its size.
        shared_by: Logical CPUs that share it.
    """

    name: str
    size_bytes: int
    shared_by: int


@dataclass(frozen=True)
class CpuFacts:
    """The processor as this process may use it.

    Attributes:
        model: Name that the CPU gives itself; may be vague on a virtual machine.
        architecture: ``x86_64``, ``aarch64``.
        physical_cores: Cores that this process may use: inside its affinity, SMT siblings counted once, bounded by the cgroup quota.
        logical_cores: Hardware threads inside its affinity.
        machine_logical_cores: Hardware threads of the whole machine.
        quota_cores: CPU time that the cgroup grants, in cores; None if unlimited.
        vector_width_bits: Widest SIMD register: 512 (AVX-512), 256 (AVX2) or 128.
        simd_features: SIMD flags as the kernel names them.
        caches: Caches of data, smallest first; empty where the system does not say.
    """

    model: str
    architecture: str
    physical_cores: int
    logical_cores: int
    machine_logical_cores: int
    quota_cores: float | None
    vector_width_bits: int
    simd_features: tuple[str, ...]
    caches: tuple[CacheFacts, ...] = ()


@dataclass(frozen=True)
class MemoryFacts:
    """Main memory of the machine (not of a container that limits it)."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True)
class DiskFacts:
    """The file system under a path.

    Attributes:
        path: The path that was asked about; need not exist yet.
        total_bytes: Size of the file system.
        free_bytes: What this user may still write.
        writable: Whether files can be created there (in the nearest existing parent, if it does not exist yet).
    """

    path: str
    total_bytes: int
    free_bytes: int
    writable: bool


@dataclass(frozen=True)
class CudaDevice:
    """One CUDA device as the driver reports it.

    Attributes:
        index: Number of the device for the driver.
        name: e.g. ``NVIDIA H200``.
        arch: Architecture from its compute capability, e.g. ``sm_90``; empty if the driver does not say.
        memory_bytes: Total device memory; None if the driver does not say.
    """

    index: int
    name: str
    arch: str
    memory_bytes: int | None


@dataclass(frozen=True)
class CudaFacts:
    """CUDA devices and their driver.

    Attributes:
        devices: In the driver's order; empty if there are none.
        driver_version: None if there is no driver.
        why_none: Why there are no devices, in one sentence; empty if there are some.
    """

    devices: tuple[CudaDevice, ...]
    driver_version: str | None
    why_none: str = ""


@dataclass(frozen=True)
class CudaToolkit:
    """Programs of the CUDA toolkit; each path is None where the program was not found."""

    nvcc_path: str | None
    nvcc_version: str | None
    ptxas_path: str | None
    cuobjdump_path: str | None
    nvdisasm_path: str | None


@dataclass(frozen=True)
class Compiler:
    """A C or C++ compiler.

    Attributes:
        path: Full path of the program.
        version: First line that it prints for ``--version``; empty if it failed to run.
    """

    path: str
    version: str


@dataclass(frozen=True)
class Machine:
    """Everything that the workbench wants to know about the machine it runs on."""

    host: str
    system: str
    cpu: CpuFacts
    memory: MemoryFacts
    cuda: CudaFacts
    toolkit: CudaToolkit
    compiler: Compiler | None

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        values = asdict(self)
        values["cpu"]["simd_features"] = list(self.cpu.simd_features)
        values["cpu"]["caches"] = [asdict(cache) for cache in self.cpu.caches]
        values["cuda"]["devices"] = [asdict(device) for device in self.cuda.devices]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Machine:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)
