"""Two texts and two schedules beside each other, as data."""

from __future__ import annotations

import random
from typing import Any

import pytest

from workbench.analysis.text_diff import aligned, differing_knobs, hunks, lines_of
from workbench.records.knob import Knob
from workbench.records.view_diff import ADDED, CHANGED, REMOVED, SAME, KnobDifference

LEFT = "a\nb\nc\nd\ne\nf\ng\nh\n"


def knob(name: str, value: str) -> Knob:
    return Knob(name, "tile", "conv", "i", value, sampled=True, instruction=0)


def rebuilt(left: str, right: str) -> tuple[list[str], list[str]]:
    """Both texts again, from the lines side by side."""
    lines = aligned(left, right)
    return [line.left for line in lines if line.left_line is not None], [line.right for line in lines if line.right_line is not None]


def test_equal_texts_have_no_hunks() -> None:
    assert hunks(LEFT, LEFT) == ()
    assert hunks("", "") == ()
    assert {line.kind for line in aligned(LEFT, LEFT)} == {SAME}


def test_a_changed_line_stands_beside_the_new_one_with_three_equal_ones_around() -> None:
    (hunk,) = hunks(LEFT, LEFT.replace("e", "E"))
    assert [(line.kind, line.left, line.right) for line in hunk.lines] == [
        (SAME, "b", "b"),
        (SAME, "c", "c"),
        (SAME, "d", "d"),
        (CHANGED, "e", "E"),
        (SAME, "f", "f"),
        (SAME, "g", "g"),
        (SAME, "h", "h"),
    ]
    assert (hunk.left_first, hunk.left_count, hunk.right_first, hunk.right_count) == (2, 7, 2, 7)
    assert [(line.left_line, line.right_line) for line in hunk.lines if line.kind == CHANGED] == [(5, 5)]


def test_lines_of_one_side_alone_are_removed_or_added() -> None:
    (hunk,) = hunks("a\nb\n", "a\n")
    assert [(line.kind, line.left, line.right_line) for line in hunk.lines] == [(SAME, "a", 1), (REMOVED, "b", None)]
    (hunk,) = hunks("", "x\n")
    assert [(line.kind, line.left_line, line.right) for line in hunk.lines] == [(ADDED, None, "x")]


def test_distant_differences_are_hunks_of_their_own() -> None:
    left = "\n".join(map(str, range(100)))
    right = left.replace("\n10\n", "\nten\n").replace("\n90\n", "\nninety\n")
    first, second = hunks(left, right)
    assert first.left_first + first.left_count < second.left_first


@pytest.mark.parametrize("seed", range(20))
def test_whatever_differs_both_texts_can_be_read_off_the_aligned_lines(seed: int) -> None:
    generator = random.Random(seed)
    left, right = ("\n".join(generator.choices("abc", k=generator.randint(0, 12))) for _ in range(2))
    assert rebuilt(left, right) == (lines_of(left), lines_of(right))


def test_a_line_ends_with_a_line_feed_alone() -> None:
    assert lines_of("a\x0bb\x0cc\u2028d\r\ne") == ["a\x0bb\x0cc\u2028d\r", "e"]


def test_long_generated_texts_are_compared_too() -> None:
    left = "\n".join(f"  %{number} = fadd float %a, %b" if number % 3 else "}" for number in range(20000))
    (hunk,) = hunks(left, left.replace("%9998 =", "%changed ="))
    assert [line.left for line in hunk.lines if line.kind != SAME] == ["  %9998 = fadd float %a, %b"]


def test_decisions_differ_by_name_and_those_of_one_side_alone_are_said() -> None:
    left = [knob("tile i", "1 x 4"), knob("tile j", "2 x 2"), knob("only left", "1")]
    right = [knob("tile i", "4 x 1"), knob("tile j", "2 x 2"), knob("only right", "2")]
    expected: list[Any] = [("tile i", "1 x 4", "4 x 1"), ("only left", "1", None), ("only right", None, "2")]
    assert differing_knobs(left, right) == tuple(KnobDifference(*item) for item in expected)
