"""Where two texts and two schedules differ, as plain data; draws nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from workbench.records.knob import Knob
from workbench.records.view_diff import ADDED, CHANGED, REMOVED, SAME, DiffLine, Hunk, KnobDifference

CONTEXT = 3
_EXACT_LINES = 4000  # beyond it, lines that are everywhere are no anchors: generated code may have a hundred thousand lines

_Opcode = tuple[str, int, int, int, int]


def hunks(left: str, right: str, *, context: int = CONTEXT) -> tuple[Hunk, ...]:
    """Where two texts differ, line by line.

    Args:
        left: A text.
        right: Another one.
        context: Equal lines around each difference.
    """
    before, after = lines_of(left), lines_of(right)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=len(before) + len(after) > _EXACT_LINES)
    return tuple(_hunk(group, before, after) for group in matcher.get_grouped_opcodes(context) if any(code[0] != "equal" for code in group))


def aligned(left: str, right: str) -> tuple[DiffLine, ...]:
    """All lines of two texts side by side."""
    return tuple(line for hunk in hunks(left, right, context=10**9) for line in hunk.lines) or tuple(
        DiffLine(SAME, number, line, number, line) for number, line in enumerate(lines_of(left), 1)
    )


def differing_knobs(left: Sequence[Knob], right: Sequence[Knob]) -> tuple[KnobDifference, ...]:
    """The decisions in which two schedules differ: what a search chose first, then what follows from it; each in the order of the schedules."""
    values = [{knob.knob: knob.value for knob in side} for side in (left, right)]
    names = dict.fromkeys([*values[0], *values[1]])
    chosen = {knob.knob for side in (left, right) for knob in side if knob.sampled}
    pairs = [KnobDifference(name, values[0].get(name), values[1].get(name)) for name in sorted(names, key=lambda name: name not in chosen)]
    return tuple(pair for pair in pairs if pair.left != pair.right)


def lines_of(text: str) -> list[str]:
    """The lines of a text as editors count them: a line ends with a line feed and nothing else."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _hunk(group: Sequence[_Opcode], before: list[str], after: list[str]) -> Hunk:
    lines = tuple(line for code in group for line in _lines(code, before, after))
    first, last = group[0], group[-1]
    return Hunk(first[1] + 1, last[2] - first[1], first[3] + 1, last[4] - first[3], lines)


def _lines(code: _Opcode, before: list[str], after: list[str]) -> Iterator[DiffLine]:
    tag, left, left_end, right, right_end = code
    while left < left_end or right < right_end:
        has_left, has_right = left < left_end, right < right_end
        kind = SAME if tag == "equal" else CHANGED if has_left and has_right else REMOVED if has_left else ADDED
        yield DiffLine(
            kind,
            left + 1 if has_left else None,
            before[left] if has_left else "",
            right + 1 if has_right else None,
            after[right] if has_right else "",
        )
        left, right = left + has_left, right + has_right
