"""Sessions without TVM: profiles made of plain records and written through the store, searches in them, the command line, and media that are full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.medium import Medium, mounted
from tests.unit.command_line import Answer
from tests.unit.search_fakes import Bench, Rig, look_for_commands_always
from workbench.cli.main import main
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
            store.write_profile(profile, hashes_of(profile), {"profile_id": "1", "request": request.to_dict()})
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


@pytest.fixture
def small_medium(tmp_path: Path) -> Iterator[Medium]:
    """One megabyte that can be filled or made read-only."""
    with mounted(tmp_path / "medium", megabytes=1) as medium:
        yield medium


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Runs the command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Answer:
        try:
            code = main(arguments)
        except SystemExit as exit_:  # argparse's way
            code = int(exit_.code or 0)
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture
def rig(session: SessionDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Searches without TVM in a session with three tasks; conv2d has the weight 2."""
    look_for_commands_always(monkeypatch.setattr)
    return Rig(session, Bench(), tmp_path / "scratch")
