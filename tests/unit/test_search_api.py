"""`Session.tune`, `Search` and `SearchTask` without TVM: what may be asked for, and what a hand-made store shows of a search."""

from __future__ import annotations

import functools
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench
from workbench.analysis.forecast import model_forecast_us
from workbench.api.profile import SessionProfile
from workbench.api.search import Search, task_summary
from workbench.api.winner import winner
from workbench.errors import EnvironmentFault, InputError, Interrupted, ModelError, SelectionError, SessionError
from workbench.escaping import plain_value
from workbench.kernel import Pending, WorkerProcess
from workbench.records.selection import SelectedTask, Selection
from workbench.records.trial import BUILD_ERROR, OK, UNMEASURED, MeasureOptions, Trial
from workbench.records.tuning import DEFAULT_TRIALS_PER_TASK, FASTER, FINISHED, NOT_FASTER, Final, TaskProgress, TuneRequest
from workbench.session import SessionDirectory

SELECTION = Selection("net", "cpu", (SelectedTask("conv2d-1", "conv2d"),), (0,), "top 1")
REQUEST = TuneRequest(SELECTION.tasks)
NUMBER = 7
PENDING = Pending("tune", {}, number=NUMBER)
TIMES_US = [100.0, None, 40.0, 60.0]


def trial(number: int, time_us: float | None, best_us: float | None) -> Trial:
    return Trial(
        task="conv2d-1",
        number=number,
        status=BUILD_ERROR if time_us is None else OK,
        error="no code" if time_us is None else "",
        fingerprint=f"{number:016x}",
        origin="search" if number else "baseline",
        conditions="c",
        times_us=() if time_us is None else (time_us, time_us),
        runs=10,
        search_s=0.1,
        build_s=0.2,
        run_s=0.3,
        check=None,
        best_us=best_us,
        measured_at=1.0e9 + number,
    )


@pytest.fixture
def searched(session: SessionDirectory) -> SessionDirectory:
    """A session with four trials of one task."""
    best: float | None = None
    with session.store() as store:
        for number, time_us in enumerate(TIMES_US):
            best = min((value for value in (best, time_us) if value is not None), default=None)
            progress = TaskProgress("conv2d-1", "conv2d", 2, trials=number + 1, baseline_us=100.0, best_us=best)
            store.trials.add(trial(number, time_us, best), f"trace {number}", progress)
    return session


