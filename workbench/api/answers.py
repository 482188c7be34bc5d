"""What a worker answered, as records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from workbench.errors import SessionError
from workbench.escaping import plain
from workbench.records.decode import DecodeError

Decoded = TypeVar("Decoded")


def decoded(read: Callable[[dict[str, Any]], Decoded], answer: dict[str, Any], session: Path) -> Decoded:
    """A record from the worker of a session.

    Raises:
        SessionError: It is damaged.
    """
    try:
        return read(answer)
    except DecodeError as error:
        raise SessionError(f"The session in {plain(str(session), 120)} is damaged: {plain(str(error), 200)}.", "Try again.") from error
