"""The doctor: faults are real here (children that are killed, hang or print rubbish), and its lines are safe to print."""

from __future__ import annotations

import importlib.metadata
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from workbench import doctor
from workbench.cli import doctor as cli
from workbench.cli.main import main
from workbench.doctor import AbiResult, Check, DoctorReport, examine, run_abi_check
from workbench.errors import EnvironmentFault
from workbench.machine import read_machine
from workbench.old_python import VARIABLE, OldPython

FACTS = {"llvm": 22, "mcpu": "znver5", "kinds": ["cuda", "llvm"], "tag_count": 285, "pool_threads": 1, "cuda_arch": None, "xgboost_error": ""}
WORKING = (sys.executable, "-c", f"print({json.dumps(FACTS)!r})")
DYING = (sys.executable, "-c", "import os, signal, sys; print('stage tuning', file=sys.stderr, flush=True); os.kill(os.getpid(), signal.{})")
HANGING = (sys.executable, "-c", f"import time; print({json.dumps(FACTS)!r}, flush=True); time.sleep(60)")


def child(code: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", code)


def named(report: DoctorReport, name: str) -> Check:
    return next(check for check in report.checks if check.name == name)


def test_a_working_child_gives_its_facts_and_no_failure() -> None:
    assert run_abi_check(WORKING) == AbiResult(FACTS)


@pytest.mark.parametrize(
    ("signal_name", "remedy"),
    [("SIGSEGV", "apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post1"), ("SIGKILL", "memory"), ("SIGILL", "instruction")],
)
def test_a_child_that_dies_is_named_with_its_signal_its_stage_and_the_remedy(signal_name: str, remedy: str) -> None:
    result = run_abi_check(child(DYING[2].format(signal_name)))
    assert result.failure == f"died with {signal_name} while tuning"
    assert remedy in result.remedy


def test_the_facts_printed_before_a_crash_are_kept() -> None:
    code = f"import os, signal; print({json.dumps(FACTS)!r}, flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
    assert run_abi_check(child(code)).facts == FACTS


def test_a_child_that_hangs_is_given_up() -> None:
    result = run_abi_check(HANGING, timeout_s=1.0)
    assert result.failure == "no answer within 1 s"
    assert result.facts == FACTS


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise ImportError('libtvm.so is missing')", "ImportError: libtvm.so is missing"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import no_such_module_of_tvm", "No module named"),
        ("print('rubbish'); print('[1, 2]')", "no answer that can be read"),
        ("", "no answer that can be read"),
    ],
    ids=["exception", "silent failure", "missing module", "rubbish", "nothing"],
)
def test_a_child_that_fails_is_told_in_its_own_words_with_a_remedy(code: str, says: str) -> None:
    result = run_abi_check(child(code))
    assert says in result.failure
    assert doctor.PIN in result.remedy


def test_a_crash_of_tvm_is_a_fault_of_the_report(tmp_path: Path) -> None:
    report = examine(sessions=tmp_path, abi_command=child(DYING[2].format("SIGSEGV")), environment={})
    assert named(report, "self-check").status == "fault"
    assert not report.healthy


def test_the_report_survives_json_and_every_complaint_has_a_remedy(tmp_path: Path) -> None:
    report = examine(sessions=tmp_path, abi_command=WORKING, environment={})
    values = json.loads(json.dumps(report.to_dict()))
    assert [check["name"] for check in values["checks"]] == [check.name for check in report.checks]
    assert all(check.remedy for check in report.checks if check.status != "ok")


@pytest.mark.parametrize(
    ("environment", "name", "status", "says"),
    [
        ({}, "rpc tracker", "ok", "not used"),
        ({"TVM_TRACKER_HOST": "box", "TVM_TRACKER_PORT": "9190"}, "rpc tracker", "ok", "box:9190"),
        ({"TVM_TRACKER_HOST": "box"}, "rpc tracker", "warning", "TVM_TRACKER_PORT="),
        ({"TVM_TRACKER_HOST": "box", "TVM_TRACKER_PORT": "70000"}, "rpc tracker", "warning", "70000"),
        ({}, "threads", "ok", "not set"),
        ({"TVM_NUM_THREADS": "997"}, "threads", "warning", "997"),
        ({"TVM_NUM_THREADS": "many"}, "threads", "warning", "many"),
    ],
)
def test_the_environment_is_judged(tmp_path: Path, environment: dict[str, str], name: str, status: str, says: str) -> None:
    check = named(examine(sessions=tmp_path, abi_command=WORKING, environment=environment), name)
    assert check.status == status
    assert says in check.value


def no_package(name: str) -> str:
    raise importlib.metadata.PackageNotFoundError(name)


def test_a_missing_xgboost_is_a_warning_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", no_package)
    report = examine(sessions=tmp_path, abi_command=WORKING, environment={})
    assert named(report, "xgboost").status == "warning"
    assert named(report, "tvm").status == "fault"


def test_an_xgboost_that_does_not_load_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _package: "3.2.0")
    facts = json.dumps({**FACTS, "xgboost_error": "OSError: libgomp.so.1"})
    report = examine(sessions=tmp_path, abi_command=child(f"print({facts!r})"), environment={})
    assert "libgomp.so.1" in named(report, "xgboost").value
    assert named(report, "tvm-ffi").status == "warning"


def test_a_machine_without_cuda_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check = named(examine(sessions=tmp_path, abi_command=WORKING, environment={}), "cuda devices")
    assert check.status == "ok"
    assert "CUDA sources can still be read" in check.value


