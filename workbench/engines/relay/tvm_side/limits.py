"""Bounds what a process of the old Python may take; loads no TVM."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path
from typing import Any

from .held import Held
from .wire import Blob


def bound(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Let allocations fail beyond ``memory_bytes``, and be the kernel's first victim when memory runs out."""
    del held, blobs, progress
    limit = arguments["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


CALLS = {"bound": bound}
