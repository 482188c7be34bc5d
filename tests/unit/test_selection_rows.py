"""Row numbers as text: read strictly, written the way they are read."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest

from workbench.errors import SelectionError
from workbench.selection import format_rows, parse_rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("0", (0,)),
        ("0,2,5-9", (0, 2, 5, 6, 7, 8, 9)),
        ("0,2 3-5", (0, 2, 3, 4, 5)),
        (" 3 ,\t1\n", (1, 3)),
        ("5-9,7-8,0-5", (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)),
        ("4,4,4", (4,)),
        ("007", (7,)),
        ("3-3", (3,)),
    ],
)
def test_row_texts_name_rows_ascending_each_once(text: str, rows: tuple[int, ...]) -> None:
    assert parse_rows(text, 10) == rows


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty text"),
        ("  ", "empty text"),
        ("1,,2", 'missing in "1,,2"'),
        ("1,", 'missing in "1,"'),
        ("10", '"10" is out of range'),
        ("5-10", '"5-10" is out of range'),
        ("9-5", '"9-5" runs backwards'),
        ("-1", '"-1" is neither'),
        ("1-", '"1-" is neither'),
        ("1-2-3", '"1-2-3" is neither'),
        ("2 - 5", '"-" is neither'),
        ("1.5", '"1.5" is neither'),
        ("1_0", '"1_0" is neither'),
        ("+1", '"+1" is neither'),
        ("٣", '"٣" is neither'),
        ("all", '"all" is neither'),
        ("0-99999999999999999999", "is out of range"),
        ("9" * 10_000, "is out of range"),
        ("\x1b[2J", '"\\x1b[2J" is neither'),
    ],
    ids=lambda text: ascii(text[:24]),
)
def test_a_bad_row_text_names_the_piece_and_the_valid_rows(text: str, said: str) -> None:
    with pytest.raises(SelectionError) as caught:
        parse_rows(text, 10)

    assert said in caught.value.message
    assert "0 to 9" in caught.value.remedy


def test_huge_ranges_take_no_memory() -> None:
    tracemalloc.start()
    for text in ("0-999999999999", "0-9" + ",0-9" * 10_000):
        with contextlib.suppress(SelectionError):
            parse_rows(text, 10)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak_bytes < 10_000_000


def test_no_rows_means_no_choice() -> None:
    with pytest.raises(SelectionError, match="no rows"):
        parse_rows("0", 0)


def test_rows_are_written_as_they_are_read() -> None:
    assert format_rows([9, 0, 2, 5, 6, 7, 8, 2]) == "0, 2, 5-9"
    assert format_rows([]) == ""
    assert parse_rows(format_rows([0, 2, 3]), 10) == (0, 2, 3)
    assert format_rows(range(0, 1000, 2), limit=20) == "0, 2, 4, 6, 8, 10, …"
