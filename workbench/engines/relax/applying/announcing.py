"""Says on standard error which kernel runs next, so that a process that crashes or hangs leaves the kernel's name behind."""

from __future__ import annotations

import os

from workbench.escaping import plain

ANNOUNCED = "running kernel "
"""What stands before the name."""


def announce(symbol: str) -> bool:
    """Say that a kernel runs next; returns False, which lets the instrument of a VM run it."""
    os.write(2, f"{ANNOUNCED}{plain(symbol, 120)}\n".encode())
    return False
