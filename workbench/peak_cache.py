"""Keeps the measured limits of this machine's devices in the user's cache directory: one file a device; a file that cannot be used is none."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from workbench.records.decode import DecodeError
from workbench.records.peaks import Peaks

_KEY = re.compile(r"[0-9a-f]{8,64}")
_LARGEST_BYTES = 10**6


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """``$XDG_CACHE_HOME/tvm-workbench``, or ``~/.cache/tvm-workbench``."""
    base = environment.get("XDG_CACHE_HOME", "")
    home = Path(base) if base and Path(base).is_absolute() else Path(environment.get("HOME") or "~").expanduser() / ".cache"
    return home / "tvm-workbench"


def cached_peaks(key: str, *, folder: Path | None = None) -> Peaks | None:
    """The limits that were kept under a key; None if there are none that can be read."""
    path = _path(key, folder)
    if path is None:
        return None
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return None
        peaks = Peaks.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError, DecodeError):
        return None
    return peaks if peaks.key == key and peaks.known else None


def keep_peaks(peaks: Peaks, *, folder: Path | None = None) -> None:
    """Keep limits under their key, whole or not at all; a cache that cannot be written keeps nothing."""
    path = _path(peaks.key, folder)
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".peaks-", delete=False, encoding="utf-8") as file:
            try:
                json.dump(peaks.to_dict(), file, allow_nan=False)
                file.close()
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise


def _path(key: str, folder: Path | None) -> Path | None:
    return (folder or cache_folder()) / f"peaks-{key}.json" if _KEY.fullmatch(key) else None
