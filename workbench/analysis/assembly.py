"""What an assembly text says of a CPU kernel: vector width, fused multiply-adds, spills; reads x86-64 (AT&T) and AArch64 as LLVM prints them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_LABEL = re.compile(r"^[.\w$]+:")
_COMMENT = re.compile(r"\s*(?:#|//).*$")
_X86_WIDTHS = (("%zmm", 512), ("%ymm", 256), ("%xmm", 128))
_X86_FMA = re.compile(r"^v?f(?:n?m(?:add|sub)|maddsub|msubadd)(?:132|213|231)?(ps|pd|ss|sd|ph|sh)$|^v?fn?m(?:add|sub)\w*(ps|pd|ss|sd|ph|sh)$")
_X86_FLOAT = re.compile(r"^v?(?:add|sub|mul|div|max|min|sqrt|fn?madd\w*|fn?msub\w*|dp)\w*?(?:[ps][sdh])$")
_X86_INTEGER = re.compile(r"^vp?(?:dp(?:bu|ws|bs)\w+|madd\w+|mull?\w+|add[bwdq]|sub[bwdq]|max\w+|min\w+)$")
_ARM_FMA = re.compile(r"^f?ml[as]$|^fmadd$|^fmsub$|^fnmadd$|^fnmsub$")
_ARM_FLOAT = re.compile(r"^f(?:add|sub|mul|div|max|min|ml[as]|maxnm|minnm)$")
_ARM_INTEGER = re.compile(r"^(?:s|u)dot$|^mla$")
_ARM_VECTOR = re.compile(r"\bv\d+\.(\d+)([bhsd])")
_ARM_BITS = {"b": 8, "h": 16, "s": 32, "d": 64}
_SPILL = re.compile(r"(\d+)-byte (?:Folded )?(Spill|Reload)")
_X86_STACK_STORE = re.compile(r"^v?mov(?:[au]p[sd]|dqa\d*|dqu\d*|ss|sd)\s+%([xyz])mm\d+, -?\d*\(%r[sb]p\)")
_X86_STACK_LOAD = re.compile(r"^v?mov(?:[au]p[sd]|dqa\d*|dqu\d*|ss|sd)\s+-?\d*\(%r[sb]p\), %([xyz])mm\d+")
_REGISTER_BYTES = {"x": 16, "y": 32, "z": 64}


@dataclass(frozen=True)
class AssemblyFacts:
    """Counts over the text of a kernel; a static count says nothing of how often a line runs.

    Attributes:
        instructions: Instructions.
        vector_bits: Widest vector that arithmetic uses; 0 if it uses none. Of a kernel that computes with floats, arithmetic on integers is that of
            its indices and does not count.
        arithmetic: The same arithmetic by width in bits; 0 for scalar instructions.
        fma: Fused multiply-adds by width in bits; 0 for scalar ones.
        spills: Values that are stored on the stack because there are too few registers.
        reloads: Values that are loaded from there again.
        spill_bytes: Bytes of the spilled values.
        hot_label: Block with the most fused multiply-adds; empty if there are none.
        hot_fma: Fused multiply-adds in it.
        hot_instructions: Instructions in it.
    """

    instructions: int
    vector_bits: int
    arithmetic: dict[int, int]
    fma: dict[int, int]
    spills: int
    reloads: int
    spill_bytes: int
    hot_label: str
    hot_fma: int
    hot_instructions: int


def assembly_facts(text: str) -> AssemblyFacts:
    """Read an assembly text."""
    floats: Counter[int] = Counter()
    integers: Counter[int] = Counter()
    fma: Counter[int] = Counter()
    blocks: dict[str, list[int]] = {"": [0, 0]}
    spills, reloads, spill_bytes, label = 0, 0, 0, ""
    for line in text.split("\n"):
        if _LABEL.match(line):
            label = line.partition(":")[0]
            blocks.setdefault(label, [0, 0])
            continue
        code = _COMMENT.sub("", line).strip()
        if not code or code.startswith("."):
            continue
        blocks[label][0] += 1
        mnemonic, _, operands = code.partition("\t")
        if not operands:
            mnemonic, _, operands = code.partition(" ")
        kind, size = _stack_use(line, code.replace("\t", " "))
        spills, reloads = spills + (kind == "Spill"), reloads + (kind == "Reload")
        spill_bytes += size if kind == "Spill" else 0
        bits = _vector_bits(mnemonic, operands)
        floats[bits] += bool(_X86_FLOAT.match(mnemonic) or _ARM_FLOAT.match(mnemonic))
        integers[bits] += bool(bits and (_X86_INTEGER.match(mnemonic) or _ARM_INTEGER.match(mnemonic)))
        if _X86_FMA.match(mnemonic) or _ARM_FMA.match(mnemonic):
            fma[bits] += 1
            blocks[label][1] += 1
    arithmetic = +floats or +integers
    hot = max(blocks, key=lambda name: blocks[name][1])
    return AssemblyFacts(
        instructions=sum(count for count, _ in blocks.values()),
        vector_bits=max(arithmetic, default=0),
        arithmetic=dict(sorted(arithmetic.items())),
        fma=dict(sorted(fma.items())),
        spills=spills,
        reloads=reloads,
        spill_bytes=spill_bytes,
        hot_label=hot if blocks[hot][1] else "",
        hot_fma=blocks[hot][1],
        hot_instructions=blocks[hot][0] if blocks[hot][1] else 0,
    )


def assembly_lines(facts: AssemblyFacts, widest: int | None) -> list[str]:
    """The facts for people; `widest` is the widest vector that the processor has, where that is known."""
    used = f"{facts.vector_bits} bits" if facts.vector_bits else "none: arithmetic is scalar"
    available = f" (the processor has {widest})" if widest else ""
    fma = ", ".join(f"{count} of {f'{bits} bits' if bits else 'one number'}" for bits, count in reversed(list(facts.fma.items()))) or "none"
    spills = f"{facts.spills} ({facts.spill_bytes:,} bytes), {facts.reloads} reloads" if facts.spills or facts.reloads else "none"
    lines = [
        f"instructions: {facts.instructions:,} in the text",
        f"vector width used: {used}{available}",
        f"fused multiply-adds: {fma}",
        f"spills: {spills}",
    ]
    if facts.hot_label:
        lines.append(f"block with the most multiply-adds: {facts.hot_label}, {facts.hot_fma} of its {facts.hot_instructions} instructions")
    return lines


def _stack_use(line: str, code: str) -> tuple[str, int]:
    """Whether an instruction spills or reloads, and how many bytes: as LLVM remarks it, or else as vector registers and the stack pointer say."""
    remark = _SPILL.search(line)
    if remark:
        return remark[2], int(remark[1])
    for kind, pattern in (("Spill", _X86_STACK_STORE), ("Reload", _X86_STACK_LOAD)):
        match = pattern.match(code)
        if match:
            return kind, _REGISTER_BYTES[match[1]]
    return "", 0


def _vector_bits(mnemonic: str, operands: str) -> int:
    """Width of the vectors that an instruction works on; 0 for a scalar one."""
    if mnemonic.endswith(("ss", "sd", "sh")) and not mnemonic.startswith("vp"):
        return 0
    for register, bits in _X86_WIDTHS:
        if register in operands:
            return bits
    match = _ARM_VECTOR.search(operands)
    return int(match[1]) * _ARM_BITS[match[2]] if match else 0
