"""`workbench tune` without TVM: options, the figures of a running search, its tables at every width, and what `workbench tasks` says of it."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from tests.unit.command_line import Answer
from workbench.analysis.forecast import model_forecast_us
from workbench.api.search import summary
from workbench.cli.progress import ProgressLine
from workbench.cli.tune import Outcome
from workbench.cli.tune_progress import TuneProgress, live_table, sparkline
from workbench.cli.tune_state import SearchState, Snapshot
from workbench.cli.tune_table import tune_table
from workbench.cli.tune_words import PlainLines, duration, standing
from workbench.errors import EnvironmentFault, Interrupted, WorkbenchError
from workbench.kernel import Pending, WorkerProcess
from workbench.links import build_profile
from workbench.records.command import Event
from workbench.records.profile import CallTime, Kernel, KernelCall, Measurement, Profile, TensorShape
from workbench.records.selection import SelectedTask
from workbench.records.trial import Trial
from workbench.records.tuning import FASTER, NOT_FASTER, NOTE, SPACES, DryRun, Final, SearchBudget, TaskProgress, TuneRequest
from workbench.session import SessionDirectory

HOSTILE = "\x1b[31m<b>" + "x" * 200 + "\u202e畳み込み"


class Clock:
    """Seconds that a test turns on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make_profile(names: list[str] | None = None) -> Profile:
    """Rows of 40, 30, 20 us and a whole run of 100 us."""
    names = names or ["conv", "dense", "conv"]
    tensor = TensorShape((1, 8), "float32")
    calls = tuple(CallTime(40.0 - 10.0 * index, 0.5, 10) for index in range(len(names)))
    return build_profile(
        model="net",
        engine="relax",
        target="llvm",
        kernels=[Kernel(name, name, ("conv2d",), (tensor,), (tensor,), 1000, 1000) for name in dict.fromkeys(names)],
        calls=[KernelCall(name, ()) for name in names],
        measurement=Measurement(calls, None, (), CallTime(100.0, 1.0, 10), 0.1, 2),
        builtin_origins=[],
        notes=["random weights"],
    )


PROFILE = make_profile()
CONV, DENSE = PROFILE.tasks


def request(**changes: Any) -> TuneRequest:
    tasks = tuple(SelectedTask(task.task, task.name) for task in PROFILE.tasks)
    return replace(TuneRequest(tasks, SearchBudget(per_task=17)), **changes)


def trial(number: int, *, task: str = CONV.task, time_us: float | None = 10.0, status: str = "ok", error: str = "") -> Trial:
    origin = "baseline" if number == 0 else "search"
    times = () if time_us is None or status != "ok" else (time_us,)
    return Trial(task, number, status, error, f"{number:x}", origin, "c", times, 1, 0.1, 0.1, 0.1, None, None, 0.0)


def final(verdict: str, why: str, *, winner: int = 7, used_us: float = 10.0) -> Final:
    return Final(winner, 20.0, 0.1, used_us, 0.1, 7, 11, verdict, why)


def conv(**changes: Any) -> TaskProgress:
    return replace(TaskProgress(CONV.task, "conv", 2, state="searching", trials=9, baseline_us=20.0, best=7, best_us=10.0), **changes)


def dense(**changes: Any) -> TaskProgress:
    return replace(TaskProgress(DENSE.task, "dense", 1), **changes)


def tell(made: SearchState, phase: str) -> None:
    made.on_event(Event(1, 0.0, "progress", {"phase": phase}))


def state(clock: Clock, tasks: list[TaskProgress], trials: list[Trial], *, known: list[Trial] | None = None, **changes: Any) -> SearchState:
    """A search that was asked for ten seconds ago, in its first round."""
    made = SearchState(request(**changes), PROFILE, clock=clock)
    made.begin(known or [])
    tell(made, "prepare: conv")
    clock.now += 10.0
    made.take(trials, tasks)
    return made


def with_rounds(clock: Clock, tasks: list[TaskProgress], trials: list[Trial], **changes: Any) -> SearchState:
    """The same with two rounds: the first one took ten seconds and gave the trials, the second one has just begun."""
    made = state(clock, tasks, [], **changes)
    tell(made, "search: conv")
    made.take([], tasks)
    clock.now += 10.0
    made.take(trials, tasks)
    tell(made, "search: conv")
    made.take([], tasks)
    return made


def shown(renderable: RenderableType, *, width: int = 200, encoding: str = "utf-8", terminal: bool = False) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    console = Console(file=stream, width=width, force_terminal=terminal, color_system="standard" if terminal else None, highlight=False)
    console.print(renderable)
    stream.flush()
    return raw.getvalue().decode(encoding)


def result(*tasks: TaskProgress) -> dict[str, Any]:
    return summary({"trials": 9, "seconds": 65.0, "stopped_because": "all tasks have ended", "tasks": [task.to_dict() for task in tasks]})


# the command


BAD = [
    ("--trials", "0"),
    ("--trials", "x"),
    ("--seconds", "0"),
    ("--seconds", "nan"),
    ("--seconds", "-3"),
    ("--per-task", "1.5"),
    ("--flat-after", "-1"),
    ("--seed", "-1"),
    ("--dry-run", "0"),
    ("--repeat", "0"),
    ("--min-repeat-ms", "inf"),
    ("--timeout", "1e99"),
    ("--device", "-1"),
    ("--builders", "\x1b[31m"),
    ("--schedule", "mine:layout"),
    ("--nonsense",),
]


