"""File systems of their own, which a test can fill or make read-only."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Medium:
    """A file system of its own."""

    path: Path

    def make_read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(self.path)], check=True, capture_output=True)  # noqa: S607

    def fill(self, name: str = "ballast") -> Path:
        """Write until nothing more fits; returns the file that takes the space."""
        with (self.path / name).open("wb", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue
        return self.path / name


@contextlib.contextmanager
def mounted(path: Path, *, megabytes: int) -> Iterator[Medium]:
    """A medium of some megabytes at a path; only root may mount one, and other users' tests are skipped."""
    path.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount program here")
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    yield Medium(path)
    subprocess.run(["umount", "--lazy", str(path)], check=True, capture_output=True)  # noqa: S607
