"""What went wrong with a candidate, where it looks alike on every engine: a lost device, no place for libraries, inputs that were written to."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from workbench.engines.search_protocol import Failed
from workbench.errors import EnvironmentFault
from workbench.escaping import plain
from workbench.records.trial import DEVICE_LOST, RUN_ERROR, WRONG_RESULT

_LEAST_FREE_BYTES = 2**20  # a library has some tens of kilobytes
_LOST = ("cuda_error_device", "no cuda-capable device", "device-side assert", "cuda_error_ecc", "gpu is lost", "unspecified launch failure")


def run_failure(text: str) -> str:
    """The status of a trial whose run ended with an error: of the kernel, or of a device that is lost."""
    lowered = text.lower()
    return DEVICE_LOST if any(sign in lowered for sign in _LOST) else RUN_ERROR


def overwritten_inputs(places: Sequence[int], seconds: float) -> Failed:
    """A kernel that wrote to what it should only read: its arguments at some places."""
    return Failed(WRONG_RESULT, f"The kernel writes to what it should only read: argument {', '.join(map(str, places))}.", seconds)


def check_scratch(folder: Path) -> None:
    """Raise EnvironmentFault if a candidate failed because there is no place for its library: that is not the schedule's fault."""
    try:
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        raise EnvironmentFault(f"The folder of built candidates has gone: {plain(str(folder), 120)}.", "Go on with --resume.") from error
    if free_bytes < _LEAST_FREE_BYTES:
        raise EnvironmentFault(f"The disk is full: {plain(str(folder), 120)}.", "Free some space, then go on with --resume.")
