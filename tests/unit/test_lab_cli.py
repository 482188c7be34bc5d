"""``workbench lab`` and ``workbench dashboard``: what they start, and the notebook that they start it on."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.cli.main import main
from workbench.cli.starter import starter

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What the command line becomes; everything that it needs is there."""
    ran: list[list[str]] = []

    def execv(program: str, arguments: list[str]) -> None:
        assert program == sys.executable
        ran.append(arguments[1:])
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("JUPYTER_PATH", "/elsewhere")
    monkeypatch.setenv("JUPYTER_TOKEN", "")
    monkeypatch.chdir(tmp_path)
    return ran


def run(*arguments: str) -> int:
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_the_notebook_of_the_checkout_is_the_one_that_is_written_elsewhere() -> None:
    assert (REPOSITORY / "notebooks" / "workbench.ipynb").read_text(encoding="utf-8") == starter()


def test_lab_opens_the_notebook_on_this_machine_alone_and_asks_nothing_of_the_outside(become: list[list[str]]) -> None:
    assert run("lab", "--no-browser", "--port", "9000") == 0
    ((module_flag, module, notebook, *options),) = become
    assert (module_flag, module) == ("-m", "jupyterlab")
    assert Path(notebook).read_text(encoding="utf-8") == starter()
    assert {"--ServerApp.ip=127.0.0.1", "--ServerApp.port=9000", "--no-browser", "--LabApp.news_url=None"} <= set(options)
    assert not any("token" in option for option in options), "Jupyter makes one of its own"


@pytest.mark.parametrize("user", [0, 1000])
def test_root_is_allowed_and_told_so(user: int, become: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert run("lab", "--no-browser") == 0
    assert ("--allow-root" in become[-1]) == (user == 0)
    assert ("--allow-root" in capsys.readouterr().err) == (user == 0)


def test_the_help_promises_the_next_free_port_only_where_it_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    for command, promised in (("lab", True), ("dashboard", False)):
        assert run(command, "--help") == 0
        assert ("next free one" in " ".join(capsys.readouterr().out.split())) is promised


def test_a_notebook_that_is_there_is_not_overwritten(become: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "workbench.ipynb").write_text("mine", encoding="utf-8")
    assert run("lab") == 0
    assert (tmp_path / "workbench.ipynb").read_text(encoding="utf-8") == "mine"
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "workbench.ipynb").write_text(starter(), encoding="utf-8")
    assert run("lab") == 0
    assert become[-1][2] == "notebooks/workbench.ipynb"


def test_the_dashboard_has_a_token_ends_what_nobody_looks_at_and_brings_its_own_template(
    become: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = set()
    for _ in range(2):
        assert run("dashboard", "--no-browser") == 0
        token = os.environ["JUPYTER_TOKEN"]
        assert f"127.0.0.1:8866/?token={token}" in capsys.readouterr().err
        assert not any(token in option for option in become[-1]), "others on this machine can read command lines"
        tokens.add(token)
    assert len(tokens) == 2
    assert all(len(token) > 40 for token in tokens)
    assert "--Voila.auto_token=True" in become[0]
    options = become[0]
    assert {"--Voila.ip=127.0.0.1", "--template=workbench"} <= set(options)
    assert any(option.startswith("--MappingKernelManager.cull_idle_timeout=") for option in options)
    first, *rest = os.environ["JUPYTER_PATH"].split(os.pathsep)
    assert (Path(first) / "voila" / "templates" / "workbench" / "conf.json").is_file()
    assert rest[-1] == "/elsewhere"


@pytest.mark.parametrize("command", ["lab", "dashboard"])
def test_without_jupyter_the_remedy_is_named(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(command) == 3
    assert "pip install" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("lab", "missing.ipynb"), ("lab", "--port", "0"), ("dashboard", "--port", "65536")])
def test_a_wrong_notebook_or_port_is_bad_input(arguments: tuple[str, ...], become: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert capsys.readouterr().err.startswith("workbench: ")


def test_the_template_names_no_address_of_the_outside() -> None:
    folder = Path(importlib.util.find_spec("workbench").origin or "").parent / "notebook" / "voila"  # type: ignore[union-attr]
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()]
    assert texts
    assert all(address not in text for text in texts for address in ("http://", "https://", "//cdn"))
    json.loads((folder / "voila" / "templates" / "workbench" / "conf.json").read_text(encoding="utf-8"))
