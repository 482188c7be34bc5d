"""The search loop on fakes: every trial is stored as it is measured, faults cost what they must, and the hot kernels get the trials."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.search_fakes import WRONG, Bench, FakeEvaluator, Rig, Running, look_for_commands_always, trace_of
from workbench.engines.search_protocol import Failed, Measured
from workbench.errors import EnvironmentFault, InputError, SelectionError, SessionError
from workbench.records.trial import (
    BUILD_ERROR,
    BUILD_TIMEOUT,
    DEVICE_LOST,
    OK,
    REJECTED,
    RUN_ERROR,
    RUN_TIMEOUT,
    UNMEASURED,
    WRONG_RESULT,
    MeasureOptions,
    Trial,
)
from workbench.records.tuning import FAILED, FASTER, FINISHED, NOT_FASTER, NOTE, STOPPED, DryRun, TaskProgress
from workbench.search.attention import Attention
from workbench.store.trials import TrialTable
from workbench.tuning_database import read_database

# trials


def test_every_trial_is_in_the_store_when_the_next_one_is_measured(rig: Rig) -> None:
    seen: list[tuple[int, int | None]] = []

    def look(fingerprint: str) -> None:
        with rig.directory.store() as store:
            trials = store.trials.of_task(rig.tasks()["conv2d"].task)
            progress = store.trials.progress_of(rig.tasks()["conv2d"].task)
        assert progress is not None
        seen.append((len(trials), progress.trials))

    rig.bench.on_measure = look
    rig.search("conv2d", per_task=6)
    assert seen == [(number, number) for number in range(6)]


@pytest.mark.parametrize("exclusive", [True, False])
def test_trial_0_is_the_baseline_and_the_best_runs_along(rig: Rig, exclusive: bool) -> None:
    rig.exclusive = exclusive
    rig.bench.times |= {"conv2d/1": 120.0, "conv2d/2": 80.0, "conv2d/3": 90.0}
    result = rig.search("conv2d", per_task=4)
    trials = rig.trials("conv2d")
    assert [trial.origin for trial in trials] == ["baseline", "search", "search", "search"]
    assert [trial.time_us for trial in trials] == [100.0, 120.0, 80.0, 90.0]
    assert [trial.best_us for trial in trials] == [100.0, 100.0, 80.0, 80.0]
    assert trials[2].times_us == (80.0, 80.0, 80.0)
    assert (trials[2].runs, trials[2].build_s, trials[2].run_s, trials[2].decisions) == (10, 0.125, 0.25, ("tile 2 4",))
    progress = result["tasks"]["conv2d"]
    assert (progress.trials, progress.baseline_us, progress.best, progress.best_us, progress.space_size) == (4, 100.0, 2, 80.0, 1000)
    assert progress == rig.stored("conv2d")
    with rig.directory.store() as store:
        assert store.trials.trace(rig.tasks()["conv2d"].task, 2) == trace_of(2)


def test_failures_keep_their_class_and_full_text_and_cost_one_trial_each(rig: Rig) -> None:
    long = "first line\n" + "x" * 5000 + "\nlast line"
    rig.bench.builds |= {"conv2d/1": Failed(BUILD_ERROR, long, 0.5), "conv2d/2": Failed(BUILD_TIMEOUT, "took too long", 30.0)}
    rig.bench.times |= {"conv2d/3": Failed(RUN_ERROR, "SIGSEGV"), "conv2d/4": Failed(RUN_TIMEOUT, "hangs", 10.0), "conv2d/5": 50.0}
    result = rig.search("conv2d", per_task=7)
    trials = rig.trials("conv2d")
    assert [trial.status for trial in trials] == [OK, BUILD_ERROR, BUILD_TIMEOUT, RUN_ERROR, RUN_TIMEOUT, OK, OK]
    assert trials[1].error == long
    assert (trials[1].build_s, trials[1].time_us, trials[1].best_us) == (0.5, None, 100.0)
    progress = result["tasks"]["conv2d"]
    assert progress.errors == {BUILD_ERROR: 1, BUILD_TIMEOUT: 1, RUN_ERROR: 1, RUN_TIMEOUT: 1}
    assert progress.first_errors[BUILD_ERROR] == long
    assert (progress.best, progress.best_us) == (5, 50.0)


def test_a_very_long_error_loses_its_middle(rig: Rig) -> None:
    rig.bench.builds["conv2d/1"] = Failed(BUILD_ERROR, "first line\n" + "x" * 50_000 + "\nlast line")
    rig.bench.faults["propose", "dense"] = ValueError("y" * 50_000 + "\nthe end")
    tasks = rig.search("conv2d", "dense", per_task=3)["tasks"]
    for text, start, end in (
        (rig.trials("conv2d")[1].error, "first line\n", "\nlast line"),
        (tasks["conv2d"].first_errors[BUILD_ERROR], "first line\n", "\nlast line"),
        (tasks["dense"].first_errors["task"], "Traceback", "\nthe end\n"),
    ):
        assert text.startswith(start)
        assert text.endswith(end)
        assert "characters left out" in text
        assert len(text) <= 20_000


@pytest.mark.parametrize("times", [(0.0,), (-1.0,), (float("nan"),), (float("inf"),), (1e12,), (50.0, float("nan")), (50.0, 0.0)])
def test_times_that_make_no_sense_are_a_run_error(rig: Rig, times: tuple[float, ...]) -> None:
    rig.bench.times["conv2d/1"] = times
    progress = rig.search("conv2d", per_task=3)["tasks"]["conv2d"]
    trial = rig.trials("conv2d")[1]
    assert (trial.status, trial.time_us, trial.times_us) == (RUN_ERROR, None, ())
    assert "make no sense" in trial.error
    assert (progress.best, progress.final.winner) == (2, 2)


def test_a_wrong_result_is_neither_the_best_nor_a_finalist(rig: Rig) -> None:
    rig.bench.times["conv2d/1"] = Measured((1.0,), 10, WRONG, 0.1)
    rig.bench.times["conv2d/2"] = Measured((), 0, WRONG, 0.1)
    progress = rig.search("conv2d", per_task=5)["tasks"]["conv2d"]
    trials = rig.trials("conv2d")
    assert [trial.status for trial in trials[1:3]] == [WRONG_RESULT, WRONG_RESULT]
    assert trials[1].check == WRONG
    assert "3 of 64 elements" in trials[1].error
    assert trials[1].time_us is None
    assert progress.best == 4
    assert rig.bench.said("compare") == ["conv2d/untuned conv2d/4 conv2d/3"]


def test_records_for_stock_tvm_hold_what_is_ok(rig: Rig) -> None:
    rig.bench.times |= {"conv2d/1": Failed(RUN_ERROR, "no"), "conv2d/2": 50.0}
    rig.search("conv2d", "dense", per_task=4)
    records = read_database(rig.directory.path / "records").records
    assert sorted((record.trace[1][0][1][0], record.time_us) for record in records) == [
        *((1, pytest.approx(99.9375)), (2, pytest.approx(50.0)), (2, pytest.approx(99.875))),
        *((3, pytest.approx(99.8125)), (3, pytest.approx(99.8125))),
    ]


def test_the_same_fakes_give_the_same_trials(rig: Rig, tmp_path: Path, sessions: Any) -> None:
    def run(place: Path) -> list[tuple[str, int, str, float | None]]:
        directory = sessions.write(place, sessions.profile(["conv2d", "dense", "conv2d", "softmax"]))
        other = Rig(directory, Bench(times={"conv2d/9": 10.0, "dense/20": 20.0}), place / "scratch")
        other.search(trials=80, batch=4)
        return [(kernel, trial.number, trial.fingerprint, trial.time_us) for kernel in other.tasks() for trial in other.trials(kernel)]

    assert run(tmp_path / "one") == run(tmp_path / "two")


# which task


def test_all_baselines_come_first_and_then_the_hot_kernels_get_the_trials(rig: Rig) -> None:
    rig.bench.times |= {"conv2d/untuned": 1000.0, "dense/untuned": 400.0, "softmax/untuned": 1.0}
    rig.bench.times |= {
        f"{name}/{number}": base for name, base in (("conv2d", 1000.0), ("dense", 400.0), ("softmax", 1.0)) for number in range(1, 99)
    }
    tasks = rig.search(trials=90, batch=4, flat_after=None)["tasks"]
    assert sorted(rig.bench.said("measure")[:3]) == ["conv2d/untuned", "dense/untuned", "softmax/untuned"]
    assert tasks["conv2d"].trials > tasks["dense"].trials > tasks["softmax"].trials == 1 + 4  # its first candidates, before the budget ends
    assert sum(task.trials for task in tasks.values()) == 90


# tasks are isolated


def test_a_task_whose_baseline_fails_ends_with_the_text_and_the_others_go_on(rig: Rig) -> None:
    rig.bench.times["conv2d/untuned"] = Failed(RUN_ERROR, "illegal\ninstruction")
    rig.bench.builds["dense/untuned"] = Failed(BUILD_ERROR, "no compiler")
    tasks = rig.search(per_task=3)["tasks"]
    assert (tasks["conv2d"].state, tasks["dense"].state, tasks["softmax"].state) == (FAILED, FAILED, FINISHED)
    assert tasks["conv2d"].stopped_because == r"the untuned kernel has no time: run_error: illegal\ninstruction"
    assert tasks["dense"].stopped_because == "the untuned kernel has no time: build_error: no compiler"
    assert tasks["conv2d"].first_errors[RUN_ERROR] == "illegal\ninstruction"
    assert [trial.status for trial in rig.trials("conv2d")] == [RUN_ERROR]
    assert tasks["conv2d"].final is None
    assert tasks["softmax"].final.verdict == FASTER


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("place", ["prepare", "propose", "learn"])
def test_an_error_of_one_task_ends_that_task_with_the_full_text(rig: Rig, place: str, exclusive: bool) -> None:
    rig.exclusive = exclusive
    rig.bench.faults[place, "conv2d"] = ValueError("no block named <matmul>")
    tasks = rig.search(per_task=4, batch=2)["tasks"]
    assert (tasks["conv2d"].state, tasks["dense"].state, tasks["dense"].trials) == (FAILED, FINISHED, 4)
    assert tasks["conv2d"].stopped_because == "ValueError: no block named <matmul>"
    assert "Traceback" in tasks["conv2d"].first_errors["task"]
    assert "search_fakes.py" in tasks["conv2d"].first_errors["task"]


def test_an_error_of_many_lines_is_told_by_its_last_one(rig: Rig) -> None:
    rig.bench.faults["prepare", "conv2d"] = RuntimeError("Traceback:\n  File mine.py, line 3\nNameError: no block <b>\n\n")
    task = rig.search("conv2d", "dense", per_task=2)["tasks"]["conv2d"]
    assert task.stopped_because == "RuntimeError: NameError: no block <b>"
    assert "File mine.py, line 3" in task.first_errors["task"]


def test_what_measuring_raises_ends_the_task_and_not_the_search(rig: Rig) -> None:
    rig.bench.times["conv2d/2"] = KeyError("times_us")
    tasks = rig.search(per_task=4)["tasks"]
    assert (tasks["conv2d"].state, tasks["conv2d"].trials, tasks["dense"].trials) == (FAILED, 2, 4)
    assert "KeyError" in tasks["conv2d"].first_errors["task"]
    assert tasks["conv2d"].final is not None


def test_a_builder_that_says_nothing_of_a_candidate_ends_the_task_and_does_not_hang(rig: Rig) -> None:
    rig.bench.lost |= {"conv2d/2", "dense/untuned"}
    tasks = Running(rig, per_task=9, batch=4).wait()["tasks"]
    assert (tasks["conv2d"].state, tasks["dense"].state, tasks["softmax"].trials) == (FAILED, FAILED, 9)
    assert "1 of 4 candidates were not built" in tasks["conv2d"].stopped_because
    assert (tasks["conv2d"].trials, tasks["dense"].trials) == (2, 0)
    assert not {"conv2d/3", "conv2d/4"}.intersection(rig.libraries())


def test_a_schedule_function_that_exits_ends_its_task_only(rig: Rig) -> None:
    rig.bench.faults["prepare", "conv2d"] = SystemExit(3)
    tasks = rig.search(per_task=2)["tasks"]
    assert (tasks["conv2d"].state, tasks["dense"].state) == (FAILED, FINISHED)


def test_what_all_tasks_refuse_alike_is_an_error_of_the_request(rig: Rig) -> None:
    rig.bench.faults |= {("prepare", name): InputError("There is no space tensorcor.", "Give tensorcore.") for name in rig.tasks()}
    with pytest.raises(InputError, match="tensorcor"):
        rig.search(per_task=2)
    assert rig.stored("conv2d").state == FAILED


def test_a_task_that_does_not_exist_is_refused(rig: Rig) -> None:
    request = rig.request("conv2d")
    rig.request = lambda *kernels, **changes: type(request)((type(request.tasks[0])("nowhere", ""),))  # type: ignore[method-assign]
    with pytest.raises(SelectionError, match="nowhere"):
        rig.search()
    assert rig.bench.said("prepare") == []


# budgets


def test_the_trials_of_the_session_count_earlier_ones_too(rig: Rig) -> None:
    first = rig.search(trials=10)
    assert (first["trials"], first["stopped_because"]) == (10, "the budget of 10 trials is used up")
    second = rig.search(trials=17, resume=True)
    assert second["trials"] == 17
    assert sum(len(rig.trials(kernel)) for kernel in rig.tasks()) == 17


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("limits", [{"trials": 21}, {"per_task": 7}])
def test_no_budget_is_overdrawn_while_rounds_overlap(rig: Rig, limits: dict[str, int], exclusive: bool) -> None:
    rig.exclusive = exclusive
    assert rig.search(**limits)["trials"] == 21


@pytest.mark.parametrize(("trials", "each"), [(3 + 21, 7), (3 + 12, 4), (3 + 300, 16)])
def test_a_small_budget_leaves_each_task_its_share_of_first_candidates(rig: Rig, trials: int, each: int) -> None:
    rig.bench.times |= {f"{kernel}/untuned": 1000.0 for kernel in rig.tasks()}  # candidates take less than 100
    tasks = rig.search(trials=trials)["tasks"].values()
    assert sum(task.trials for task in tasks) == trials
    assert set(rig.bench.said("propose")[:3]) == {f"{kernel} {each}" for kernel in rig.tasks()}


@pytest.mark.parametrize(("budget", "spent"), [({"trials": 3 + 40}, 0.0), ({"seconds": 43.0}, 1.0)])
def test_a_task_that_falls_fast_takes_no_first_candidates_of_others(rig: Rig, budget: dict[str, Any], spent: float) -> None:
    """40 trials, by number or by time of 1 s each: 13 for each of three tasks, however much the first one gains."""

    def pass_time(fingerprint: str) -> None:
        rig.clock.now += spent

    rig.bench.on_measure = pass_time
    rig.bench.times |= {f"{kernel}/untuned": 1000.0 for kernel in rig.tasks()}
    rig.bench.times |= {f"conv2d/{number}": 900.0 * 0.9**number for number in range(1, 99)}
    tasks = rig.search(**budget)["tasks"]
    assert set(rig.bench.said("propose")[:3]) == {"conv2d 13", "dense 13", "softmax 14"}
    assert {name: task.trials for name, task in tasks.items()} == {"conv2d": 14, "dense": 14, "softmax": 15}


def test_each_task_has_its_limit_and_the_selection_may_set_another(rig: Rig) -> None:
    tasks = rig.search(per_task=4, selected={"conv2d": {"trials": 40}, "dense": {"trials": 2}})["tasks"]
    assert {name: task.trials for name, task in tasks.items()} == {"conv2d": 40, "dense": 2, "softmax": 4}
    assert tasks["conv2d"].stopped_because == "its budget of 40 trials is used up"
    assert rig.bench.said("propose")[:1] != ["conv2d 1"]
    assert {entry for entry in rig.bench.said("propose") if entry.startswith("conv2d")} == {"conv2d 16", "conv2d 7"}


def test_the_time_of_the_search_ends_it_in_the_middle_of_a_round(rig: Rig) -> None:
    def pass_time(fingerprint: str) -> None:
        rig.clock.now += 1.0

    rig.bench.on_measure = pass_time
    result = rig.search("conv2d", seconds=6.0, batch=50)
    assert result["stopped_because"] == "the budget of 6 s is used up"
    assert result["trials"] == 6
    assert result["tasks"]["conv2d"].final is not None


def test_a_task_may_have_a_time_of_its_own(rig: Rig) -> None:
    def pass_time(fingerprint: str) -> None:
        rig.clock.now += 1.0

    rig.bench.on_measure = pass_time
    tasks = rig.search("conv2d", "dense", per_task=20, selected={"conv2d": {"seconds": 4.5}})["tasks"]
    assert (tasks["conv2d"].trials, tasks["dense"].trials) == (5, 20)
    assert tasks["conv2d"].stopped_because == "its budget of 4.5 s is used up"
    assert tasks["conv2d"].seconds == pytest.approx(5.0, abs=0.5)


def test_a_task_that_gets_no_better_ends(rig: Rig) -> None:
    rig.bench.times |= {f"conv2d/{number}": 99.5 for number in range(1, 1000)}
    task = rig.search("conv2d", flat_after=10, flat_gain=0.01)["tasks"]["conv2d"]
    assert (task.trials, task.stopped_because) == (11, "no gain of 1% in the last 10 trials")


@pytest.mark.parametrize("exclusive", [True, False])
def test_without_any_budget_the_whole_space_is_tried(rig: Rig, exclusive: bool) -> None:
    rig.exclusive = exclusive
    rig.bench.sizes |= {"conv2d": 20, "dense": 0}
    result = rig.search("conv2d", "dense", flat_after=None)
    assert result["stopped_because"] == "all tasks have ended"
    assert [task.stopped_because for task in result["tasks"].values()] == ["the whole search space was tried"] * 2
    assert [task.trials for task in result["tasks"].values()] == [21, 1]


# overlap


def test_nothing_is_proposed_or_built_while_something_is_measured_on_the_same_processors(rig: Rig) -> None:
    rig.search(per_task=12, batch=3)
    begun = [entry for entry in rig.bench.log if entry.startswith("begin ")]
    assert len(begun) == 36
    for place, entry in enumerate(rig.bench.log):
        if entry.startswith("begin "):
            assert rig.bench.log[place + 1] == entry.replace("begin", "measure")


def test_on_another_device_the_next_round_is_built_while_one_is_measured(rig: Rig) -> None:
    rig.exclusive = False
    measuring, building = rig.bench.hold("measure conv2d/1"), rig.bench.hold("build conv2d/5")
    search = Running(rig, "conv2d", per_task=9, batch=4)
    assert measuring.reached.wait(10)
    assert building.reached.wait(10)
    assert rig.bench.said("measure") == ["conv2d/untuned"]
    building.let_go()
    measuring.let_go()
    assert search.wait()["trials"] == 9


def test_on_another_device_a_candidate_is_measured_before_its_round_is_built(rig: Rig) -> None:
    rig.exclusive = False
    rig.bench.holds["measure conv2d/untuned"] = rig.bench.hold("build dense/untuned")
    search = Running(rig, "conv2d", "dense", per_task=2)
    assert rig.bench.hold("build dense/untuned").reached.wait(10)
    rig.bench.hold("build dense/untuned").let_go()
    assert search.wait()["trials"] == 4


def test_candidates_are_measured_in_the_order_in_which_they_were_proposed(rig: Rig) -> None:
    rig.exclusive = False
    rig.search("conv2d", per_task=9)
    assert rig.bench.said("measure") == ["conv2d/untuned", *(f"conv2d/{number}" for number in range(1, 9))]


# libraries


def test_only_libraries_of_the_baseline_and_the_best_are_kept(rig: Rig) -> None:
    seen: list[int] = []
    rig.bench.on_measure = lambda fingerprint: seen.append(len(rig.libraries()))
    rig.search("conv2d", per_task=60, batch=8, finalists=2)
    assert rig.libraries() == ["conv2d/58", "conv2d/59", "conv2d/untuned"]
    assert max(seen) <= 3 + 8


# the end


def test_the_winner_is_named_from_the_last_measurement(rig: Rig) -> None:
    rig.bench.times |= {"conv2d/1": 50.0, "conv2d/2": 55.0}
    rig.bench.final_times |= {"conv2d/1": 60.0, "conv2d/2": 54.0}
    final = rig.search("conv2d", per_task=5, finalists=2)["tasks"]["conv2d"].final
    assert rig.bench.said("compare") == ["conv2d/untuned conv2d/1 conv2d/2"]
    assert (final.winner, final.best, final.verdict, final.rounds) == (2, 2, FASTER, 11)
    assert final.winner_us == final.used_us == pytest.approx(54.054)
    assert final.baseline_us == pytest.approx(100.1)
    assert rig.stored("conv2d").final == final


def test_what_is_to_be_known_of_a_search_stands_with_its_task(rig: Rig) -> None:
    rig.bench.note_of_search = "no cost model guides it"
    rig.search("conv2d", per_task=3)
    assert dict(rig.stored("conv2d").first_errors) == {NOTE: "no cost model guides it"}
    rig.bench.note_of_search = ""
    rig.search("conv2d", per_task=5, resume=True)
    assert dict(rig.stored("conv2d").first_errors) == {}


def test_what_is_not_faster_keeps_the_baseline_and_says_so(rig: Rig) -> None:
    rig.bench.final_times |= {f"conv2d/{number}": 100.02 for number in range(1, 5)}
    final = rig.search("conv2d", per_task=5)["tasks"]["conv2d"].final
    assert (final.winner, final.verdict) == (0, NOT_FASTER)
    assert "no difference beyond the noise" in final.why
    assert final.used_us == final.baseline_us


def test_without_any_right_trial_the_baseline_is_kept(rig: Rig) -> None:
    rig.bench.times |= {f"conv2d/{number}": Failed(RUN_ERROR, "no") for number in range(1, 5)}
    final = rig.search("conv2d", per_task=5)["tasks"]["conv2d"].final
    assert (final.winner, final.verdict, final.why) == (0, NOT_FASTER, "no trial was right and could be measured")


def test_without_any_candidate_the_baseline_is_kept_and_no_trial_is_said_to_be_wrong(rig: Rig) -> None:
    final = rig.search("conv2d", per_task=1)["tasks"]["conv2d"].final
    assert (final.winner, final.verdict, final.why) == (0, NOT_FASTER, "no candidate was measured beside it")


def test_a_finalist_that_spoils_the_last_measurement_takes_no_part(rig: Rig) -> None:
    rig.bench.spoilers.add("conv2d/4")
    final = rig.search("conv2d", per_task=5, finalists=3)["tasks"]["conv2d"].final
    assert rig.bench.said("compare") == ["conv2d/untuned conv2d/4 conv2d/3 conv2d/2", "conv2d/untuned conv2d/4", "conv2d/untuned conv2d/3"]
    assert (final.winner, final.best, final.verdict) == (3, 3, FASTER)


@pytest.mark.parametrize("how", ["fault", "spoiler"])
def test_a_last_measurement_that_fails_is_told_and_the_other_tasks_have_theirs(rig: Rig, how: str) -> None:
    if how == "fault":
        rig.bench.faults["compare", "conv2d"] = RuntimeError("it crashed in the last measurement")
    else:
        rig.bench.spoilers.add("conv2d/untuned")
    tasks = rig.search("conv2d", "dense", per_task=3)["tasks"]
    assert tasks["conv2d"].final is None
    assert "it crashed in the last measurement" in tasks["conv2d"].first_errors["final"]
    assert tasks["dense"].final is not None


# faults of the environment


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long searches wait for a device that was lost: no time at all, and noted here."""
    noted: list[float] = []
    monkeypatch.setattr(Attention, "wait_s", lambda attention, seconds: noted.append(seconds))
    return noted


