"""How much of an error's text is kept: all of it, unless it is so long that its middle has to go."""

from __future__ import annotations

import traceback

_LONGEST = 20_000
_LONGEST_NOTE = 60
_STACK_FRAME = "[bt]"  # XGBoost writes those below its message


def shortened(text: str) -> str:
    """The text; of a very long one its beginning and its end, where an error says what it is."""
    if len(text) <= _LONGEST:
        return text
    half = (_LONGEST - _LONGEST_NOTE) // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def full_text(error: BaseException) -> str:
    """An error with its traceback, `shortened`."""
    return shortened("".join(traceback.format_exception(error)))


def last_line(text: str) -> str:
    """The last line of an error's text that says something: what happened, below where and how; empty if none does."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(_STACK_FRAME)]
    return lines[-1] if lines else ""
