"""How the relay engine's Python is named, and what is asked of it; run with this Python, which has no Relay."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import workbench
from workbench import old_python
from workbench.errors import EnvironmentFault, InputError
from workbench.old_python import VARIABLE, ask_versions, find_old_python, need_old_python

ROOT = Path(__file__).parents[2]
MODEL = "fn (%x: Tensor[(1, 4), float32]) { nn.relu(%x) }"


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_it_is_a_path_a_program_or_what_the_variable_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_old_python() == ""
    assert find_old_python(sys.executable) == sys.executable
    assert find_old_python("env") == str(Path("/usr/bin/env"))
    monkeypatch.setenv(VARIABLE, sys.executable)
    assert find_old_python() == sys.executable


def test_it_is_the_program_of_a_kernelspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "kernels" / "old-tvm"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(f'{{"argv": ["{sys.executable}", "-m", "ipykernel"], "display_name": "x", "language": "python"}}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    assert find_old_python("old-tvm") == sys.executable


def test_a_name_is_never_that_of_a_file_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("env", "planted"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert find_old_python("env") == str(Path("/usr/bin/env"))
    with pytest.raises(InputError, match="no program"):
        find_old_python("planted")
    assert find_old_python("./planted") == str(tmp_path / "planted")


@pytest.mark.parametrize("given", ["/no/such/python", "/usr/bin/", "no-such-kernelspec"])
def test_what_is_none_is_refused(given: str) -> None:
    with pytest.raises(InputError):
        find_old_python(given)


def test_a_session_of_the_relay_engine_can_be_looked_at_without_one_and_says_what_it_needs(tmp_path: Path) -> None:
    model = tmp_path / "model.relay.txt"
    model.write_text(MODEL)
    with workbench.open(model, target="cpu", session=tmp_path / "session", engine="relay") as session:
        assert session.request.engine == "relay"
        assert session.stored_profile() is None
        with pytest.raises(EnvironmentFault, match="old TVM") as fault:
            session.profile()
        assert VARIABLE in fault.value.remedy
    with pytest.raises(InputError, match="engine relax"):
        workbench.open(model, target="cpu", session=tmp_path / "other", python=sys.executable)
    with pytest.raises(InputError, match="no engine"):
        workbench.open(model, target="cpu", session=tmp_path / "other", engine="nnvm")
    with pytest.raises(EnvironmentFault):
        need_old_python("")


def test_a_python_without_relay_says_so() -> None:
    found = ask_versions(sys.executable)
    assert found.versions == {}
    assert "Relay" in found.failure
    assert "environment-relay.yml" in found.remedy


def test_one_whose_tvm_lacks_a_package_says_which_and_how_to_install_it(tmp_path: Path) -> None:
    """A program that is this Python, for which a package of TVM's is missing."""
    stubs = tmp_path / "stubs"
    (stubs / "tvm").mkdir(parents=True)
    (stubs / "tvm" / "__init__.py").write_text("import attr_that_is_missing\n")
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={stubs} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    found = ask_versions(str(program))
    assert found.versions == {}
    assert "lacks the package attr_that_is_missing" in found.failure
    assert found.remedy == "Install it there: pip install attr_that_is_missing"


def test_the_conda_environment_bounds_what_the_lock_pins() -> None:
    pins = dict(line.lower().split("==") for line in (ROOT / "requirements-relay.lock").read_text().splitlines() if "==" in line)
    bounds = re.findall(r"^  - (\w+)<([\d.]+)$", (ROOT / "environment-relay.yml").read_text(), re.MULTILINE)
    assert {name for name, _ in bounds} == {"numpy", "xgboost", "onnx"}
    for name, bound in bounds:
        assert [int(part) for part in pins[name].split(".")] < [int(part) for part in bound.split(".")]


def test_what_is_asked_lies_in_the_package() -> None:
    assert (old_python._TVM_SIDE / "tvm_side" / "about.py").is_file()  # noqa: SLF001 - a front must not import the engine to say where it lies
