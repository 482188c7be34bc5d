"""Which lines of a text are about which loop or block, by name; a name that stands for more than one thing is followed nowhere."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from workbench.analysis.text_diff import lines_of
from workbench.records.view import Link

_FOR = re.compile(r"for ([\w, ]+?) in ")
_BLOCK = re.compile(r'with T\.sblock\("([^"]+)"\)')
_C_FOR = re.compile(r"for \(\w+ (\w+) = ")
_IR_LABEL = re.compile(r"^([\w.$-]+):")
_ASM_BLOCK = re.compile(r"(?:#|//|;) %([\w.$-]+)\s*$")
_ASM_LABEL = re.compile(r"^[.\w$]+:")
_LOOP_BLOCK = re.compile(r"^for_(?:begin|body|end)_(.+?)(?:\.[\w.]+)?$")
_VARIABLE = re.compile(r"\b[bl]\d+\b")
_ROOT = "root"


def tir_links(text: str) -> tuple[Link, ...]:
    """Loops and blocks of TVMScript: from their head to the end of what is indented under it."""
    lines = lines_of(text)
    return _unique([(name, number, _end(lines, number)) for name, number in _all_heads(lines)])


def ambiguous_names(text: str) -> set[str]:
    """Names in TVMScript that stand for several loops or blocks."""
    counts = Counter(name for name, _ in _all_heads(lines_of(text)))
    return {name for name, count in counts.items() if count > 1}


def cuda_links(text: str, known: Iterable[str]) -> tuple[Link, ...]:
    """Loops of C that have the name of one known loop: from their head to the brace that ends them."""
    lines = lines_of(text)
    heads = [(f"loop {match[1]}", number) for number, line in enumerate(lines, 1) if (match := _C_FOR.search(line))]
    return _only(_unique([(name, number, _brace_end(lines, number)) for name, number in heads]), known)


def llvm_links(text: str, known: Iterable[str]) -> tuple[Link, ...]:
    """Blocks of LLVM IR that TVM named after a loop: each from its label to the next one."""
    lines = lines_of(text)
    labels = [(match[1], number) for number, line in enumerate(lines, 1) if (match := _IR_LABEL.match(line))]
    return _of_basic_blocks(labels, [number for _, number in labels], lines, known)


def asm_links(text: str, known: Iterable[str]) -> tuple[Link, ...]:
    """Blocks of assembly that LLVM remarks to be those of a loop: each from its label to the next one."""
    lines = lines_of(text)
    labels = [number for number, line in enumerate(lines, 1) if _ASM_LABEL.match(line)]
    remarked = [(match[1], number) for number in labels if (match := _ASM_BLOCK.search(lines[number - 1]))]
    return _of_basic_blocks(remarked, labels, lines, known)


def schedule_links(text: str, names: Mapping[str, str], known: Iterable[str]) -> tuple[Link, ...]:
    """Lines of a schedule that mention a variable whose loop or block is known.

    Args:
        text: The schedule in Python.
        names: What each variable is in the end: ``loop ff_0``, ``block conv2d_nchw``.
        known: Links to keep.
    """
    found: list[Link] = []
    for number, line in enumerate(lines_of(text), 1):
        about = dict.fromkeys(names[variable] for variable in _VARIABLE.findall(line) if variable in names)
        found.extend(Link(name, number, number) for name in about)
    return _only(tuple(found), known)


def _all_heads(lines: list[str]) -> list[tuple[str, int]]:
    return [(name, number) for number, line in enumerate(lines, 1) for name in _heads(line)]


def _heads(line: str) -> list[str]:
    """What begins on a line of TVMScript."""
    text = line.strip()
    block = _BLOCK.match(text)
    if block:
        return [] if block[1] == _ROOT else [f"block {block[1]}"]
    loop = _FOR.match(text)
    return [f"loop {name.strip()}" for name in loop[1].split(",")] if loop else []


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end(lines: list[str], head: int) -> int:
    """The last line that is indented more than the head, which is counted from 1."""
    depth, last = _indent(lines[head - 1]), head
    for number in range(head + 1, len(lines) + 1):
        line = lines[number - 1]
        if line.strip():
            if _indent(line) <= depth:
                break
            last = number
    return last


def _brace_end(lines: list[str], head: int) -> int:
    """The line on which the braces that the head opens are closed."""
    depth = 0
    for number in range(head, len(lines) + 1):
        depth += lines[number - 1].count("{") - lines[number - 1].count("}")
        if depth <= 0:
            return number
    return len(lines)


def _of_basic_blocks(named: list[tuple[str, int]], labels: list[int], lines: list[str], known: Iterable[str]) -> tuple[Link, ...]:
    """A link for each basic block that is called after a loop."""
    ends = {start: end - 1 for start, end in itertools.pairwise([*labels, len(lines) + 1])}
    found: list[Link] = []
    for label, number in named:
        match = _LOOP_BLOCK.match(label)
        if match:
            last = ends[number]
            while last > number and not lines[last - 1].strip():
                last -= 1
            found.append(Link(f"loop {match[1]}", number, last))
    return _only(tuple(found), known)


def _unique(found: list[tuple[str, int, int]]) -> tuple[Link, ...]:
    counts = Counter(name for name, _, _ in found)
    return tuple(Link(name, first, last) for name, first, last in found if counts[name] == 1)


def _only(links: tuple[Link, ...], known: Iterable[str]) -> tuple[Link, ...]:
    wanted = set(known)
    return tuple(link for link in links if link.name in wanted)
