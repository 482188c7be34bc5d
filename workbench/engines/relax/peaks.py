"""Measures what a device can do at most, with kernels that do nothing else: fused multiply-adds on registers, and a triad of arrays.

The triad is that of McCalpin's STREAM (1995), ``a = b + s c``, its bytes counted as there: two arrays read, one written. On a processor it runs once
for each cache that all threads together fill to a half, and once far beyond them; on a GPU in its memory alone.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm.script import tirx as T

from workbench.analysis.confidence import spread
from workbench.engines.protocol import Progress
from workbench.engines.relax.build import compiled
from workbench.engines.relax.view_cpu import target_vector_bits
from workbench.engines.targets import to_tvm
from workbench.errors import Interrupted
from workbench.escaping import plain
from workbench.machine import cpu_facts, cuda_facts, memory_facts
from workbench.records.machine import CpuFacts
from workbench.records.peaks import Bandwidth, Peaks, Rate
from workbench.records.target import TargetSpec

_VERSION = 1
"""Part of the key: figures of another way to measure are not these."""

_REPEATS = 40
_TARGET_S = 0.001  # behind one measured time
_CHAINS = {512: 14, 256: 12, 128: 12}  # independent sums: as many as registers hold, and more than latency times units
_STEPS = 2**16
_LEAST_MEMORY_BYTES = 2**27
_BEYOND_CACHES = 4
_MOST_MEMORY_SHARE = 8
_LINE_FLOATS = 16
_GPU_CHAINS = 16
_GPU_THREADS = 256
_GPU_BLOCKS = 8192
_GPU_STEPS = 2048
_GPU_BYTES = 3 * 2**28
_METHOD = f"best of {_REPEATS} times: fused multiply-adds on registers; the triad a = b + s c"

_FMA = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer(({lanes},), "float32"), out: T.Buffer(({threads}, {width}), "float32")):
    T.func_attr({{"global_symbol": "main", "tirx.noalias": True}})
    for p in T.parallel({threads}):
        acc = T.alloc_buffer(({width},), "float32")
        for c in T.unroll({chains}):
            for j in T.vectorized({lanes}):
                acc[c * {lanes} + j] = x[j]
        for k in range({steps}):
            for c in T.unroll({chains}):
                for j in T.vectorized({lanes}):
                    acc[c * {lanes} + j] = acc[c * {lanes} + j] * x[j] + x[j]
        for c in T.unroll({chains}):
            for j in T.vectorized({lanes}):
                out[p, c * {lanes} + j] = acc[c * {lanes} + j]
"""

_TRIAD = """
@T.prim_func(s_tir=True)
def main(
    a: T.Buffer(({size},), "float32"), b: T.Buffer(({size},), "float32"), c: T.Buffer(({size},), "float32"), s: T.Buffer(({rounds},), "float32")
):
    T.func_attr({{"global_symbol": "main", "tirx.noalias": True}})
    for p in T.parallel({threads}):
        for r in range({rounds}):
            for i in range({vectors}):
                for j in T.vectorized({lanes}):
                    a[p * {part} + i * {lanes} + j] = b[p * {part} + i * {lanes} + j] + s[r] * c[p * {part} + i * {lanes} + j]
"""

_GPU_FMA = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((1,), "float32"), out: T.Buffer(({total},), "float32")):
    T.func_attr({{"global_symbol": "main", "tirx.noalias": True}})
    for g in T.thread_binding({blocks}, thread="blockIdx.x"):
        for t in T.thread_binding({threads}, thread="threadIdx.x"):
            acc = T.alloc_buffer(({chains},), "float32", scope="local")
            for c in T.unroll({chains}):
                acc[c] = x[0] + T.cast(t + c, "float32")
            for k in range({steps}):
                for c in T.unroll({chains}):
                    acc[c] = acc[c] * x[0] + x[0]
            for c in T.unroll({chains}):
                out[(g * {threads} + t) * {chains} + c] = acc[c]
"""

_GPU_TRIAD = """
@T.prim_func(s_tir=True)
def main(
    a: T.Buffer(({size},), "float32"), b: T.Buffer(({size},), "float32"), c: T.Buffer(({size},), "float32"), s: T.Buffer((1,), "float32")
):
    T.func_attr({{"global_symbol": "main", "tirx.noalias": True}})
    for g in T.thread_binding({blocks}, thread="blockIdx.x"):
        for t in T.thread_binding({threads}, thread="threadIdx.x"):
            for j in T.vectorized(4):
                a[(g * {threads} + t) * 4 + j] = b[(g * {threads} + t) * 4 + j] + s[0] * c[(g * {threads} + t) * 4 + j]
