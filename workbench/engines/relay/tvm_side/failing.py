"""Errors that the user can act on, as they leave the old Python."""

from __future__ import annotations

INPUT, MODEL, TARGET, SESSION, ENVIRONMENT = "InputError", "ModelError", "TargetError", "SessionError", "EnvironmentFault"


class Refusal(Exception):  # noqa: N818 - says what it is
    """What the user gave, or this Python, cannot be used.

    Args:
        kind: Name of the class in `workbench.errors` that the worker raises.
        message: One sentence that says what happened.
        remedy: One sentence that says what the user can do about it.
    """

    def __init__(self, kind: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.remedy = remedy