def test_a_device_that_is_lost_again_and_again_ends_the_search(rig: Rig, pauses: list[float]) -> None:
    rig.bench.times |= {f"conv2d/{number}": Failed(DEVICE_LOST, "the GPU is lost") for number in range(3, 20)}
    with pytest.raises(EnvironmentFault, match="the GPU is lost"):
        rig.search("conv2d", per_task=30)
    assert [trial.status for trial in rig.trials("conv2d")] == [OK, OK, OK, *[DEVICE_LOST] * 5]
    assert rig.stored("conv2d").stopped_because == "the search failed"
    assert pauses == [1.0, 2.0, 4.0, 8.0]


def test_a_device_that_comes_back_costs_its_trials_only(rig: Rig, pauses: list[float]) -> None:
    rig.bench.times |= {f"conv2d/{number}": Failed(DEVICE_LOST, "the GPU is lost") for number in (1, 2, 3, 4, 6, 7)}
    assert rig.search("conv2d", per_task=10)["trials"] == 10
    assert pauses == [1.0, 2.0, 4.0, 8.0, 1.0, 2.0]


def test_a_clock_that_jumps_changes_nothing_but_the_time_of_day(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    days = iter([1e9, 2e9, 1e6, 3e9, 0.0, 5e8, 4e9])

    def jump(fingerprint: str) -> None:
        now = next(days)
        monkeypatch.setattr("time.time", lambda: now)

    rig.bench.on_measure = jump
    assert rig.search("conv2d", per_task=5, seconds=100.0)["trials"] == 5
    assert [trial.number for trial in rig.trials("conv2d")] == [0, 1, 2, 3, 4]
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert rig.search("conv2d", per_task=7, seconds=100.0, resume=True)["trials"] == 7
    trials = rig.trials("conv2d")
    assert [trial.number for trial in trials] == [0, 1, 2, 3, 4, 5, 6]
    assert trials[6].best_us == min(trial.time_us for trial in trials if trial.time_us is not None)


def test_nothing_is_learned_of_a_schedule_from_a_device_that_was_lost(rig: Rig, pauses: list[float]) -> None:
    rig.bench.times |= {"conv2d/2": Failed(DEVICE_LOST, "the GPU is lost"), "conv2d/3": Failed(RUN_ERROR, "no")}
    rig.search("conv2d", per_task=10, batch=3)
    learned = " ".join(rig.bench.said("learn")).split()
    assert {"untuned", "1", "3"} <= set(learned)
    assert "2" not in learned


def test_an_evaluator_that_fails_at_the_end_leaves_no_thread_behind(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(evaluator: object) -> None:
        raise RuntimeError("it cannot be closed")

    monkeypatch.setattr(FakeEvaluator, "close", fail)
    with pytest.raises(RuntimeError, match="cannot be closed"):
        rig.search("conv2d", per_task=3)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith(("producer", "device"))] == []


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_session_that_cannot_be_written_ends_the_search_at_once(
    small_medium: Any, sessions: Any, tmp_path: Path, exclusive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_for_commands_always(monkeypatch.setattr)
    directory = sessions.write(small_medium.path / "session", sessions.profile(["conv2d"]))
    rig = Rig(directory, Bench(), tmp_path / "scratch", exclusive=exclusive)
    rig.bench.on_measure = lambda fingerprint: small_medium.fill() if fingerprint == "conv2d/3" else None
    search = Running(rig, "conv2d", per_task=500)
    with pytest.raises(EnvironmentFault, match=r"disk is full|cannot be"):
        search.wait()
    trials = rig.trials("conv2d")
    assert len(trials) >= 3
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert rig.bench.log[-1] == "close"


def test_a_store_that_fails_in_the_middle_does_not_hang_the_producer(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.exclusive = False

    def lock(fingerprint: str) -> None:
        if fingerprint == "conv2d/2":
            with contextlib.closing(sqlite3.connect(rig.directory.database, isolation_level=None)) as connection:
                connection.execute("DROP TABLE trials")

    rig.bench.on_measure = lock
    with pytest.raises(InputError, match="damaged"):
        Running(rig, "conv2d", per_task=500).wait()


def test_a_trial_that_could_not_be_stored_is_not_counted_by_the_writes_that_still_fit(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    add = TrialTable.add

    def full(table: TrialTable, trial: Trial, trace: str, progress: TaskProgress) -> int:
        if trial.number == 3:
            raise EnvironmentFault("The disk is full.")
        return add(table, trial, trace, progress)

    monkeypatch.setattr(TrialTable, "add", full)
    rig.bench.times |= {"conv2d/1": 40.0, "conv2d/3": 10.0}
    with pytest.raises(EnvironmentFault, match="disk is full"):
        rig.search("conv2d", per_task=500)
    stored = rig.stored("conv2d")
    assert (stored.trials, stored.best, stored.best_us) == (3, 1, 40.0) == (len(rig.trials("conv2d")), 1, 40.0)


def test_a_task_whose_end_could_not_be_stored_is_no_ended_one_by_the_writes_that_still_fit(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    set_progress = TrialTable.set_progress
    full = [True]

    def once_full(table: TrialTable, progress: TaskProgress) -> None:
        if progress.state == FINISHED and full.pop():
            raise EnvironmentFault("The disk is full.")
        set_progress(table, progress)

    monkeypatch.setattr(TrialTable, "set_progress", once_full)
    with pytest.raises(EnvironmentFault, match="disk is full"):
        rig.search("conv2d", "dense", per_task=3)
    assert {(rig.stored(kernel).state, rig.stored(kernel).stopped_because) for kernel in ("conv2d", "dense")} == {(STOPPED, "the search failed")}
    monkeypatch.undo()
    assert rig.search("conv2d", "dense", per_task=3, resume=True)["trials"] == 6


def test_another_search_follows_one_that_failed(rig: Rig) -> None:
    rig.bench.times["conv2d/2"] = EnvironmentFault("The driver is gone.")
    with pytest.raises(EnvironmentFault, match="driver"):
        rig.search("conv2d", per_task=5)
    assert rig.stored("conv2d").state == "stopped"
    del rig.bench.times["conv2d/2"]
    result = rig.search("conv2d", per_task=5, resume=True)
    assert result["trials"] == 5
    assert [trial.fingerprint for trial in rig.trials("conv2d")] == ["conv2d/untuned", *(f"conv2d/{number}" for number in range(1, 5))]


# dry runs


def test_a_dry_run_builds_and_checks_and_measures_nothing(rig: Rig) -> None:
    rig.bench.times["conv2d/2"] = Measured((), 0, WRONG, 0.1)
    result = rig.search("conv2d", dry_run=5, batch=2)
    assert [trial.status for trial in rig.trials("conv2d")] == [UNMEASURED, UNMEASURED, WRONG_RESULT, UNMEASURED, UNMEASURED, UNMEASURED]
    task = result["tasks"]["conv2d"]
    assert (task.best, task.final, task.baseline_us) == (None, None, None)
    assert task.stopped_because == "5 candidates: 5 built, 4 checked, none measured"
    assert rig.bench.said("compare") == []
    assert read_database(rig.directory.path / "records").records == ()
    assert not any("untuned" in entry or "1" in entry.split()[1:] for entry in rig.bench.said("learn"))


def test_a_real_run_after_a_dry_one_measures_all_and_has_a_baseline_of_its_own(rig: Rig) -> None:
    rig.search("conv2d", dry_run=3)
    result = rig.search("conv2d", per_task=4)
    trials = rig.trials("conv2d")
    assert [trial.status for trial in trials] == [*[UNMEASURED] * 4, *[OK] * 4]
    assert [trial.fingerprint for trial in trials[4:]] == ["conv2d/untuned", "conv2d/1", "conv2d/2", "conv2d/3"]
    task = result["tasks"]["conv2d"]
    assert (result["trials"], task.trials, task.baseline_us, task.best) == (4, 4, 100.0, 7)
    assert (task.final.winner, task.final.verdict) == (7, FASTER)


def test_a_dry_run_of_a_task_with_trials_keeps_its_winner(rig: Rig) -> None:
    rig.bench.times["conv2d/3"] = 10.0
    before = rig.search("conv2d", per_task=4)["tasks"]["conv2d"]
    after = rig.search("conv2d", dry_run=2, resume=True)["tasks"]["conv2d"]
    assert (after.final, after.best_us, after.trials) == (before.final, before.best_us, before.trials)
    assert [trial.status for trial in rig.trials("conv2d")] == [*[OK] * 4, *[UNMEASURED] * 2]


def test_a_dry_run_counts_what_was_built_checked_and_rejected_and_how_the_others_failed(rig: Rig) -> None:
    rig.bench.rejections["conv2d"] = 7
    rig.bench.builds |= {
        "conv2d/1": Failed(BUILD_ERROR, "no rule"),
        "conv2d/2": Failed(BUILD_TIMEOUT, "too long"),
        "conv2d/3": Failed(REJECTED, "no"),
    }
    rig.bench.times |= {"conv2d/4": Measured((), 0, WRONG, 0.1), "conv2d/5": Failed(RUN_ERROR, "SIGSEGV"), "conv2d/6": Measured((), 0, None, 0.1)}
    rig.bench.builds["dense/untuned"] = Failed(BUILD_ERROR, "no compiler")
    tasks = rig.search("conv2d", "dense", dry_run=8, batch=4)["tasks"]
    counts = tasks["conv2d"].dry_run
    assert (counts.candidates, counts.built, counts.checked, counts.unchecked, counts.rejected) == (8, 5, 2, 1, 14)
    assert counts.failures == {BUILD_ERROR: 1, BUILD_TIMEOUT: 1, REJECTED: 1, WRONG_RESULT: 1, RUN_ERROR: 1}
    assert tasks["conv2d"].stopped_because == "8 candidates: 5 built, 2 checked, none measured"
    assert rig.stored("conv2d").dry_run == counts
    assert tasks["dense"].dry_run == DryRun()


def test_each_dry_run_counts_anew_and_a_real_search_has_no_such_counts(rig: Rig) -> None:
    rig.search("conv2d", dry_run=4)
    assert rig.search("conv2d", dry_run=3)["tasks"]["conv2d"].dry_run == DryRun(candidates=3, built=3, checked=3)
    assert rig.search("conv2d", per_task=3)["tasks"]["conv2d"].dry_run is None
    assert rig.stored("conv2d").dry_run is None


# the limit of a build


def test_a_build_that_runs_into_the_learned_limit_says_what_set_it(rig: Rig) -> None:
    rig.bench.builds |= {"conv2d/2": Failed(BUILD_TIMEOUT, "Building took more than 2.5 s.", 2.5), "conv2d/3": Failed(BUILD_ERROR, "no rule")}
    rig.search("conv2d", per_task=5)
    trials = rig.trials("conv2d")
    assert trials[2].error == (
        "Building took more than 2.5 s. That is a learned limit: 20 times the median of the task's builds (0.12 s), "
        "at least 1 s; --build-timeout is 30 s."
    )
    assert trials[3].error == "no rule"


def test_a_build_that_runs_into_the_users_own_limit_says_nothing_of_a_learned_one(rig: Rig) -> None:
    rig.bench.builds["conv2d/2"] = Failed(BUILD_TIMEOUT, "Building took more than 2 s.", 2.0)
    rig.search("conv2d", per_task=5, measure=MeasureOptions(build_timeout_s=2.0))
    assert rig.trials("conv2d")[2].error == "Building took more than 2 s."


# the space of a task


@pytest.mark.parametrize(
    ("first", "then", "space"),
    [
        ({}, {}, "default"),
        ({"space": "tensorcore"}, {}, "tensorcore"),
        ({"space": "tensorcore"}, {"space": "default"}, "default"),
        ({"schedule": "mine:tile"}, {"space": "plain"}, "plain"),
        ({"schedule": "mine:tile"}, {"schedule": "mine:other"}, ""),
    ],
)
def test_a_resumed_search_goes_on_in_the_space_of_before_unless_another_one_is_named(
    rig: Rig, first: dict[str, str], then: dict[str, str], space: str
) -> None:
    rig.search("conv2d", per_task=3, **first)
    task = rig.search("conv2d", per_task=5, resume=True, **then)["tasks"]["conv2d"]
    assert (task.trials, task.space, task.schedule) == (5, space, then.get("schedule", ""))


def test_a_task_that_was_searched_with_a_schedule_function_does_not_go_on_without_it(rig: Rig) -> None:
    rig.search("conv2d", per_task=3, schedule="mine:tile")
    with pytest.raises(SessionError, match="conv2d was searched with the schedule function mine:tile") as refused:
        rig.search("conv2d", per_task=5, resume=True)
    assert "--schedule mine:tile --trust" in refused.value.remedy
    assert len(rig.trials("conv2d")) == 3


def test_a_task_of_a_schedule_function_does_not_join_a_search_without_it(rig: Rig) -> None:
    rig.search("dense", per_task=3, schedule="mine:tile")
    numbers: list[int] = []
    rig.bench.on_measure = lambda fingerprint: numbers.append(rig.tell("add", task=rig.tasks()["dense"].task)) if fingerprint == "conv2d/2" else None
    assert list(rig.search("conv2d", per_task=4, resume=True)["tasks"]) == ["conv2d"]
    failure = rig.answer(numbers[0]).failure
    assert failure is not None
    assert "mine:tile" in failure.message


def test_a_dry_run_does_not_change_in_what_a_task_was_searched(rig: Rig) -> None:
    rig.search("conv2d", per_task=3, schedule="mine:tile")
    rig.search("conv2d", dry_run=2)
    assert rig.stored("conv2d").schedule == "mine:tile"
