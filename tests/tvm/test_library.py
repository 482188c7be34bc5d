"""The record library for real: a winner of one session is found by another one with the same kernel, measured again, and only then believed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import workbench
from workbench.cli.main import main
from workbench.records.trial import MeasureOptions
from workbench.records.tuning import FASTER, Final

HANG_S = 120
QUICK = MeasureOptions(repeat=3, min_repeat_ms=1.0)
SIZES = (64, 64, 64)


def test_a_winner_is_found_by_a_new_session_and_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with workbench.open("matmul", args=SIZES, target="cpu", threads=2, repeat=2, session=tmp_path / "first") as first:
        profile = first.profile()
        (task,) = profile.tasks
        found = first.tune(profile.select(top=1), per_task=4, measure=QUICK)
        found.wait(HANG_S)
        assert found.request.transfer == ()
        with first.directory.store() as store:
            progress = store.trials.progress_of(task.task)
            assert progress is not None
            measured = [trial for trial in store.trials.of_task(task.task) if trial.number and trial.time_us is not None]
            best = min(measured, key=lambda trial: trial.time_us or 0.0)
            time_us = best.time_us or 0.0  # named the winner, however busy the machine is
            final = Final(best.number, 9.0 * time_us, 0.0, time_us, 0.0, best.number, 11, FASTER, "9.00x as fast")
            store.trials.set_progress(replace(progress, final=final))
    added = tmp_path / "added.json"
    assert main(["library", "add", str(tmp_path / "first"), "--json", str(added)]) == 0
    assert [winner["kernel"] for winner in json.loads(added.read_text())["added"]] == [task.name]

    with workbench.open("matmul", args=SIZES, target="cpu", threads=2, repeat=2, session=tmp_path / "second") as second:
        profile = second.profile()
        search = second.tune(profile.select(top=1), per_task=2, measure=QUICK, seed=9)
        search.wait(HANG_S)
        assert len(search.request.transfer) == 1
        with second.directory.store() as store:
            trials = store.trials.of_task(profile.tasks[0].task)
        (taken,) = [trial for trial in trials if trial.origin == "transfer"]
        assert taken.number == 1  # tried before all others
        assert taken.fingerprint == best.fingerprint
        assert taken.check is not None
        assert taken.check.passed
        assert taken.time_us is not None
        assert taken.measured_at > best.measured_at
        assert search.result()["transfer"][0]["schedules"] == 1
