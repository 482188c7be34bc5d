"""Views of CPU kernels: LLVM IR, assembly, and what the assembly and the loops say of vector units, registers and caches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import tvm
from tvm.target import codegen

from workbench.analysis.assembly import assembly_facts, assembly_lines
from workbench.engines.relax.build import compiled
from workbench.engines.relax.view_working_set import LoopFootprint, working_sets
from workbench.machine import cpu_facts
from workbench.records.machine import CacheFacts
from workbench.records.view import RESOURCES, ViewText

_WIDTHS = ((512, "avx512f"), (256, "avx2"), (256, "avx"), (128, "sse2"), (128, "neon"))


def code_of(module: tvm.IRModule, target: tvm.target.Target, kind: str) -> str:
    """What LLVM makes of a kernel: ``ll`` for its IR after optimisation, ``asm`` for assembly.

    Raises:
        Exception: Whatever code generation raises.
    """
    library = compiled(lambda: tvm.compile(module, target=target), target)
    return str(library.mod.inspect_source(kind))


def resources_view(module: tvm.IRModule, target: tvm.target.Target, *, local: bool) -> ViewText:
    """Vector width, multiply-adds and spills from the assembly; what each loop touches beside the caches.

    Args:
        module: The scheduled kernel as ``main``.
        target: What it is for.
        local: True if that is this machine, whose caches are known.
    """
    facts = assembly_facts(code_of(module, target, "asm"))
    caches = cpu_facts().caches if local else ()
    loops = working_sets(module)
    widest = target_vector_bits(target)
    levels = [{**asdict(loop), "tensors": dict(loop.tensors), "fits": None if loop.bytes is None else _fits(loop.bytes, caches)} for loop in loops]
    assembly = {**asdict(facts), "arithmetic": _by_width(facts.arithmetic), "fma": _by_width(facts.fma)}
    data = {
        "kind": "llvm",
        "target_vector_bits": widest,
        "assembly": assembly,
        "caches": [asdict(cache) for cache in caches],
        "loops": levels,
    }
    return ViewText(RESOURCES, "\n".join([*assembly_lines(facts, widest), "", *_loop_lines(loops, caches, local=local), ""]), data=data)


def target_vector_bits(target: tvm.target.Target) -> int | None:
    """The widest vector that a target's processor has; None if it has none that is known here."""
    for bits, feature in _WIDTHS:
        try:
            if codegen.target_has_features(feature, target):
                return bits
        except (tvm.error.InternalError, ValueError):
            return None
    return None


def _by_width(counts: dict[int, int]) -> dict[str, int]:
    return {str(bits): count for bits, count in counts.items()}


def _loop_lines(loops: tuple[LoopFootprint, ...], caches: tuple[CacheFacts, ...], *, local: bool) -> list[str]:
    known = ", ".join(f"{cache.name} {_size(cache.size_bytes)}{_sharers(cache)}" for cache in caches)
    where = known or ("not told by this system" if local else "not known: the target is another machine")
    names = [f"{'  ' * loop.depth}{loop.loop}{' (threads)' if loop.is_parallel else ''}" for loop in loops]
    width = max((len(name) for name in names), default=0)
    lines = [f"caches: {where}", f"{'loop':<{width}}  {'iterations':>10}  {'touches at most':>15}  fits"]
    for name, loop in zip(names, loops, strict=True):
        size = "unknown" if loop.bytes is None else _size(loop.bytes)
        fits = "" if loop.bytes is None or not caches else _fits(loop.bytes, caches) or "no cache"
        lines.append(f"{name:<{width}}  {loop.extent if loop.extent is not None else 'dynamic':>10}  {size:>15}  {fits}".rstrip())
    return lines if loops else [lines[0]]


def _fits(size_bytes: int, caches: tuple[CacheFacts, ...]) -> str | None:
    """The smallest cache that holds so much; None if none does or none is known."""
    return next((cache.name for cache in caches if size_bytes <= cache.size_bytes), None)


def _sharers(cache: CacheFacts) -> str:
    return f" (shared by {cache.shared_by})" if cache.shared_by > 1 else ""


def _size(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes} B"
    value, unit = (size_bytes / 2**10, "KiB") if size_bytes < 2**20 else (size_bytes / 2**20, "MiB")
    return f"{value:,.1f} {unit}"


def is_local(triple: Any, names_of_here: tuple[str, ...]) -> bool:
    """True if a target's triple is of this machine's architecture."""
    return str(triple or "").partition("-")[0] in ("", *names_of_here)
