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
_LOST = (
    "cuda_error_no_device",
    "cuda_error_device_unavailable",
    "cuda_error_ecc_uncorrectable",
    "cuda_error_system_not_ready",
    "no cuda-capable device",
    "devices are busy or unavailable",
    "uncorrectable ecc error",
    "system not yet initialized",
    "gpu is lost",
)
"""How the driver and the runtime name what no kernel can do: names of errors, and texts of ``cudaGetErrorString``.

A launch failure and an assertion are no such thing: they are the kernel's, whose process is replaced.
"""


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