@pytest.mark.parametrize("options", BAD)
def test_a_bad_option_is_one_sentence_with_a_remedy(options: tuple[str, ...], session: SessionDirectory, call: Callable[..., Answer]) -> None:
    answer = call("tune", "--session", str(session.path), *options)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("workbench: ")
    assert answer.err.count("\n") == 1
    assert answer.err.strip().isprintable()
    assert options[0].lstrip("-") in answer.err


def test_without_a_selection_it_says_how_to_make_one(session: SessionDirectory, call: Callable[..., Answer]) -> None:
    answer = call("tune", "--session", str(session.path))
    assert (answer.code, answer.out) == (2, "")
    assert "workbench select --share 0.8" in answer.err
    assert not session.is_served()


def test_without_a_session_it_says_how_to_make_one(call: Callable[..., Answer]) -> None:
    answer = call("tune")
    assert (answer.code, answer.out) == (2, "")
    assert "workbench profile" in answer.err


def test_tasks_tell_how_far_their_search_is(session: SessionDirectory, call: Callable[..., Answer]) -> None:
    place = ("--session", str(session.path))
    before = json.loads(call("tasks", *place, "--json", "-").out)["tasks"]
    assert {(task["state"], task["best_us"], task["trials"]) for task in before} == {(None, None, 0)}
    assert "State" not in call("tasks", *place).out
    task = before[0]["task"]
    with session.store() as store:
        store.trials.add(
            trial(0, task=task, time_us=20.0), "", TaskProgress(task, "conv2d", 2, "searching", trials=1, baseline_us=20.0, best_us=20.0)
        )
        done = TaskProgress(task, "conv2d", 2, "finished", trials=2, baseline_us=20.0, best_us=10.0, final=final(FASTER, "", used_us=11.0))
        store.trials.add(trial(1, task=task), "[]", done)
    after = json.loads(call("tasks", *place, "--json", "-").out)["tasks"]
    assert [(item["state"], item["best_us"], item["trials"]) for item in after] == [("finished", 11.0, 2), (None, None, 0), (None, None, 0)]
    assert [{**item, "state": None, "best_us": None, "trials": 0} for item in after] == before
    assert {item["other_conditions"] for item in after} == {None}
    heading, _, first, *_ = call("tasks", *place).out.splitlines()
    assert {"State", "Best(us)"} <= set(heading.split())
    assert {"finished", "11.00"} <= set(first.split())


def test_times_of_other_conditions_are_told_by_tasks_in_words_and_in_json(session: SessionDirectory, call: Callable[..., Answer]) -> None:
    place = ("--session", str(session.path))
    task = json.loads(call("tasks", *place, "--json", "-").out)["tasks"][0]["task"]
    elsewhere = TaskProgress(task, "conv2d", 2, "finished", trials=3, other_trials=2, other_conditions=("1 thread instead of 2", HOSTILE))
    with session.store() as store:
        store.trials.set_progress(elsewhere)
    found = json.loads(call("tasks", *place, "--json", "-").out)["tasks"][0]
    assert found["other_conditions"] == {"trials": 2, "differences": ["1 thread instead of 2", HOSTILE]}
    assert found["best_us"] is None
    text = call("tasks", *place).out
    assert "conv2d has no best: it was measured under other conditions (1 thread instead of 2;" in text
    assert "\\x1b[31m" in text
    assert "\x1b" not in text
    with session.store() as store:
        store.trials.set_progress(replace(elsewhere, best=1, best_us=3.0))
    assert "other conditions" not in call("tasks", *place).out


