"""Errors that the user can act on, as they leave the old Python."""

from __future__ import annotations

import sys

INPUT, MODEL, TARGET, SESSION, ENVIRONMENT = "InputError", "ModelError", "TargetError", "SessionError", "EnvironmentFault"

_OWN = ("tvm", "tvm_side")
_DISTRIBUTIONS = {"attr": "attrs", "google": "protobuf", "xgboost": "'xgboost<2'", "onnx": "'onnx<1.15'", "numpy": "'numpy<1.24'"}
"""What pip installs, where that is not the name of the package or not its newest version."""


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


def missing_package(error: BaseException | None) -> Refusal | None:
    """What to tell where an import failed for want of a package that TVM takes for granted; None if that is not what happened."""
    while error is not None:
        package = error.name.partition(".")[0] if isinstance(error, ModuleNotFoundError) and error.name else ""
        if package and package not in _OWN:
            told = f"The old Python {sys.executable} lacks the package {package}, which its TVM needs."
            return Refusal(ENVIRONMENT, told, f"Install it there: pip install {_DISTRIBUTIONS.get(package, package)}")
        error = error.__cause__
    return None
