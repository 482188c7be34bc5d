"""`workbench apply` and `workbench rerun` without TVM, the Python interface behind them, and the record that all of them show."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

import workbench
from tests.unit.command_line import Answer
from workbench.cli.apply_table import apply_table
from workbench.errors import InputError, SessionError
from workbench.kernel import WorkerProcess
from workbench.records.comparison import BASELINE, FASTER, RECORD, SLOWER, UNCHANGED, Comparison, Difference, KernelComparison, Timing, Verification
from workbench.records.decode import DecodeError
from workbench.records.peaks import Bandwidth, Peaks, Rate
from workbench.records.rerun import Rerun
from workbench.records.trial import Check
from workbench.session import SessionDirectory

PROMISED = {"baseline_us", "tuned_us", "speedup", "max_abs_err", "max_rel_err", "verified", "kernels"}
PROMISED_OF_KERNELS = {"kernel", "baseline_us", "tuned_us", "used", "why"}
HOSTILE = "\x1b[31m<b>" + "x" * 200 + "\u202e"


def kernel(name: str, used: str = RECORD, **changes: Any) -> KernelComparison:
    values: dict[str, Any] = {
        "baseline_us": 20.0,
        "baseline_us_iqr": 0.5,
        "tuned_us": 10.0,
        "tuned_us_iqr": 0.25,
        "ratio": 2.0,
        "ratio_error": 0.1,
        "verdict": FASTER if used == RECORD else UNCHANGED,
        "text": "2.00x +- 0.10 as fast",
        "kernel": name,
        "task": f"{name}-1",
        "name": name,
        "weight": 2,
        "rows": (0, 2),
        "used": used,
        "trial": 7 if used == RECORD else None,
        "why": "trial 7: it won" if used == RECORD else "never searched",
    }
    return KernelComparison(**{**values, **changes})


FAULT = Difference("output 0", "untuned", 0, "dense", 1, 2.0, 1.0, 4, 10, 1e-4, 1e-4, (1, 3), "3.0", "1.0")
RIGHT = Verification(verified=True, seeds=(0, 1, 2), max_abs_err=1e-6, max_rel_err=2e-6, kernels_checked=2, onnxruntime="not compared: not here")
WRONG = Verification(verified=False, seeds=(0,), differences=(FAULT,), faulty=("dense",), reason=f"wrong result of kernel dense: {FAULT}")
COMPARISON = Comparison(
    model="net",
    engine="relax",
    target="cpu",
    total=Timing(100.0, 1.0, 60.0, 1.0, 1.67, 0.02, FASTER, "1.67x +- 0.02 as fast: 100.0 to 60.0 us"),
    kernels=(kernel("conv2d"), kernel("dense", BASELINE)),
    verification=RIGHT,
    applied=True,
    applied_at=1.0e9,
    rounds=12,
    profile_id="1",
)
FAILED = replace(COMPARISON, total=Timing(), verification=WRONG, applied=False, notes=("Nothing was applied.",))
RERUN = Rerun(
    task="conv2d-1",
    kernel="conv2d",
    trial=7,
    status="ok",
    recorded_us=50.0,
    recorded_us_iqr=0.5,
    recorded_status="ok",
    measured_us=55.0,
    measured_us_iqr=0.5,
    distance_percent=10.0,
    distance="+10.0 %: 50.0 to 55.0 us",
    baseline_us=100.0,
    baseline_us_iqr=1.0,
    gain="1.82x as fast",
    same_conditions=True,
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the worker is asked, and under ``answer`` what it answers."""
    known: dict[str, Any] = {"answer": COMPARISON.to_dict()}

    def run(_: WorkerProcess, kind: str, arguments: dict[str, Any], **__: Any) -> Any:
        known.update(kind=kind, arguments=arguments)
        return json.loads(json.dumps(known["answer"]))

    monkeypatch.setattr(WorkerProcess, "run", run)
    return known