def test_a_machine_without_a_compiler_is_at_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CXX", "CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert named(examine(sessions=tmp_path, abi_command=WORKING, environment={}), "c compiler").status == "fault"


COMPLETE = {"python": "3.10.15", "tvm": "0.16.dev0", "numpy": "1.23.5", "llvm": "17", "xgboost": "1.7.6", "pytest": "9.2.0"}


def without(name: str) -> dict[str, str]:
    return {item: version for item, version in COMPLETE.items() if item != name}


@pytest.mark.parametrize(
    ("answer", "status", "says", "remedy"),
    [
        (OldPython(COMPLETE), "ok", "tvm 0.16.dev0", ""),
        (OldPython({**COMPLETE, "xgboost": "2.1.4"}), "warning", "xgboost 2.1.4 is too new: searches have no cost model", "xgboost<2"),
        (OldPython({**COMPLETE, "xgboost": "!OSError: libgomp.so.1"}), "warning", "xgboost does not load (OSError: libgomp.so.1)", "xgboost<2"),
        (OldPython({**COMPLETE, "xgboost": "?"}), "ok", "xgboost ?", ""),
        (OldPython(without("xgboost")), "warning", "no xgboost", "xgboost<2"),
        (OldPython(without("pytest")), "warning", "no pytest, which parts of old TVM import", "pip install pytest"),
        (OldPython({**COMPLETE, "onnx": "!TypeError: protobuf"}), "warning", "onnx does not load (TypeError: protobuf)", "again"),
        (OldPython(failure="has no TVM with Relay", remedy="Install TVM 0.8 to 0.18 there."), "fault", "has no TVM with Relay", "TVM 0.8 to 0.18"),
    ],
    ids=["complete", "xgboost too new", "xgboost broken", "xgboost without a number", "no xgboost", "no pytest", "onnx broken", "no TVM"],
)
def test_the_old_python_is_judged(answer: OldPython, status: str, says: str, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ask_versions", lambda python: answer)
    check = named(examine(abi_command=WORKING, environment={}, python=sys.executable), "old python")
    assert check.status == status
    assert says in check.value
    assert remedy in check.remedy


def test_an_old_python_that_is_none_is_at_fault_and_without_any_it_is_said(tmp_path: Path) -> None:
    report = examine(sessions=tmp_path, abi_command=WORKING, environment={VARIABLE: "/no/such/python"})
    assert named(report, "old python").status == "fault"
    assert named(examine(sessions=tmp_path, abi_command=WORKING, environment={}), "old python").value == f"not used ({VARIABLE} is not set)"


def test_little_disk_space_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOW_DISK_BYTES", 2**62)
    assert named(examine(sessions=tmp_path, abi_command=WORKING, environment={}), "disk").status == "warning"


def report_of(*checks: Check) -> DoctorReport:
    return DoctorReport(checks, read_machine())


def printed(report: DoctorReport, *, quiet: bool = False) -> str:
    stream = io.StringIO()
    cli.print_report(report, Console(file=stream, markup=False, highlight=False, width=80), quiet=quiet)
    return stream.getvalue()


def test_markup_and_control_characters_of_the_environment_are_printed_as_plain_text() -> None:
    text = printed(report_of(Check("rpc tracker", "ok", "[red]host[/red]\x1b[2J:9190\nfault tvm")))
    assert "[red]host[/red]?[2J:9190?fault tvm" in text


def test_a_long_value_stays_on_its_line() -> None:
    assert "x" * 300 in printed(report_of(Check("cpu", "ok", "x" * 300)))


def test_quiet_prints_only_what_is_wrong() -> None:
    text = printed(report_of(Check("cpu", "ok", "fine"), Check("disk", "warning", "low", "Free some space.")), quiet=True)
    assert "fine" not in text
    assert "Free some space." in text


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("warning", 0), ("fault", 1)])
def test_the_exit_code_says_whether_there_is_a_fault(
    status: doctor.Status, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_of(Check("disk", status, "value", "remedy"))
    monkeypatch.setattr(doctor, "examine", lambda **_: report)
    assert cli.run_doctor(json_to="-", quiet=False) == code
    assert json.loads(capsys.readouterr().out) == report.to_dict()


def test_json_goes_to_a_file_and_the_lines_to_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(Check("disk", "ok", "plenty"))
    monkeypatch.setattr(doctor, "examine", lambda **_: report)
    cli.run_doctor(json_to=str(tmp_path / "report.json"), quiet=False)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == report.to_dict()
    assert "plenty" in capsys.readouterr().out


def test_a_json_file_that_cannot_be_written_is_an_environment_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(Check("disk", "ok", "plenty"))
    monkeypatch.setattr(doctor, "examine", lambda **_: report)
    with pytest.raises(EnvironmentFault, match="cannot be written"):
        cli.run_doctor(json_to=str(tmp_path / "missing" / "report.json"), quiet=True)


def test_the_doctor_itself_loads_neither_tvm_nor_xgboost() -> None:
    code = "import sys, workbench.cli.doctor; print({'tvm', 'tvm_ffi', 'xgboost', 'numpy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_the_disk_is_the_one_of_the_session_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    def note(**options: Any) -> DoctorReport:
        asked.append(options)
        return DoctorReport((), read_machine())

    monkeypatch.setattr(doctor, "examine", note)
    assert main(["--session", str(tmp_path / "s"), "doctor", "--json", "-"]) == 0
    assert main(["doctor", "--json", "-"]) == 0
    assert asked == [{"sessions": tmp_path / "s", "python": ""}, {"python": ""}]
