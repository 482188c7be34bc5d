"""The decisions of a schedule with names of their own, and as a table in plain text."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.records.knob import Knob


def named_knobs(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    """The knobs with names; those of one kind, block and loop get numbers."""
    seen: dict[str, int] = {}
    named = []
    for knob in knobs:
        about = "/".join(filter(None, (knob.block, knob.loop)))
        name = f"{knob.kind} {about}".strip()
        seen[name] = seen.get(name, 0) + 1
        number = f" #{seen[name]}" if seen[name] > 1 else ""
        named.append(Knob(f"{name}{number}", knob.kind, knob.block, knob.loop, knob.value, knob.sampled, knob.instruction))
    return tuple(named)


def knob_table(knobs: Sequence[Knob], untuned: str) -> str:
    """Decisions as a table in plain text.

    Args:
        knobs: The decisions.
        untuned: What to say where there are none.
    """
    if not knobs:
        return f"{untuned}\n"
    rows = [("decision", "block", "loop", "value", "chosen by")]
    rows += [(knob.kind, knob.block, knob.loop, knob.value, "search" if knob.sampled else "rule") for knob in knobs]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:], ""])