def shown(comparison: Comparison, width: int = 200, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(apply_table(comparison, **options))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_record_survives_json_and_its_json_keeps_what_is_promised() -> None:
    for comparison in (COMPARISON, FAILED):
        values = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
        assert Comparison.from_dict(values) == comparison
        assert set(values) >= PROMISED
        assert all(set(item) >= PROMISED_OF_KERNELS for item in values["kernels"])
    assert COMPARISON.to_dict()["speedup"] == 1.67
    assert [item["used"] for item in COMPARISON.to_dict()["kernels"]] == ["record", "baseline"]


@pytest.mark.parametrize("damage", [{"kernels": None}, {"kernels": [{}, 3]}, {"verification": []}, {"applied": "yes"}, {"total_us": 1}])
def test_a_damaged_record_is_refused(damage: dict[str, Any]) -> None:
    values = {**COMPARISON.to_dict(), **damage}
    if damage == {"total_us": 1}:
        assert Comparison.from_dict(values) == COMPARISON  # a newer workbench may say more
        return
    with pytest.raises(DecodeError):
        Comparison.from_dict(values)


def test_apply_gives_its_json_alone_and_exit_code_0(session: SessionDirectory, call: Callable[..., Answer], asked: dict[str, Any]) -> None:
    answer = call("apply", "--session", str(session.path), "--json", "-", "--inputs", "5", "--rounds", "9")
    assert answer.code == 0
    assert Comparison.from_dict(json.loads(answer.out)) == COMPARISON
    assert (asked["kind"], asked["arguments"]) == ("apply", {"inputs": 5, "rounds": 9, "anew": False})
    assert "applied: " in answer.err
    assert call("apply", "--session", str(session.path), "--anew", "-q").code == 0
    assert asked["arguments"]["anew"] is True


def test_a_failed_verification_is_exit_code_1_and_names_the_kernel(
    session: SessionDirectory, call: Callable[..., Answer], asked: dict[str, Any]
) -> None:
    asked["answer"] = FAILED.to_dict()
    answer = call("apply", "--session", str(session.path))
    assert answer.code == 1
    assert "not verified: wrong result of kernel dense" in answer.out
    assert "at [1, 3] it is 3.0 instead of 1.0" in answer.out
    assert "Nothing was applied." in answer.out
    assert "applied: " not in answer.err
    assert json.loads(call("apply", "--session", str(session.path), "--json", "-").out)["verified"] is False


@pytest.mark.parametrize("arguments", [["--inputs", "0"], ["--rounds", "x"], ["--rounds", "-1"]])
def test_apply_refuses_numbers_that_make_no_sense(call: Callable[..., Answer], arguments: list[str]) -> None:
    assert call("apply", *arguments).code == 2


def test_apply_without_a_session_says_how_to_make_one(call: Callable[..., Answer]) -> None:
    answer = call("apply")
    assert answer.code == 2
    assert "workbench profile MODEL" in answer.err


def test_the_table_shows_before_after_gain_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(COMPARISON)
    assert "trial 7" in text
    assert "2.00x ± 0.10" in text
    assert "never searched" in text
    assert "1 of 2 kernels have the schedule of a trial, in 2 calls" in text
    assert "100.00 to 60.00 us" in text
    assert "verified: the outputs agree on 3 random inputs" in text
    assert "onnxruntime: not compared" in text
    assert "random weights" not in text
    assert "random weights: largest difference 3e-05" in shown(
        replace(COMPARISON, verification=replace(RIGHT, random_weights="largest difference 3e-05"))
    )
    unbuilt = replace(FAILED, verification=Verification(verified=False, reason="the linker failed"))
    assert "onnxruntime" not in shown(unbuilt)
    assert capsys.readouterr().out == ""


def test_the_table_says_how_close_a_kernel_comes_to_the_limit_of_the_device(session: SessionDirectory) -> None:
    with session.store() as store:
        profile = store.profile()
    assert profile is not None
    task = replace(profile.tasks[0], task="conv2d-1", flop=5_000_000, tensor_bytes=1000)  # 5 us at the peak, and it takes 10
    profile = replace(profile, tasks=(task, *profile.tasks[1:]))
    peaks = Peaks("a processor", "k", 2, Rate(1e12, 9e11, 1e10, 15), (Bandwidth(Rate(1e11, 9e10, 1e9, 15), 10**9, "memory"),), "how", 1.7e9)
    text = shown(COMPARISON, profile=profile, peaks=peaks)
    assert "Limit(%)" in text
    assert re.search(r"conv2d .* 50\.0 ", text)
    assert "Limit(%)" not in shown(COMPARISON, profile=profile)


@pytest.mark.parametrize("width", [20, 60, 100, 300])
def test_the_table_fits_and_escapes_what_strangers_wrote(width: int) -> None:
    hostile = replace(kernel(HOSTILE), why=HOSTILE, verdict=SLOWER)
    comparison = replace(
        FAILED, kernels=(hostile,), notes=(HOSTILE,), verification=replace(WRONG, reason=HOSTILE, onnxruntime=HOSTILE, random_weights=HOSTILE)
    )
    text = shown(comparison, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_python_interface_gives_the_comparison_its_frame_and_its_place(session: SessionDirectory, asked: dict[str, Any]) -> None:
    with workbench.open(session.path) as opened:
        assert opened.comparison is None
        comparison = opened.apply()
        assert isinstance(comparison, workbench.Comparison)
        assert (comparison.applied, comparison.verified, comparison.speedup) == (True, True, 1.67)
        assert comparison.path == session.path / "tuned"
        assert comparison.kernels == COMPARISON.kernels
        frame = comparison.frame()
        assert frame.index.tolist() == ["conv2d", "dense"]
        assert frame.used.tolist() == ["record", "baseline"]
        assert frame.loc["conv2d", "ratio"] == 2.0
        assert "1 of 2 kernels tuned" in repr(comparison)
        with session.store() as store:
            store.write_document("comparison", FAILED.to_dict())
        last = opened.comparison
        assert last is not None
        assert not last.applied
        assert "nothing was applied" in repr(last)
        assert last.frame().attrs["notes"] == ["Nothing was applied."]


@pytest.mark.parametrize("arguments", [{"inputs": 0}, {"inputs": True}, {"rounds": 1.5}, {"rounds": 0}])
def test_the_python_interface_refuses_numbers_that_make_no_sense(session: SessionDirectory, asked: dict[str, Any], arguments: dict[str, Any]) -> None:
    with workbench.open(session.path) as opened, pytest.raises(InputError, match="a whole number from 1"):
        opened.apply(**arguments)
    assert "kind" not in asked


def test_a_damaged_answer_is_an_error_of_the_session(session: SessionDirectory, asked: dict[str, Any]) -> None:
    asked["answer"] = {"verified": "yes"}
    with workbench.open(session.path) as opened:
        for work in (opened.apply, opened.verify, lambda: opened.rerun("conv2d", 7)):
            with pytest.raises(SessionError, match="damaged"):
                work()


def test_verify_gives_a_verification(session: SessionDirectory, asked: dict[str, Any]) -> None:
    asked["answer"] = RIGHT.to_dict()
    with workbench.open(session.path) as opened:
        assert opened.verify(inputs=2) == RIGHT
    assert (asked["kind"], asked["arguments"]) == ("verify", {"inputs": 2})


def test_rerun_says_how_far_a_trial_is_from_its_record(session: SessionDirectory, call: Callable[..., Answer], asked: dict[str, Any]) -> None:
    asked["answer"] = RERUN.to_dict()
    answer = call("rerun", "--session", str(session.path), "--task", "conv2d", "--trial", "7", "--device", "1")
    assert answer.code == 0
    assert "conv2d, trial 7: 55.00 us" in answer.out
    assert "+10.0 %" in answer.out
    assert "1.82x as fast" in answer.out
    assert (asked["kind"], asked["arguments"]) == ("rerun", {"task": "conv2d", "trial": 7, "device": 1})
    assert Rerun.from_dict(json.loads(call("rerun", "--session", str(session.path), "--task", "conv2d", "--trial", "0", "--json", "-").out)) == RERUN


def test_a_trial_that_does_not_run_any_more_is_exit_code_1(session: SessionDirectory, call: Callable[..., Answer], asked: dict[str, Any]) -> None:
    check = Check(2.0, 1.0, 3, 64, 1e-4, 1e-4)
    asked["answer"] = replace(RERUN, status="wrong_result", error="3 of 64 elements differ\x1b[31m", measured_us=None, check=check).to_dict()
    answer = call("rerun", "--session", str(session.path), "--task", "conv2d", "--trial", "7")
    assert answer.code == 1
    assert "conv2d, trial 7: wrong_result: 3 of 64 elements differ" in answer.out
    assert "\x1b" not in answer.out


def test_rerun_needs_a_task_and_a_winner_or_a_number(session: SessionDirectory, call: Callable[..., Answer], asked: dict[str, Any]) -> None:
    assert call("rerun", "--session", str(session.path)).code == 2
    answer = call("rerun", "--session", str(session.path), "--task", "conv2d")
    assert answer.code == 2
    assert "was not searched yet" in answer.err
    assert "kind" not in asked