class StandIn:
    """Stands in for the worker: answers as it is told, and notes what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.behind = ""
        self.cancelled = 0

    def poll(self, pending: Pending, *, on_event: Any = None) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def tell(self, kind: str, arguments: dict[str, Any]) -> None:
        self.told.append((kind, arguments))

    def waits_behind(self, pending: Pending) -> str:
        return self.behind

    def cancel(self, pending: Pending) -> None:
        self.cancelled += 1


def search(directory: SessionDirectory, worker: StandIn) -> Search:
    return Search(directory, worker, REQUEST, PENDING)  # type: ignore[arg-type]


# a running or finished search


def test_trials_come_once_each_by_a_cursor(searched: SessionDirectory) -> None:
    handle = search(searched, StandIn(None))
    first, cursor = handle.trials()
    assert [item.number for item in first] == [0, 1, 2, 3]
    assert handle.trials(since=cursor) == ([], cursor)
    with searched.store() as store:
        store.trials.add(trial(4, 30.0, 30.0), "", TaskProgress("conv2d-1", "conv2d", 2))
    following, later = handle.trials(since=cursor)
    assert [item.number for item in following] == [4]
    assert later > cursor


def test_progress_tells_how_far_each_task_is(searched: SessionDirectory) -> None:
    (progress,) = search(searched, StandIn(None)).progress()
    assert (progress.trials, progress.baseline_us, progress.best_us) == (4, 100.0, 40.0)


def test_the_frame_has_a_row_a_trial_with_medians_and_errors(searched: SessionDirectory) -> None:
    frame = search(searched, StandIn(None)).frame()
    assert {"time_us", *(item.name for item in fields(Trial))} == set(frame.columns)
    assert frame.number.tolist() == [0, 1, 2, 3]
    assert [None if np.isnan(value) else value for value in frame.time_us] == TIMES_US
    assert frame.error.tolist() == ["", "no code", "", ""]


def test_without_trials_the_frame_has_its_columns(session: SessionDirectory, searched: SessionDirectory, tmp_path: Path) -> None:
    empty = search(SessionDirectory.create(tmp_path / "empty"), StandIn(None)).frame()
    assert empty.columns.tolist() == search(searched, StandIn(None)).frame().columns.tolist()
    assert len(empty) == 0


def test_waiting_ends_with_the_answer_the_time_or_the_error(searched: SessionDirectory) -> None:
    (progress,) = search(searched, StandIn(None, None, {"tasks": []})).wait()
    assert progress.task == "conv2d-1"
    running = search(searched, StandIn(None))
    running.wait(timeout=0.01)
    assert running.is_running
    failed = search(searched, StandIn(EnvironmentFault("The device is lost.")))
    with pytest.raises(EnvironmentFault):
        failed.wait()
    assert not failed.is_running


def test_ctrl_c_cancels_the_search(searched: SessionDirectory) -> None:
    worker = StandIn(None, KeyboardInterrupt())
    with pytest.raises(Interrupted):
        search(searched, worker).wait()
    assert worker.cancelled == 1


def test_steering_is_told_to_the_worker(searched: SessionDirectory) -> None:
    worker = StandIn(None)
    handle = search(searched, worker)
    handle.pause()
    handle.resume()
    handle.drop("conv2d-1")
    handle.set_budget(trials=9)
    handle.stop()
    assert [kind for kind, _ in worker.told] == ["pause", "resume", "drop", "budget", "stop"]
    assert worker.told[3][1] == {"search": NUMBER, "trials": 9}
    assert {arguments["search"] for _, arguments in worker.told} == {NUMBER}


def test_a_search_that_has_ended_is_not_steered(searched: SessionDirectory) -> None:
    for worker in (StandIn({"tasks": []}), StandIn(EnvironmentFault("The device is lost."))):
        handle = search(searched, worker)
        for act in (handle.stop, handle.pause, lambda handle=handle: handle.drop("conv2d-1")):
            with pytest.raises(SessionError, match="has ended"):
                act()
        assert worker.told == []


def test_stopping_a_search_whose_turn_has_not_come_cancels_it_alone(searched: SessionDirectory) -> None:
    worker = StandIn(None)
    worker.behind = "tune"
    search(searched, worker).stop()
    assert (worker.cancelled, worker.told) == (1, [])


def begin(directory: SessionDirectory, *, command: Any = 7, after: Any = 2) -> None:
    with directory.store() as store:
        store.update_manifest({"search": {"command": command, "after_trial": after}})


def test_a_search_knows_which_trials_are_its_own(searched: SessionDirectory) -> None:
    handle = search(searched, StandIn(None))
    assert handle.begun_after() is None
    begin(searched, command=NUMBER - 1)
    assert handle.begun_after() is None
    for damaged in ([], "x", {"command": NUMBER}, {"command": NUMBER, "after_trial": "2"}):
        with searched.store() as store:
            store.update_manifest({"search": damaged})
        assert handle.begun_after() is None
    begin(searched)
    assert handle.begun_after() == 2
    assert [trial.number for trial in handle.trials(since=2)[0]] == [2, 3]
    begin(searched, command=NUMBER + 1, after=4)  # the next search
    assert handle.begun_after() == 2


def test_a_search_is_told_as_far_as_it_is_and_after_it_was_stopped(searched: SessionDirectory) -> None:
    with searched.store() as store:
        profile = store.profile()
        assert profile is not None
        task = profile.tasks[0]
        progress = TaskProgress(task.task, task.name, task.weight, trials=4, baseline_us=10.0, best_us=5.0)
        store.trials.set_progress(progress)
    handle = Search(searched, StandIn(None, Interrupted("Stopped.")), replace(REQUEST, tasks=(SelectedTask(task.task, task.name),)), PENDING)  # type: ignore[arg-type]
    values = handle.so_far()
    assert (values["trials"], values["stopped_because"], values["transfer"]) == (4, "", None)
    assert [(item["task"], item["baseline_us"], item["best_us"]) for item in values["tasks"]] == [(task.task, 10.0, 5.0)]
    assert values["model_us"] == profile.total_us
    assert values["forecast_us"] == model_forecast_us(profile, [progress])
    assert handle.so_far()["stopped_because"] == "stopped by the user"
    assert json.loads(json.dumps(values)) == values


def test_the_result_is_that_of_the_worker_with_the_forecast_of_the_model(searched: SessionDirectory) -> None:
    transfer = [{"source": "a", "records": 1, "bad_lines": 0, "for_target": 1, "schedules": 1}]
    answer = {"trials": 4, "seconds": 1.5, "stopped_because": "all tasks have ended", "tasks": [], "transfer": transfer}
    with searched.store() as store:
        profile = store.profile()
    assert profile is not None
    handle = search(searched, StandIn(answer))
    assert handle.result() == handle.so_far() == {**answer, "model_us": profile.total_us, "forecast_us": profile.total_us}


def test_numbers_of_numpy_steer_as_numbers(searched: SessionDirectory) -> None:
    worker = StandIn(None)
    handle = search(searched, worker)
    handle.set_budget(trials=np.int64(9), seconds=np.float32(1.5), per_task=None, flat_after=np.uint8(3), flat_gain=np.float64(0.5))
    handle.set_task_budget("conv2d-1", trials=np.int32(4), seconds=np.int64(2))  # type: ignore[arg-type]
    handle.add("conv2d-1", trials=np.array(5), seconds=np.float64(0.25))  # type: ignore[arg-type]
    told = [arguments for _, arguments in worker.told]
    assert json.loads(json.dumps(told)) == [
        {"trials": 9, "seconds": 1.5, "per_task": None, "flat_after": 3, "flat_gain": 0.5, "search": NUMBER},
        {"task": "conv2d-1", "trials": 4, "seconds": 2.0, "search": NUMBER},
        {"task": "conv2d-1", "trials": 5, "seconds": 0.25, "search": NUMBER},
    ]


NO_NUMBERS = [0, -1, True, "3", [], float("nan"), float("inf"), np.float32("nan"), np.bool_(1), 10**5000, np.array([3])]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: plain_value(value, 12))
def test_a_limit_that_is_none_is_refused_before_the_worker_is_asked(value: Any, searched: SessionDirectory) -> None:
    worker = StandIn(None)
    handle = search(searched, worker)
    for act in (
        *(functools.partial(handle.set_budget, **{name: value}) for name in ("trials", "seconds", "per_task", "flat_after", "flat_gain")),
        *(functools.partial(handle.set_task_budget, "conv2d-1", **{name: value}) for name in ("trials", "seconds")),
        *(functools.partial(handle.add, "conv2d-1", **{name: value}) for name in ("trials", "seconds")),
    ):
        with pytest.raises(InputError) as refused:
            act()
        assert refused.value.remedy.startswith("Give ")
        assert len(str(refused.value)) < 300
    assert worker.told == []


def test_what_names_no_limit_or_no_task_is_refused_before_the_worker_is_asked(searched: SessionDirectory) -> None:
    worker = StandIn(None)
    handle = search(searched, worker)
    wrong: list[Any] = [None, 3, "", ["conv2d-1"]]
    for act in (
        lambda: handle.set_budget(trails=3),
        lambda: handle.set_task_budget("conv2d-1", per_task=3),
        *(functools.partial(handle.drop, task) for task in wrong),
        *(functools.partial(handle.add, task) for task in wrong),
        *(functools.partial(handle.set_task_budget, task) for task in wrong),
    ):
        with pytest.raises(InputError) as refused:
            act()
        assert refused.value.remedy
    assert worker.told == []


def test_times_and_cursors_are_numbers_that_make_sense(searched: SessionDirectory) -> None:
    handle = search(searched, StandIn(None))
    assert handle.wait(timeout=np.float32(0.001))[0].task == "conv2d-1"  # type: ignore[arg-type]
    assert len(handle.trials(since=np.int64(0))[0]) == 4  # type: ignore[arg-type]
    for timeout in (float("nan"), float("inf"), -1, "1", True, np.float64("nan")):
        with pytest.raises(InputError, match="timeout is"):
            handle.wait(timeout=timeout)
    for cursor in (-1, 0.5, "0", None, True, 2**63):
        with pytest.raises(InputError, match="since is"):
            handle.trials(since=cursor)  # type: ignore[arg-type]


def test_a_limit_that_is_not_named_is_not_told_and_so_stays(searched: SessionDirectory) -> None:
    worker = StandIn(None)
    handle = search(searched, worker)
    handle.set_task_budget("conv2d-1", trials=9)
    handle.set_task_budget("conv2d-1", seconds=None)
    told = [{"search": NUMBER, "task": "conv2d-1", "trials": 9}, {"search": NUMBER, "task": "conv2d-1", "seconds": None}]
    assert worker.told == [("budget", arguments) for arguments in told]


# which trial is the one to use


def progress_with(**changes: Any) -> list[TaskProgress]:
    return [replace(TaskProgress("conv2d-1", "conv2d", 2, state=FINISHED, baseline_us=100.0, best=2, best_us=40.0), **changes)]


def test_the_winner_is_what_the_last_measurement_says() -> None:
    final = Final(7, 101.0, 1.0, 38.0, 1.0, 7, 11, FASTER, "2.66x as fast")
    faster = winner(progress_with(final=final), "conv2d")
    assert (faster.number, faster.time_us, faster.baseline_us, faster.verdict) == (7, 38.0, 101.0, FASTER)
    kept = winner(progress_with(final=replace(final, winner=0, verdict=NOT_FASTER)), "conv2d-1")
    assert (kept.number, kept.time_us) == (0, 101.0)
    unconfirmed = winner(progress_with(), "conv2d-1")
    assert (unconfirmed.number, unconfirmed.time_us, unconfirmed.verdict) == (2, 40.0, None)


@pytest.mark.parametrize("progress", [[], progress_with(best=None, best_us=None)], ids=["never searched", "nothing measured"])
def test_without_a_measured_trial_there_is_no_winner(progress: list[TaskProgress]) -> None:
    with pytest.raises(SelectionError, match="conv2d-1"):
        winner(progress, "conv2d-1")


def test_times_of_other_conditions_are_no_missing_trial() -> None:
    elsewhere = progress_with(best=None, best_us=None, baseline_us=None, other_trials=3, other_conditions=("2 threads instead of 1",))
    with pytest.raises(SelectionError, match=r"measured under other conditions \(2 threads instead of 1\)") as caught:
        winner(elsewhere, "conv2d")
    assert "resume=True" in caught.value.remedy
    assert task_summary(elsewhere[0])["other_conditions"] == {"trials": 3, "differences": ["2 threads instead of 1"]}
    assert task_summary(progress_with()[0])["other_conditions"] is None


# what may be asked for


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, session: SessionDirectory) -> list[TuneRequest]:
    """What the worker was asked to tune."""
    requests: list[TuneRequest] = []

    def begin(worker: Any, kind: str, arguments: dict[str, Any]) -> Pending:
        requests.append(TuneRequest.from_dict(arguments))
        return Pending(kind, arguments)

    monkeypatch.setattr(WorkerProcess, "begin", begin)
    return requests


BAD = [
    *({name: value} for name in ("trials", "per_task", "dry_run", "builders", "flat_after") for value in (0, -1, 1.5, True, "8", np.float64(8))),
    *({"seconds": value} for value in (0, -1.0, float("nan"), float("inf"), True, "60", np.bool_(1))),
    *({"seed": value} for value in (-1, 2**63, None, "0", False)),
    {"resume": 1},
    {"space": None},
    {"schedule": print},
    {"measure": {"repeat": 3}},
    *({"measure": MeasureOptions(**{name: value})} for name in ("repeat", "number") for value in (0, True, 2.5)),  # type: ignore[arg-type]
    *(
        {"measure": MeasureOptions(**{name: value})}  # type: ignore[arg-type]
        for name in ("timeout_s", "build_timeout_s", "min_repeat_ms", "cooldown_ms")
        for value in (-1.0, float("nan"), "1")
    ),
    {"measure": MeasureOptions(device=-1)},
    {"measure": MeasureOptions(cache_flush="no")},  # type: ignore[arg-type]
    {"transfer": 3},
    {"transfer": ["a", 3]},
    {"selection": "conv2d-1"},
    {"selection": replace(SELECTION, tasks=(SelectedTask("conv2d-1", "conv2d", trials=-3),))},
]


@pytest.mark.parametrize("options", BAD, ids=str)
def test_what_no_search_can_use_is_refused_with_a_remedy(options: dict[str, Any], session: SessionDirectory, begun: list[TuneRequest]) -> None:
    with workbench.open(session.path) as opened, pytest.raises(InputError) as refused:
        opened.tune(**{"selection": SELECTION, **options})
    assert refused.value.remedy
    assert not begun


def test_without_a_selection_nothing_is_searched(session: SessionDirectory, begun: list[TuneRequest]) -> None:
    with workbench.open(session.path) as opened:
        for selection in (None, replace(SELECTION, tasks=())):
            with pytest.raises(SelectionError, match="No task is selected"):
                opened.tune(selection)
    assert not begun


def test_numbers_of_numpy_are_numbers(session: SessionDirectory, begun: list[TuneRequest]) -> None:
    measure = MeasureOptions(repeat=np.int64(3), timeout_s=np.float32(2.5), number=np.uint8(1))  # type: ignore[arg-type]
    with workbench.open(session.path) as opened:
        opened.tune(SELECTION, trials=np.int64(9), seconds=np.float32(1.5), seed=np.int32(4), measure=measure, transfer=Path("a"))  # type: ignore[arg-type]
        opened.tune(SELECTION, seconds=np.int64(2), flat_after=None)  # type: ignore[arg-type]
        opened.tune(SELECTION)
    first, second, third = begun
    assert (first.budget.trials, first.budget.seconds, first.budget.per_task, first.seed) == (9, 1.5, None, 4)
    assert first.measure == MeasureOptions(repeat=3, timeout_s=2.5, number=1)
    assert first.transfer == (str(Path("a").absolute()),)
    assert (second.budget.seconds, second.budget.flat_after) == (2.0, None)
    assert third.budget.per_task == DEFAULT_TRIALS_PER_TASK


# selecting


def test_a_selection_takes_numbers_of_numpy_and_lone_names(session: SessionDirectory) -> None:
    with session.store() as store:
        record = store.profile()
    assert record is not None
    profile = SessionProfile(session, record)
    assert profile.select(share=np.float64(0.5), top=np.int64(3)) == profile.select(share=0.5, top=3)  # type: ignore[arg-type]
    assert profile.select(share=np.float32(0.5)).tasks == profile.select(share=0.5).tasks  # type: ignore[arg-type]
    assert profile.select(ops="conv2d") == profile.select(ops=["conv2d"])
    assert profile.select(tasks=record.tasks[0].task).tasks == profile.select(tasks=[record.tasks[0].task]).tasks
    for rule in ({"share": np.float64("nan")}, {"share": True}, {"top": np.float64(3)}, {"top": True}, {"top": 0}, {"share": 10**400}):
        with pytest.raises(SelectionError):
            profile.select(**rule)  # type: ignore[arg-type]


def test_rows_and_names_come_alone_in_a_list_or_as_on_the_command_line(session: SessionDirectory) -> None:
    with session.store() as store:
        record = store.profile()
    assert record is not None
    profile = SessionProfile(session, record)
    expected = profile.select(rows=[0, 1])
    for rows in ((0, 1), "0,1", "0-1", np.array([0, 1]), {0: "x", 1: "y"}, iter([np.int64(1), 0])):
        assert profile.select(rows=rows) == expected  # type: ignore[arg-type]
    assert profile.select(rows=1) == profile.select(rows=np.int32(1)) == profile.select(rows=[1])  # type: ignore[arg-type]
    assert profile.select(ops=iter(["conv2d"])) == profile.select(ops=("conv2d",))
    rules: list[dict[str, Any]] = [
        *({"rows": rows} for rows in (0.5, float("nan"), True, [None], ["0"], "x", "9", 10**5000, [np.float64(1)], print)),
        *({rule: names} for rule in ("tasks", "ops") for names in (3, [3], [None], b"conv2d", print, {1: 2})),
        {"top": 10**5000},
    ]
    for rule in rules:
        with pytest.raises(SelectionError) as refused:
            profile.select(**rule)
        assert refused.value.remedy


# SearchTask


def test_each_function_arguments_and_target_have_a_session_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = []
    for args, target in [((64, 64, 64), "cpu"), ((64, 64, 128), "cpu"), (None, "cpu"), ((64, 64, 64), "cuda:sm_90"), ((1, "a/b", [2]), "cpu")]:
        with workbench.SearchTask("matmul", args, target) as task:
            paths.append(task.session.path)
    assert len(set(paths)) == 5
    assert {path.parent for path in paths} == {tmp_path / "workbench-sessions"}
    assert [path.name for path in paths[:4]] == ["matmul-64x64x64-cpu", "matmul-64x64x128-cpu", "matmul-cpu", "matmul-64x64x64-cuda-sm_90"]


@pytest.mark.parametrize("func", ["no_such_workload", "net.onnx", 3, None])
def test_what_is_no_te_function_is_refused(func: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError):
        workbench.SearchTask(func, (1,), "cpu")
    assert not list(tmp_path.iterdir())


def test_resuming_without_a_budget_adds_to_the_trials_that_were_measured(session: SessionDirectory, begun: list[TuneRequest]) -> None:
    with session.store() as store:
        profile = store.profile()
        assert profile is not None
        task = profile.tasks[0].task
        for number, status in enumerate([OK, BUILD_ERROR, UNMEASURED, UNMEASURED]):
            store.trials.add(replace(trial(number, 10.0 if status == OK else None, None), task=task, status=status), "", TaskProgress(task, "", 1))
    with workbench.open(session.path) as opened:
        resumed = object.__new__(workbench.SearchTask)
        vars(resumed).update(session=opened, _search=None, _seed=0)
        resumed.resume()
    assert begun[0].budget.trials == 2 + DEFAULT_TRIALS_PER_TASK * len(profile.tasks)


def test_what_a_session_says_of_itself_is_shown_escaped(session: SessionDirectory) -> None:
    best = workbench.BestSchedule(
        kernel="k\x1b[31m",
        trial=0,
        is_baseline=True,
        time_us=1.0,
        baseline_us=1.0,
        verdict=None,
        why="why\x1b[31m\n",
        decisions=(),
        trace="",
        schedule="",
        tir="",
        library=Path("x.so"),
    )
    task = object.__new__(workbench.SearchTask)
    with workbench.open(session.path) as opened:
        opened.request = replace(opened.request, source=replace(opened.request.source, name="\x1b[31mnet"))
        task.session = opened
        for shown in (str(best), repr(task), repr(opened)):
            assert shown.isprintable()
            assert "\\x1b[31m" in shown


# libraries


def test_a_library_is_taken_from_the_folder_of_artifacts_alone(session: SessionDirectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer = {"file": "own.so"}
    monkeypatch.setattr(WorkerProcess, "run", lambda *_, **__: answer)
    (tmp_path / "x.so").write_text("")
    session.artifacts.mkdir()
    (session.artifacts / "own.so").write_text("")
    (session.artifacts / "link.so").symlink_to(tmp_path / "x.so")
    with workbench.open(session.path) as opened:
        assert opened.write_library("conv2d-1", trial=1) == session.artifacts / "own.so"
        for name in ("link.so", str(tmp_path / "x.so"), "../../x.so", "..", "", "gone.so"):
            answer["file"] = name
            with pytest.raises(SessionError):
                opened.write_library("conv2d-1", trial=1)
        with pytest.raises(InputError, match=r"1\.5"):
            opened.inspect("conv2d-1", "tir", trial=1.5)  # type: ignore[arg-type]