"""


def peaks_key(target: TargetSpec, *, threads: int) -> str:
    """Digest of what the limits depend on."""
    facts = [_VERSION, str(tvm.__version__), target.config, threads, _device_name(target), [cache.size_bytes for cache in cpu_facts().caches]]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def measure_peaks(target: TargetSpec, *, threads: int, missing: str, on_progress: Progress) -> Peaks:
    """The limits of a target's device; why there are none, if they cannot be measured.

    Args:
        target: Whose.
        threads: Threads that run kernels on a processor.
        missing: Why the device is not here; empty if it is.
        on_progress: Told how far it is.
    """
    name, key = _device_name(target), peaks_key(target, threads=threads)
    count = threads if target.kind == "llvm" else 0
    if missing or target.kind not in {"llvm", "cuda"}:
        why = missing or f"not measured for {target.kind}"
        return Peaks(name, key, count, None, (), _METHOD, time.time(), f"not measured: {why}" if missing else why)
    measure = _measure_cpu if target.kind == "llvm" else _measure_gpu
    try:
        flop_per_s, bandwidths = measure(to_tvm(target), threads, on_progress)
    except Interrupted:
        raise
    except Exception as error:  # noqa: BLE001 - limits are good to know, and no reason for a profile to fail
        return Peaks(name, key, count, None, (), _METHOD, time.time(), f"not measured: {plain(str(error).strip(), 300)}")
    return Peaks(name, key, count, flop_per_s, bandwidths, _METHOD, time.time())


def triad_levels(facts: CpuFacts, threads: int, available_bytes: int) -> list[tuple[str, int]]:
    """Names and sizes of the memories of a processor: half of each cache of all cores that are used, then memory far beyond them."""
    levels: list[tuple[str, int]] = []
    largest = 0
    for cache in facts.caches:
        instances = max(1, min(threads, -(-facts.logical_cores // cache.shared_by)))
        size = cache.size_bytes * instances
        largest = max(largest, size)
        levels.append((cache.name, size // 2))
    memory = max(_BEYOND_CACHES * largest, _LEAST_MEMORY_BYTES)
    return [*levels, ("memory", min(memory, max(available_bytes // _MOST_MEMORY_SHARE, 3 * 2**20)))]


def _measure_cpu(target: Any, threads: int, on_progress: Progress) -> tuple[Rate, tuple[Bandwidth, ...]]:
    device = tvm.cpu()
    bits = target_vector_bits(target) or 128
    lanes, chains = bits // 32, _CHAINS[bits]
    levels = triad_levels(cpu_facts(), threads, memory_facts().available_bytes)
    phase = "limits of the device"
    on_progress(phase, 0.0)
    source = _FMA.format(lanes=lanes, chains=chains, width=lanes * chains, threads=threads, steps=_STEPS)
    arguments = [_array(np.full(lanes, 0.5, np.float32), device), _array(np.zeros((threads, lanes * chains), np.float32), device)]
    flop_per_s = _rate(_built(source, target), arguments, device, work=2.0 * threads * lanes * chains * _STEPS)
    bandwidths = []
    for place, (name, size_bytes) in enumerate(levels):
        on_progress(phase, (place + 1) / (len(levels) + 1))
        vectors = max(size_bytes // (12 * threads * lanes), 1)
        part = -(-vectors * lanes // _LINE_FLOATS) * _LINE_FLOATS
        rounds = (
            1 if name == "memory" else max(1, int(4 * _TARGET_S * 2e10 * threads / size_bytes))
        )  # a quick one is lost in the start of the threads
        source = _TRIAD.format(size=part * threads, rounds=rounds, threads=threads, vectors=vectors, lanes=lanes, part=part)
        arrays = [np.full(part * threads, value, np.float32) for value in (0.0, 1.0, 2.0)]
        arguments = [_array(array, device) for array in (*arrays, np.full(rounds, 0.5, np.float32))]
        rate = _rate(_built(source, target), arguments, device, work=12.0 * vectors * lanes * threads * rounds)
        bandwidths.append(Bandwidth(rate, size_bytes, name))
    return flop_per_s, tuple(bandwidths)


def _measure_gpu(target: Any, threads: int, on_progress: Progress) -> tuple[Rate, tuple[Bandwidth, ...]]:
    del threads
    device = tvm.device("cuda", 0)
    on_progress("limits of the device", 0.0)
    total = _GPU_BLOCKS * _GPU_THREADS * _GPU_CHAINS
    source = _GPU_FMA.format(total=total, blocks=_GPU_BLOCKS, threads=_GPU_THREADS, chains=_GPU_CHAINS, steps=_GPU_STEPS)
    arguments = [_array(np.full(1, 0.5, np.float32), device), _array(np.zeros(total, np.float32), device)]
    flop_per_s = _rate(_built(source, target), arguments, device, work=2.0 * total * _GPU_STEPS)
    on_progress("limits of the device", 0.5)
    size = _GPU_BYTES // 12
    source = _GPU_TRIAD.format(size=size, blocks=size // 4 // _GPU_THREADS, threads=_GPU_THREADS)
    arrays = [np.full(size, value, np.float32) for value in (0.0, 1.0, 2.0)]
    arguments = [_array(array, device) for array in (*arrays, np.full(1, 0.5, np.float32))]
    rate = _rate(_built(source, target), arguments, device, work=12.0 * size)
    return flop_per_s, (Bandwidth(rate, _GPU_BYTES, "memory"),)


def _built(source: str, target: Any) -> Any:
    function = tvm.script.from_source(source, extra_vars={"T": T})
    module = tvm.IRModule({"main": function})
    return compiled(lambda: tvm.compile(module, target=target), target)


def _rate(library: Any, arguments: Sequence[Any], device: Any, *, work: float) -> Rate:
    """Work a second, of several times that each last long enough for the clock."""
    module = library.mod if hasattr(library, "mod") else library
    once: Callable[..., Any] = module.time_evaluator("main", device, number=1, repeat=2)
    number = max(1, int(_TARGET_S / max(min(once(*arguments).results), 1e-6)))
    times = list(module.time_evaluator("main", device, number=number, repeat=_REPEATS)(*arguments).results)
    found = spread([work / seconds for seconds in times])
    return Rate(best=work / min(times), median=found.median, iqr=found.iqr, repeats=len(times))


def _array(array: np.ndarray[Any, Any], device: Any) -> Any:
    return tvm.runtime.tensor(array, device)


def _device_name(target: TargetSpec) -> str:
    """What a target's device is called here."""
    if target.kind == "llvm":
        return f"{cpu_facts().model} ({target.description})"
    devices = cuda_facts().devices if target.kind == "cuda" else ()
    return f"{devices[0].name} ({target.description})" if devices else target.description
