"""Strangers' text: what is shown of it, and what becomes of it as a file name."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from workbench import escaping
from workbench.escaping import file_stem, plain

HOSTILE = {
    "markup": "<script>alert(1)</script>",
    "quotes": "a\"b'c`d&e",
    "lines": "first\nsecond\r\n\tthird\x0b\x0c\x85\u2028\u2029end",
    "terminal": "\x1b[31mred\x1b[0m\x1b]8;;http://x\x07link\x9b1m",
    "override": "safe\u202egnp.exe\u2066x\u2069",
    "invisible": "a\u200bb\u200d\ufeffc\u00add\u3164e\u2800f\ufe0f",
    "surrogate": "a\ud800b",
    "long": "x" * 10_000,
    "wide and long": "畳" * 10_000,
    "piled marks": "e" + "\u0301" * 10_000,
    "path": "../../etc/passwd",
    "option": "--rm -rf /",
    "empty": "",
    "non-ASCII": "Größe свёртка 畳み込み",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("limit", [1, 2, 7, 60])
def test_hostile_text_is_one_printable_line_within_its_columns(text: str, limit: int) -> None:
    shown = plain(text, limit)

    assert cell_len(shown) <= limit
    assert shown.isprintable()
    assert not re.search("[\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", shown)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_stays_ascii_where_the_terminal_has_nothing_else(text: str) -> None:
    shown = plain(text, 20, ascii_only=True)

    assert shown.isascii()
    assert len(shown) <= 20


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("limit", [5, 60])
def test_showing_shown_text_changes_nothing(text: str, limit: int) -> None:
    assert plain(plain(text, limit), limit) == plain(text, limit)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("fused_conv2d_add", "fused_conv2d_add"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("a\u00a0b", "a\\xa0b"),
        ("a\ud800b", "a\\ud800b"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("C:\\new", "C:\\new"),
        ("Größe свёртка 畳み込み שלום", "Größe свёртка 畳み込み שלום"),
        ("हिन्दी", "हिन्दी"),
        ("cafe\u0301", "cafe\u0301"),
        ("a\u0301\u0301\u0301", "a\u0301\u0301\\u0301"),
        ("\u0301a", "\\u0301a"),
    ],
)
def test_letters_are_kept_and_everything_unseen_is_escaped(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghij", 9, "abcd…ghij"),
        ("abcdefghij", 8, "abcd…hij"),
        ("abcdefghij", 1, "…"),
        ("畳畳畳畳", 8, "畳畳畳畳"),
        ("畳畳畳畳", 7, "畳…畳"),
        ("\n\n\n\n", 8, "\\n\\n\\n\\n"),
        ("\n\n\n\n", 7, "\\n…\\n"),
        ("aaaa\x1bbbbb", 8, "aaaa…bbb"),
        ("xxxxxxxxxxe\u0301", 4, "xx…e\u0301"),
        ("xxxxxxxxxxae\u0301", 3, "x…e\u0301"),
    ],
)
def test_long_text_loses_its_middle_without_cutting_an_escape_or_a_wide_letter(text: str, limit: int, shown: str) -> None:
    assert plain(text, limit) == shown


def test_ascii_shortening_uses_three_dots() -> None:
    assert plain("abcdefghij", 9, ascii_only=True) == "abc...hij"
    assert plain("Größe", ascii_only=True) == "Gr\\xf6\\xdfe"


def test_only_both_ends_of_an_endless_name_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    piece = escaping._piece  # noqa: SLF001 - what is counted is how often it runs

    def watched(text: str, index: int, *, ascii_only: bool) -> str:
        looked_at.append(index)
        return piece(text, index, ascii_only=ascii_only)

    monkeypatch.setattr(escaping, "_piece", watched)

    plain("ж" * 1_000_000, 60)

    assert len(looked_at) < 200


def test_a_limit_below_one_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        plain("a", 0)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_cannot_leave_its_place_in_a_page(text: str) -> None:
    assert not set(escaping.html(text)) & set("<>\"'\n\x1b\u202e")


def test_html_escapes_after_shortening_so_that_no_entity_is_cut() -> None:
    assert escaping.html("<" * 100, 5) == "&lt;&lt;…&lt;&lt;"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_any_text_makes_a_safe_file_stem(text: str) -> None:
    stem = file_stem(text, 40)

    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,39}", stem)
    assert ".." not in stem


@pytest.mark.parametrize(
    ("text", "stem"),
    [
        ("squeezenet1.1", "squeezenet1.1"),
        ("llvm -mcpu=x -num-cores 2", "llvm_-mcpu_x_-num-cores_2"),
        (".hidden", "hidden"),
        ("--option", "option"),
        ("", "unnamed"),
        ("..", "unnamed"),
        ("///", "unnamed"),
        ("café", "cafe"),
    ],
)
def test_file_stems_are_readable(text: str, stem: str) -> None:
    assert file_stem(text) == stem


def test_names_without_ascii_letters_do_not_fall_together() -> None:
    assert file_stem("модель") != file_stem("данные")
    assert file_stem("модель") == file_stem("модель")
