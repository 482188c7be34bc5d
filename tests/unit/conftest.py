"""Sessions without TVM: profiles made of plain records and written through the store, and media that are full or cannot be written."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from workbench.links import build_profile
from workbench.records.origin import Origin
from workbench.records.profile import CallTime, Kernel, KernelCall, Measurement, Profile, TensorShape
from workbench.records.request import ModelSource, ProfileRequest
from workbench.session import SessionDirectory

SOURCE = ModelSource(kind="workload", name="net", workload="matmul", args=(64, 64, 64))
REQUEST = ProfileRequest(source=SOURCE, target="cpu", threads=2)


def make_profile(names: list[str], **changes: Any) -> Profile:
    """A profile with a row per name, the first one the hottest, and a `runtime` row."""
    tensor = TensorShape((1, 64, 56, 56), "float32")
    values: dict[str, Any] = {
        "model": "net",
        "engine": "relax",
        "target": "cpu",
        "kernels": [Kernel(name, f"hash of {name}", (name, "relu"), (tensor,), (tensor,), 1_000_000, 1000) for name in dict.fromkeys(names)],
        "calls": [KernelCall(name, (Origin("Conv", f"/c{index}"), Origin("Relu", "/r", "line 3"))) for index, name in enumerate(names)],
        "measurement": Measurement(
            calls=tuple(CallTime(100.0 / (index + 1), 0.5, 10, 0, 0) for index in range(len(names))),
            runtime=CallTime(2.5, 0.1, 10),
            builtins=(("vm.builtin.reshape", 2),),
            total=CallTime(1000.0, 1.25, 10),
            hook_us=0.1,
            threads=2,
        ),
        "builtin_origins": [],
        "notes": ["random weights"],
    }
    return build_profile(**(values | changes))


def hashes_of(profile: Profile) -> dict[str, str]:
    return {row.kernel: f"hash of {row.kernel}" for row in profile.rows if row.kernel is not None}


@dataclass(frozen=True)
class Sessions:
    """Makes profiles, and sessions that hold them."""

    request: ProfileRequest

    def profile(self, names: list[str], **changes: Any) -> Profile:
        return make_profile(names, **changes)

    def write(self, path: Path, profile: Profile, request: ProfileRequest = REQUEST) -> SessionDirectory:
        directory = SessionDirectory.create(path)
        with directory.store() as store:
            store.write_profile(profile, hashes_of(profile), {"state": "ready", "profile_id": "1", "request": request.to_dict()})
        return directory

    def hashes(self, profile: Profile) -> dict[str, str]:
        return hashes_of(profile)


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(REQUEST)


@pytest.fixture
def session(tmp_path: Path, sessions: Sessions) -> SessionDirectory:
    """A session with four rows on three tasks."""
    return sessions.write(tmp_path / "session", make_profile(["conv2d", "dense", "conv2d", "softmax"]))


@dataclass(frozen=True)
class Medium:
    """A file system of its own."""

    path: Path

    def make_read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(self.path)], check=True, capture_output=True)  # noqa: S607

    def fill(self) -> None:
        with (self.path / "ballast").open("wb", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue


@pytest.fixture
def small_medium(tmp_path: Path) -> Iterator[Medium]:
    """One megabyte that can be filled or made read-only; only root may mount it."""
    path = tmp_path / "medium"
    path.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount program here")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)], capture_output=True, text=True, check=False)  # noqa: S607
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    yield Medium(path)
    subprocess.run(["umount", "--lazy", str(path)], check=True, capture_output=True)  # noqa: S607