@pytest.mark.parametrize(("states", "code"), [(("failed", "failed"), 1), (("failed", "finished"), 0), (("dropped", "stopped"), 0)])
def test_a_search_whose_tasks_all_failed_is_no_success(
    states: tuple[str, ...], code: int, session: SessionDirectory, call: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--session", str(session.path))
    assert call("select", *place, "--top", "2").code == 0
    with session.store() as store:
        selection = store.selection()
    assert selection is not None
    tasks = [TaskProgress(item.task, item.name, 1, state, stopped_because="no reason") for item, state in zip(selection.tasks, states, strict=True)]
    monkeypatch.setattr("workbench.cli.tune.run_search", lambda *_, **__: Outcome(result(*tasks), tasks))
    answer = call("tune", *place)
    assert answer.code == code
    assert answer.out.count("failed: no reason") == states.count("failed")


def test_a_note_on_a_search_is_said_once(session: SessionDirectory, call: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    place = ("--session", str(session.path))
    assert call("select", *place, "--top", "2").code == 0
    with session.store() as store:
        selection = store.selection()
    assert selection is not None
    tasks = [TaskProgress(item.task, item.name, 1, "finished", first_errors={NOTE: "xgboost 2 is too new"}) for item in selection.tasks]
    monkeypatch.setattr("workbench.cli.tune.run_search", lambda *_, **__: Outcome(result(*tasks), tasks))
    assert call("tune", *place).out.count("xgboost 2 is too new") == 1


def test_the_help_names_the_spaces_and_what_a_schedule_function_is(call: Callable[..., Answer]) -> None:
    words = call("tune", "--help").out
    said = " ".join(words.split()).replace("- ", "-")  # names are broken at their hyphens
    assert all(f"{name}: {text}" in said for name, text in SPACES.items())
    example = words[words.index("    def tile(sch):") : words.index("  --resume needs the function")]
    compile(textwrap.dedent(example), "help", "exec")
    assert "tvm.s_tir.Schedule" in words
    assert "--schedule mine:tile --trust" in words


# a search that is stopped, or has to wait


class Front:
    """The worker's side of a search, played by a test: what the store says after each look of the command."""

    def __init__(self, session: SessionDirectory, monkeypatch: pytest.MonkeyPatch, steps: list[Callable[[int, Any], Any]]) -> None:
        self.session = session
        self.cancelled = 0
        self._steps = steps
        monkeypatch.setattr(WorkerProcess, "begin", self._begin)
        monkeypatch.setattr(WorkerProcess, "poll", self._poll)
        monkeypatch.setattr(WorkerProcess, "cancel", self._cancel)
        monkeypatch.setattr("workbench.cli.tune._REFRESH_S", 0.0)

    def _begin(self, kind: str, arguments: dict[str, Any]) -> Pending:
        with self.session.store() as store:
            return Pending(kind, arguments, number=store.add_command(kind, arguments))

    def _poll(self, pending: Pending, *, on_event: Any = None) -> dict[str, Any] | None:
        if on_event is None:
            return None
        step = self._steps.pop(0)
        answer: dict[str, Any] | None = step(pending.number, on_event)
        return answer

    def _cancel(self, pending: Pending) -> None:
        self.cancelled += 1

    def begin_search(self, number: int) -> None:
        with self.session.store() as store:
            store.update_manifest({"search": {"command": number, "after_trial": store.trials.last()}})

    def add(self, kernel: str, number: int, *, time_us: float, **changes: Any) -> None:
        with self.session.store() as store:
            profile = store.profile()
            assert profile is not None
            task = next(task for task in profile.tasks if task.name == kernel)
            progress = TaskProgress(task.task, kernel, task.weight, "searching", trials=number + 1, baseline_us=50.0, best_us=time_us)
            store.trials.add(trial(number, task=task.task, time_us=time_us), "", replace(progress, **changes))


def interrupt(number: int, on_event: Any) -> None:
    raise KeyboardInterrupt


def progressing(number: int, on_event: Any) -> None:
    on_event(Event(1, 0.0, "progress", {"command": number, "phase": "prepare: conv2d"}))


@pytest.fixture
def selected(session: SessionDirectory, call: Callable[..., Answer]) -> SessionDirectory:
    """A session with its hottest task selected."""
    assert call("select", "--session", str(session.path), "--top", "1").code == 0
    return session


def test_a_stopped_search_prints_what_it_found_and_how_to_go_on(
    selected: SessionDirectory, call: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def measure(number: int, on_event: Any) -> None:
        front.begin_search(number)
        front.add("conv2d", 0, time_us=50.0)
        front.add("conv2d", 1, time_us=20.0)

    front = Front(selected, monkeypatch, [progressing, measure, interrupt])
    answer = call("tune", "--session", str(selected.path), "--schedule", "my mine:tile", "--trust", "--json", str(tmp_path / "out.json"))
    assert (answer.code, front.cancelled) == (130, 1)
    heading, _, first, *rest = answer.out.splitlines()
    assert heading.split()[:4] == ["Task", "Weight", "Baseline(us)", "Best(us)"]
    assert [cell.strip() for cell in first.split("  ") if cell.strip()][:5] == ["conv2d", "2", "50.00", "20.00", "2.50x"]
    assert "2 calls of these kernels: 100.00 to 40.00 us (2.50x)" in rest
    *progress, last = answer.err.splitlines()
    assert all(line.startswith("  ") for line in progress)
    again = f"workbench tune --session {shlex.quote(str(selected.path))} --resume --schedule 'my mine:tile' --trust"
    assert last == f"workbench: Stopped. What was measured is saved: go on with {again}."
    values = json.loads((tmp_path / "out.json").read_text())
    assert (values["trials"], values["transfer"], values["tasks"][0]["best_us"]) == (2, None, 20.0)


def test_a_search_that_is_stopped_before_its_turn_prints_no_table(
    selected: SessionDirectory, call: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    front = Front(selected, monkeypatch, [progressing, interrupt])
    answer = call("tune", "--session", str(selected.path), "--json", "-")
    assert (answer.code, answer.out, front.cancelled) == (130, "", 1)
    assert answer.err == "workbench: Stopped. The search had not begun.\n"


def test_a_dry_run_that_is_stopped_is_gone_on_with_as_one(
    selected: SessionDirectory, call: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    front = Front(selected, monkeypatch, [lambda number, on_event: front.begin_search(number), interrupt])
    answer = call("tune", "--dry-run", "3", "-q", "--session", str(selected.path))
    assert answer.err.endswith("--dry-run 3.\n")


def test_a_search_that_waits_shows_nothing_of_the_one_before_it(
    selected: SessionDirectory, call: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(number: int, on_event: Any) -> None:
        front.begin_search(number - 1)
        on_event(Event(0, 0.0, "waiting", {"command": number, "behind": "tune"}))
        front.add("conv2d", 0, time_us=50.0)

    def go_on(number: int, on_event: Any) -> None:
        front.add("conv2d", 1, time_us=40.0, state="finished", stopped_because="theirs")

    def begin(number: int, on_event: Any) -> None:
        front.add("conv2d", 2, time_us=30.0)  # the last one of the other search, which was not looked at before
        front.begin_search(number)
        progressing(number, on_event)
        front.add("conv2d", 3, time_us=20.0)

    def end(number: int, on_event: Any) -> dict[str, Any]:
        with selected.store() as store:
            (progress,) = store.trials.progress()
        done = replace(progress, state="finished", stopped_because="ours")
        with selected.store() as store:
            store.trials.set_progress(done)
        return {"trials": 4, "seconds": 1.0, "stopped_because": "all tasks have ended", "tasks": [done.to_dict()], "transfer": []}

    snapshots: list[Snapshot] = []
    monkeypatch.setattr(PlainLines, "of", lambda lines, snapshot: snapshots.append(snapshot) or standing(snapshot))
    front = Front(selected, monkeypatch, [wait, go_on, begin, end])
    answer = call("tune", "--session", str(selected.path), "--json", "-")
    assert answer.code == 0, answer.err
    first, second, third, _ = snapshots
    assert [line.partition("s  ")[2] for line in answer.err.splitlines()[:2]] == ["waiting for the search of another front to end, 0 s so far"] * 2
    for snapshot in (first, second):
        assert (snapshot.tasks, snapshot.trials, snapshot.history_us, snapshot.is_begun) == ((), 0, {}, False)
    assert (third.trials, third.is_begun, third.waits_for) == (4, True, "")
    assert [(task.trials, task.state) for task in third.tasks] == [(4, "searching")]
    assert "starting the worker" not in answer.err
    assert "theirs" not in answer.err


def test_a_profile_that_waits_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine(quiet=False) as line:
        for behind in ("tune", "nonsense\x1b[31m"):
            line.on_event(Event(0, 0.0, "waiting", {"command": 2, "behind": behind}))
    told = [text.partition(" s  ")[2] for text in capsys.readouterr().err.splitlines()]
    assert told == ["waiting for the search of another front to end", "waiting for the work of another front to end"]


def test_before_a_search_begins_it_says_what_is_being_done_and_the_wait_is_none_of_its_time() -> None:
    clock, lines = Clock(), PlainLines()
    made = SearchState(request(), PROFILE, clock=clock)
    clock.now += 1.0
    assert (standing(made.snapshot()), lines.of(made.snapshot())) == (["starting the worker; 1 s spent"], [])
    made.on_event(Event(0, 0.0, "waiting", {"behind": "profile"}))
    waiting = ["waiting for the profile of another front to end, 1 s so far"]
    assert lines.of(made.snapshot()) == waiting
    assert shown(live_table(made.snapshot(), most_tasks=9)).splitlines() == waiting
    told = []
    for _ in range(61):
        clock.now += 1.0
        told += lines.of(made.snapshot())
    assert told == [f"waiting for the profile of another front to end, {words} so far" for words in ("31 s", "1 min 01 s")]
    tell(made, "load")
    assert standing(made.snapshot()) == ["loading the program; 0 s spent"]
    clock.now += 6.0
    assert lines.of(made.snapshot()) == ["loading the program; 6 s spent"]
    made.begin([trial(0), trial(1)])
    made.take([trial(2)], [conv()])
    assert (made.snapshot().trials, made.snapshot().seconds) == (3, 6.0)
    assert "3 trials" in standing(made.snapshot())[0]


# figures


def test_progress_table_and_json_have_the_same_forecast_of_all_that_was_found_in_the_session() -> None:
    tasks = [conv(), dense(baseline_us=20.0, best_us=5.0)]
    forecast_us = model_forecast_us(PROFILE, tasks)
    assert forecast_us == pytest.approx(100.0 - 20.0 - 15.0)
    only_conv = replace(request(), tasks=request().tasks[:1])
    made = SearchState(only_conv, PROFILE, clock=Clock())
    made.begin([])
    made.take([], tasks)
    assert made.snapshot().forecast_us == forecast_us
    words = "forecast of the whole model with what was found for other tasks before: 100.00 to 65.00 us (1.54x)"
    assert words in shown(tune_table(result(tasks[0]), tasks, PROFILE)).splitlines()


def test_the_rate_is_that_of_whole_rounds_and_gives_the_time_left() -> None:
    known = [trial(number, task=DENSE.task) for number in range(3)]
    tasks = [conv(trials=5), dense(trials=3)]
    snapshot = with_rounds(Clock(), tasks, [trial(number) for number in range(5)], known=known).snapshot()
    assert (snapshot.trials, snapshot.rate, snapshot.seconds, snapshot.is_estimating) == (8, 0.5, 20.0, False)
    assert snapshot.left_s == pytest.approx((12 + 14) / 0.5)
    seconds = SearchBudget(per_task=17, seconds=30.0)
    assert with_rounds(Clock(), tasks, [trial(0)], known=known, budget=seconds).snapshot().left_s == pytest.approx(10.0)
    trials = SearchBudget(trials=10)
    assert with_rounds(Clock(), tasks, [trial(0), trial(1)], known=known, budget=trials).snapshot().left_s == pytest.approx(5 / 0.2)
    unlimited = with_rounds(Clock(), tasks, [trial(0)], budget=SearchBudget()).snapshot()
    assert (unlimited.left_s, unlimited.is_estimating) == (None, False)
    assert "time left unknown" in standing(unlimited)[0]


def test_no_time_left_is_told_before_a_whole_round_was_seen() -> None:
    clock = Clock()
    tasks = [conv(trials=1), dense()]
    made = state(clock, tasks, [trial(0)])
    for _ in range(3):  # a worker's start and a baseline are no measure, nor is what has been measured of a round
        tell(made, "search: conv")
        clock.now += 30.0
        tell(made, "measure: conv")
        made.take([], tasks)
        snapshot = made.snapshot()
        assert (snapshot.rate, snapshot.left_s, snapshot.is_estimating) == (None, None, True)
    assert standing(made.snapshot())[0] == "1 trial; 1 min 40 s spent, estimating the time left"
    made.take([trial(number) for number in range(1, 9)], tasks)
    assert made.snapshot().is_estimating
    tell(made, "search: conv")
    made.take([], tasks)
    assert made.snapshot().rate == pytest.approx(8 / 60.0)
    assert not made.snapshot().is_estimating


def test_a_budget_of_seconds_needs_no_estimate() -> None:
    made = state(Clock(), [conv()], [trial(0)], budget=SearchBudget(per_task=17, seconds=30.0))
    assert standing(made.snapshot())[0] == "1 trial; 10 s spent, 20 s left"


def test_at_the_end_nothing_is_estimated() -> None:
    made = state(Clock(), [conv(state="finished"), dense(state="finished")], [trial(0)])
    assert (made.snapshot().left_s, made.snapshot().is_estimating) == (None, False)


def test_what_was_only_built_and_checked_is_in_no_budget_and_a_dry_run_counts_its_candidates() -> None:
    dry = [trial(number, time_us=None, status="unmeasured") for number in range(4)]
    tasks = [conv(trials=2), dense(state="finished")]
    later = with_rounds(Clock(), tasks, [trial(4), trial(5)], known=dry, budget=SearchBudget(trials=10)).snapshot()
    assert (later.trials, later.trials_limit) == (2, 10)
    assert later.left_s == pytest.approx(8 / 0.2)
    snapshot = with_rounds(Clock(), tasks, dry, known=[trial(9)], dry_run=8, budget=SearchBudget(trials=10)).snapshot()
    assert (snapshot.trials, snapshot.trials_limit, snapshot.rate) == (4, None, 0.4)
    assert [(task.trials, snapshot.limits[task.task]) for task in snapshot.tasks] == [(3, 8), (0, 8)]
    assert snapshot.left_s == pytest.approx(5 / 0.4)


def test_pauses_take_nothing_of_the_time_left() -> None:
    clock = Clock()
    tasks = [conv(trials=5), dense(trials=3)]
    made = with_rounds(clock, tasks, [trial(number) for number in range(5)], budget=SearchBudget(per_task=17, seconds=40.0))
    tell(made, "paused")
    clock.now += 1000.0
    assert (made.snapshot().left_s, made.snapshot().seconds) == (pytest.approx(20.0), 1020.0)
    assert standing(made.snapshot())[1].endswith(": paused")
    tell(made, "measure: conv")
    clock.now += 10.0
    made.take([trial(number) for number in range(5, 10)], [conv(trials=10), dense(trials=3)])
    tell(made, "search: conv")
    made.take([], [conv(trials=10), dense(trials=3)])
    snapshot = made.snapshot()
    assert (snapshot.left_s, snapshot.rate) == (pytest.approx(10.0), pytest.approx(0.5))


def test_states_of_an_earlier_search_are_not_shown_as_those_of_this_one() -> None:
    made = SearchState(request(resume=True), PROFILE, clock=Clock())
    made.take([], [conv(state="finished", stopped_because="flat")])
    assert [(task.state, task.stopped_because) for task in made.snapshot().tasks] == [("waiting", "")]
    assert PlainLines().of(made.snapshot()) == []


def test_only_the_tasks_of_the_search_are_shown_in_the_order_of_the_selection() -> None:
    other = TaskProgress("other", "other", 1, state="finished")
    assert [task.name for task in state(Clock(), [other, dense(), conv()], []).snapshot().tasks] == ["conv", "dense"]


def test_a_first_batch_that_fails_entirely_is_told_once_with_the_first_line() -> None:
    clock = Clock()
    failed = [trial(number, status="build_error", error=f"\n error {HOSTILE} {number}\nmore") for number in range(1, 17)]
    made = state(clock, [conv(trials=10)], [trial(0), *failed[:9]])
    assert made.snapshot().failed_batches == ()
    made.take(failed[9:], [conv(trials=17)])
    made.take([], [conv(trials=17)])
    (words,) = made.snapshot().failed_batches
    assert words.startswith("conv: 16 of 16 failed: build_error: error \\x1b[31m<b>xxx")
    lines = PlainLines()
    assert sum(words in lines.of(made.snapshot()) for _ in range(3)) == 1


def test_a_first_batch_of_several_failures_names_each_class_and_one_success_is_none() -> None:
    failed = [trial(1, status="run_error", error="crash"), *[trial(number, status="build_error", error="no rule") for number in (2, 3)]]
    (words,) = state(Clock(), [conv(state="finished")], failed).snapshot().failed_batches
    assert words == "conv: 3 of 3 failed: 2 build_error: no rule; 1 run_error: crash"
    assert state(Clock(), [conv(state="finished")], [*failed, trial(4)]).snapshot().failed_batches == ()
    assert state(Clock(), [conv(state="finished")], [*failed, trial(4, status="unmeasured")]).snapshot().failed_batches == ()


def test_silence_is_told_with_what_is_being_done() -> None:
    clock = Clock()
    made = state(clock, [conv()], [trial(0)])
    clock.now += 29.0
    assert standing(made.snapshot())[1] == "preparing conv"
    clock.now += 5.0
    made.on_event(Event(2, 0.0, "progress", {"phase": f"search: {HOSTILE}"}))
    words = standing(made.snapshot())[1]
    assert words.startswith("no trial for 34 s: generating and building candidates of \\x1b[31m")
    assert words.isprintable()


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (34.2, "34 s"), (125.0, "2 min 05 s"), (3599.6, "1 h 00 min"), (11_400.0, "3 h 10 min")]
)
def test_durations_are_short(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize("values", [[], [5.0], [5.0, 0.0], [float(number) for number in range(100, 0, -1)]])
def test_a_sparkline_is_short_and_ends_with_the_last_value(values: list[float]) -> None:
    line = sparkline(values, signs="01234567")
    assert len(line) == min(len(values), 12)
    assert line == "".join(sorted(line, reverse=True))
    assert not values or line[-1] == ("7" if len(values) == 1 else "0")


# tables


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_live_table_fits_every_terminal(width: int, encoding: str) -> None:
    tasks = [conv(name=HOSTILE, errors={"build_error": 3, "wrong_result": 1}), dense()]
    text = shown(live_table(state(Clock(), tasks, [trial(0, time_us=20.0), trial(1)]).snapshot(), most_tasks=9), width=width, encoding=encoding)
    assert all(len(line) <= width for line in text.splitlines())
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert encoding == "utf-8" or text.isascii()
    assert "no room" not in text
    assert width < 60 or {"2.00x", "10.00", "9/17"} <= set(text.split())
    assert width < 120 or ("3 build, 1 wrong" in text and "searching" in text and ("█▅" in text or "#~" in text))


def test_the_live_table_says_where_the_search_stands() -> None:
    text = shown(live_table(with_rounds(Clock(), [conv(), dense()], [trial(0, time_us=20.0), trial(1)]).snapshot(), most_tasks=9))
    assert "2 trials, 0.2 a second; 20 s spent, 2 min 05 s left" in text
    assert "forecast of the model: 100.00 to 80.00 us (1.25x)" in text


def test_no_colour_is_shown_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = state(Clock(), [conv(), dense()], []).snapshot()
    assert "\x1b[32m" in shown(live_table(snapshot, most_tasks=9), terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in shown(live_table(snapshot, most_tasks=9), terminal=True)


def test_tasks_that_are_searched_come_first_where_room_is_short() -> None:
    text = shown(live_table(state(Clock(), [conv(state="finished"), dense(state="searching")], []).snapshot(), most_tasks=1))
    assert "dense" in text
    assert "conv " not in text
    assert "1 more tasks" in text


def test_plain_lines_tell_the_start_and_end_of_a_task_and_little_else() -> None:
    clock, lines = Clock(), PlainLines()
    made = state(clock, [conv(), dense()], [trial(0)])
    assert lines.of(made.snapshot()) == ["conv: begins"]
    told = []
    for _ in range(60):
        clock.now += 0.2
        told += lines.of(made.snapshot())
    assert len(told) == 2
    assert told[0].startswith("1 trial; 1")
    made.take([], [conv(state="finished", stopped_because="flat", errors={"run_error": 2}), dense(state="failed", stopped_because="bad")])
    assert lines.of(made.snapshot()) == [
        "conv: finished after 9 trials, 20.00 to 10.00 us (2.00x), failed: 2 run: flat",
        "dense: begins",
        "dense: failed after 0 trials: bad",
    ]
    assert lines.of(made.snapshot()) == []


def test_progress_on_no_terminal_is_indented_lines_and_quiet_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet in (False, True):
        with TuneProgress(request(), PROFILE, quiet=quiet) as progress:
            progress.begin([])
            progress.on_event(Event(1, 0.0, "progress", {"phase": "prepare: conv"}))
            progress.update([trial(0)], [conv(name=HOSTILE)])
        out, err = capsys.readouterr()
        assert out == ""
        assert (err == "") == quiet
    with TuneProgress(request(), PROFILE, quiet=False) as progress:
        progress.begin([])
        progress.on_event(Event(1, 0.0, "progress", {"phase": "prepare: conv"}))
        progress.update([], [conv(name=HOSTILE)])
    line = capsys.readouterr().err
    assert line.startswith("  ")
    assert line.rstrip("\n").isprintable()


def test_the_final_table_shows_before_and_after_with_verdicts_totals_and_the_forecast() -> None:
    tasks = [
        conv(state="finished", stopped_because="flat", final=final(FASTER, "2.00x +- 0.10 as fast: 20.0 to 10.0 us"), best_us=9.0),
        dense(state="finished", baseline_us=20.0, best_us=19.0, final=final(NOT_FASTER, "no difference beyond the noise: 20.0 to 19.9 us", winner=0)),
    ]
    text = shown(tune_table(result(*tasks), tasks, PROFILE))
    heading, _, first, second, *rest = text.splitlines()
    assert heading.split() == ["Task", "Weight", "Baseline(us)", "Best(us)", "Gain", "Trials", "Verdict", "Stopped", "because"]
    assert [cell.strip() for cell in first.split("  ") if cell.strip()] == ["conv", "2", "20.00", "10.00", "2.00x", "9", "2.00x +- 0.10", "flat"]
    assert "20.00     20.00  1.00x       0  keeps the baseline: no difference beyond the noise" in second
    assert rest[0] == "3 calls of these kernels: 60.00 to 40.00 us (1.50x)"
    assert rest[1] == "forecast of the whole model: 100.00 to 80.00 us (1.25x)"
    assert rest[2] == "9 trials of these tasks, 1 min 05 s: all tasks have ended"
    assert "note: random weights" in rest


def test_failures_are_told_by_class_with_the_first_text_and_wrong_results_by_task() -> None:
    errors = {"build_error": 3, "wrong_result": 1}
    tasks = [
        conv(errors=errors, first_errors={"build_error": f"{HOSTILE}\nmore", "wrong_result": "3 of 8 elements differ."}),
        dense(state="failed", stopped_because="the untuned kernel has no time", errors=errors, first_errors={"wrong_result": "all differ."}),
    ]
    lines = shown(tune_table(result(*tasks), tasks, PROFILE), width=300, encoding="ascii").splitlines()
    assert any(line.startswith("6 build_error, the first in conv: \\x1b[31m<b>") for line in lines)
    assert "1 wrong_result in conv: 3 of 8 elements differ." in lines
    assert "1 wrong_result in dense: all differ." in lines
    assert "dense failed: the untuned kernel has no time" in lines
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_a_task_that_has_only_times_of_other_conditions_is_not_called_unmeasured() -> None:
    tasks = [dense(state="finished", trials=4, other_trials=3, other_conditions=("2 threads instead of 1",)), conv(best=None, best_us=None)]
    text = " ".join(shown(tune_table(result(*tasks), tasks, PROFILE)).split())
    assert "measured under other conditions (2 threads instead of 1)" in text
    assert text.count("not measured") == 1


@pytest.mark.parametrize("width", [20, 60, 80, 120])
def test_the_final_table_fits_every_terminal_and_says_what_it_leaves_out(width: int) -> None:
    tasks = [conv(name=HOSTILE, final=final(FASTER, "2.00x +- 0.10 as fast: 20.0 to 10.0 us")), dense()]
    text = shown(tune_table(result(*tasks), tasks, PROFILE), width=width)
    assert all(len(line) <= width for line in text.splitlines())
    assert width < 60 or {"10.00", "2.00x", "+-"} <= set(text.split())
    assert width > 60 or "--csv" not in text
    assert width > 60 or "no room for" in text


def test_a_search_without_times_has_no_totals() -> None:
    tasks = [conv(baseline_us=None, best=None, best_us=None, state="finished"), dense()]
    text = shown(tune_table(result(*tasks), tasks, PROFILE))
    assert "calls of these kernels" not in text
    assert "forecast" not in text
    assert "not measured" in text


def test_the_json_form_of_a_search_has_what_is_promised() -> None:
    values = result(conv(errors={"run_error": 2}, final=final(FASTER, "why")), dense())
    assert {"trials", "seconds", "tasks"} <= set(values)
    promised = {"task", "name", "baseline_us", "best_us", "trials", "errors", "verified", "stopped_because"}
    assert all(promised <= set(task) for task in values["tasks"])
    assert (values["tasks"][0]["baseline_us"], values["tasks"][0]["best_us"], values["tasks"][0]["errors"]) == (20.0, 10.0, {"run_error": 2})
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_a_dry_run_shows_what_was_built_checked_and_rejected() -> None:
    counts = DryRun(candidates=16, built=14, checked=11, rejected=90, failures={"build_error": 2, "wrong_result": 1})
    errors = {"build_error": 7, "run_error": 3}  # those of earlier searches too
    tasks = [
        conv(
            state="finished", stopped_because="16 candidates", dry_run=counts, errors=errors, first_errors={"build_error": "no rule"}, space_size=840
        ),
        dense(state="finished", dry_run=DryRun(candidates=1, built=1, checked=1)),
    ]
    heading, _, first, second, *rest = shown(tune_table(result(*tasks), tasks, PROFILE)).splitlines()
    assert heading.split() == ["Task", "Weight", "Candidates", "Built", "Checked", "Rejected", "Errors", "Space", "Stopped", "because"]
    cells = [cell.strip() for cell in first.split("  ") if cell.strip()]
    assert cells == ["conv", "2", "16", "14", "11", "90", "2 build, 1 wrong", "840", "16 candidates"]
    assert second.split()[:6] == ["dense", "1", "1", "1", "1", "0"]
    assert rest[:5] == [
        "17 candidates, none measured: 15 built, 12 checked and right, 2 built and not checked, 3 failed",
        "90 draws of decisions rejected: they gave no valid schedule, and so no candidate",
        "1 min 05 s: all tasks have ended",
        "2 build_error, the first in conv: no rule",
        "1 wrong_result in conv: no text",
    ]
    values = result(*tasks)["tasks"]
    assert values[0]["dry_run"] == {
        "candidates": 16,
        "built": 14,
        "checked": 11,
        "unchecked": 2,
        "rejected": 90,
        "failures": {"build_error": 2, "wrong_result": 1},
    }
    assert result(conv())["tasks"][0]["dry_run"] is None


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_the_table_of_a_dry_run_fits_every_terminal(width: int) -> None:
    tasks = [conv(name=HOSTILE, stopped_because=HOSTILE, dry_run=DryRun(candidates=16, built=14, checked=11, rejected=90))]
    text = shown(tune_table(result(*tasks), tasks, PROFILE), width=width)
    assert all(len(line) <= width for line in text.splitlines())
    assert width < 40 or {"14", "11"} <= set(text.split())


def test_each_source_of_a_transfer_is_shown_with_what_it_gave() -> None:
    sources = [
        {"source": f"/home/{HOSTILE}", "records": 1200, "bad_lines": 1, "for_target": 1000, "schedules": 1},
        {"source": "b", "records": 1, "bad_lines": 0, "for_target": 0, "schedules": 0},
    ]
    for transfer in (sources, [], None):
        lines = shown(tune_table({**result(conv()), "transfer": transfer}, [conv()], PROFILE), width=400).splitlines()
        told = [line for line in lines if line.startswith("from ")]
        assert len(told) == len(transfer or ())
    lines = shown(tune_table({**result(conv()), "transfer": sources}, [conv()], PROFILE), width=400).splitlines()
    first, second = (line for line in lines if line.startswith("from "))
    assert first.endswith(": 1 schedule taken; 1,000 of 1,200 records for this target, 1 line that cannot be used")
    assert second == "from b: 0 schedules taken; 0 of 1 record for this target, 0 lines that cannot be used"
    assert first.isprintable()
    unused = {"source": "b", "records": 1, "bad_lines": 0, "for_target": 0, "schedules": 0, "why": "it is a log of AutoTVM"}
    assert "from b: not used: it is a log of AutoTVM" in shown(tune_table({**result(conv()), "transfer": [unused]}, [conv()], PROFILE), width=400)


def test_a_log_is_shown_with_what_became_of_each_workload() -> None:
    taken = {
        "task": "conv-1",
        "name": HOSTILE,
        "tried": 3,
        "translated": 2,
        "untranslatable": {"step 3 (StorageAlign): no": 1},
        "measured": 2,
        "right": 1,
        "wrong": 1,
        "best_us": 12.5,
        "best_claimed_us": 10.0,
    }
    workloads = [
        {"workload": '["conv", 1]', "records": 3, "failed": 0, "claimed_us": 10.0, "why": "", "tasks": [taken]},
        {"workload": '["dense", 1]', "records": 3, "failed": 0, "claimed_us": 10.0, "why": "it is for cuda", "tasks": []},
    ]
    source = {"source": "log", "records": 6, "bad_lines": 0, "for_target": 3, "schedules": 2, "workloads": workloads}
    lines = shown(tune_table({**result(conv()), "transfer": [source]}, [conv()], PROFILE), width=600).splitlines()
    first, second = (line for line in lines if line.startswith('  ["'))
    assert "2 of the fastest 3 records translated to" in first
    assert "1 of 2 measured right, the fastest takes 12.50 us, in the log 10.00 us, 1 not translatable: step 3 (StorageAlign): no" in first
    assert first.isprintable()
    assert second == '  ["dense", 1]: not used: it is for cuda'


class Terminal(io.StringIO):
    """A terminal that keeps what was written to it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), Interrupted("Stopped."), EnvironmentFault("The device is lost.")], ids=str)
def test_on_a_terminal_the_table_is_drawn_and_taken_away_unless_the_search_failed(
    error: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with contextlib.suppress(KeyboardInterrupt, WorkbenchError), TuneProgress(request(), PROFILE, quiet=False) as progress:
        progress.begin([])
        progress.on_event(Event(1, 0.0, "progress", {"phase": "prepare: conv"}))
        progress.update([trial(0)], [conv(), dense()])
        drawn = screen.getvalue()
        assert "2.00x" in drawn
        assert "1 trial;" in drawn
        if error is not None:
            raise error
    after = screen.getvalue()[len(drawn) :]
    assert ("\x1b[1A\x1b[2K" in after.rpartition("2.00x")[2]) == (not isinstance(error, EnvironmentFault))
    assert "\x1b[?25h" in after  # the cursor is back


def test_a_terminal_that_can_draw_nothing_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with TuneProgress(request(), PROFILE, quiet=False) as progress:
        progress.begin([])
        progress.on_event(Event(1, 0.0, "progress", {"phase": "prepare: conv"}))
        progress.update([trial(0)], [conv()])
    assert screen.getvalue().endswith(" s  conv: begins\n")
    assert "\x1b" not in screen.getvalue()


def test_a_reader_that_is_gone_does_not_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            attempts.append(text)
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Gone())
    with TuneProgress(request(), PROFILE, quiet=False) as progress:
        progress.begin([])
        progress.on_event(Event(1, 0.0, "progress", {"phase": "prepare: conv"}))
        for _ in range(3):
            progress.update([], [conv()])
    assert len(attempts) == 1
