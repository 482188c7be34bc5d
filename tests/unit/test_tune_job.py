"""The search as a job of the worker, with an engine that is none: what is refused, what is kept, and what the manifest says."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.search_fakes import (
    BASELINE_US,
    HANG_S,
    TARGET,
    Bench,
    FakeEvaluator,
    FakeTaskSearch,
    look_for_commands_always,
    open_records,
    trace_of,
)
from workbench.engines.protocol import Engine
from workbench.engines.relax.records import MetaScheduleRecords
from workbench.engines.search_protocol import Failed
from workbench.errors import EnvironmentFault, InputError, Interrupted, ModelError, SessionError
from workbench.records.selection import SelectedTask
from workbench.records.target import TargetSpec
from workbench.records.trial import WRONG_RESULT, MeasureOptions
from workbench.records.tuning import SearchBudget, TaskProgress, TuneRequest
from workbench.session import SessionDirectory
from workbench.tuning_database import RECORD_FILE, DatabaseWriter, read_database
from workbench.worker.context import JobContext
from workbench.worker.transferring import Transfer
from workbench.worker.tuning import refuse_control, tune

REFUSED_NUMBERS: list[Any] = [0, -1, True, 1.5, "3", float("nan"), float("inf"), 10**30]


class FakeEngine:
    """As much of an engine as a search needs."""

    name = "fake"

    def __init__(self, bench: Bench, *, unmeasurable: str = "") -> None:
        self.bench = bench
        self.unmeasurable = unmeasurable
        self.seeds: list[int] = []
        self.spaces: list[str] = []
        self.scratch: list[Path] = []

    def versions(self) -> dict[str, str]:
        return {"tvm": "0.0"}

    def evaluator(self, options: MeasureOptions, *, scratch: Path, builders: int | None, seed: int) -> FakeEvaluator:
        self.scratch.append(scratch)
        return FakeEvaluator(self.bench, scratch, unmeasurable=self.unmeasurable)

    def records(self, folder: Path) -> MetaScheduleRecords:
        return open_records(folder)

    def search_task(self, name: str, *, space: str, seed: int, schedule: Any, device: int, trust: bool) -> FakeTaskSearch:
        self.seeds.append(seed)
        self.spaces.append(space)
        return FakeTaskSearch(self.bench, name)


class Job:
    """Runs the job in a session."""

    def __init__(self, directory: SessionDirectory, engine: FakeEngine) -> None:
        self.directory = directory
        self.engine = engine

    def request(self, *kernels: str, **changes: Any) -> TuneRequest:
        with self.directory.store() as store:
            profile = store.profile()
        assert profile is not None
        names = {task.name: task.task for task in profile.tasks}
        tasks = tuple(SelectedTask(names[kernel], kernel) for kernel in kernels or names)
        return TuneRequest(tasks, **{"budget": SearchBudget(per_task=4), **changes})

    def run(self, request: TuneRequest, *, trust: bool = False) -> dict[str, Any]:
        with self.directory.store() as store:
            number = store.add_command("tune", {})
            store.take_command()
            engine: Any = self.engine
            checked: Engine = engine
            context = JobContext(self.directory, store, number, lambda phase, share: None, lambda: False)
            return tune(checked, context, request, trust=trust)

    def manifest(self) -> dict[str, Any]:
        with self.directory.store() as store:
            return store.manifest()


@pytest.fixture
def job(session: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> Job:
    look_for_commands_always(monkeypatch.setattr)
    target = TargetSpec("llvm", json.dumps(TARGET, sort_keys=True), "cpu", "llvm znver5, 2 threads")
    with session.store() as store:
        store.update_manifest({"target": target.to_dict()})
    return Job(session, FakeEngine(Bench()))


def test_a_search_ends_with_its_tasks_and_leaves_no_libraries(job: Job) -> None:
    result = job.run(job.request())
    assert (result["trials"], result["stopped_because"]) == (12, "all tasks have ended")
    assert [TaskProgress.from_dict(values).trials for values in result["tasks"]] == [4, 4, 4]
    assert len(read_database(job.directory.path / "records").records) == 9
    assert not job.engine.scratch[0].exists()
    manifest = job.manifest()
    assert manifest["search"]["request"] == job.request().to_dict()
    assert manifest["last_stop"] == {"command": "tune", "cause": "all tasks have ended"}


def test_each_task_has_a_seed_of_its_own_that_is_the_same_in_every_run(job: Job) -> None:
    job.run(job.request(seed=7))
    job.run(job.request(seed=7, resume=True, budget=SearchBudget(per_task=5)))
    first, second = job.engine.seeds[:3], job.engine.seeds[3:]
    assert len(set(first)) == 3
    assert sorted(first) == sorted(second)


def test_a_search_does_not_go_on_unless_it_is_told_to(job: Job) -> None:
    job.run(job.request("dense"))
    with pytest.raises(SessionError, match="4 trials already") as caught:
        job.run(job.request("dense"))
    assert "--resume" in caught.value.remedy
    job.run(job.request("conv2d"))  # another task is none of it
    assert job.run(job.request("dense", resume=True))["trials"] == 8


def test_after_a_dry_run_nobody_has_to_resume(job: Job) -> None:
    job.run(job.request("dense", dry_run=3))
    assert job.run(job.request("dense"))["trials"] == 4


def resumed_elsewhere(job: Job, *, measure: MeasureOptions | None = None) -> TaskProgress:
    """What a search says that goes on under other conditions, and may measure nothing more."""
    result = job.run(job.request("dense", resume=True, budget=SearchBudget(trials=4), measure=measure or MeasureOptions()))
    return TaskProgress.from_dict(result["tasks"][0])


def test_times_of_other_conditions_say_in_what_they_differ(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.run(job.request("dense"))
    assert resumed_elsewhere(job).elsewhere == ""
    cold = resumed_elsewhere(job, measure=MeasureOptions(cache_flush=True))
    assert (cold.best_us, cold.elsewhere) == (None, "measured under other conditions (warm caches instead of cold ones)")
    with job.directory.store() as store:
        request = store.request()
        assert request is not None
        store.update_manifest({"request": replace(request, threads=1).to_dict()})
    monkeypatch.setattr(job.engine, "versions", lambda: {"tvm": "0.1"})
    assert resumed_elsewhere(job).other_conditions == ("2 threads instead of 1, tvm 0.0 instead of 0.1",)


@pytest.mark.parametrize("noted", [None, [], {"x": {}}, {"x": {"engine": 3}}, "conditions"])
def test_conditions_that_a_session_does_not_know_any_more_differ_in_what_the_trials_say(job: Job, noted: Any) -> None:
    job.run(job.request("dense"))
    with job.directory.store() as store:
        store.update_manifest({"conditions": noted})
    assert resumed_elsewhere(job, measure=MeasureOptions(cache_flush=True)).other_conditions == ("warm caches instead of cold ones",)


def test_conditions_that_are_not_what_their_digest_says_are_not_believed(job: Job) -> None:
    job.run(job.request("dense"))
    manifest = job.manifest()
    (digest,) = manifest["conditions"]
    assert digest == manifest["search"]["conditions"]
    with job.directory.store() as store:
        store.update_manifest({"conditions": {digest: {**manifest["conditions"][digest], "threads": 7}}})
    assert resumed_elsewhere(job, measure=MeasureOptions(cache_flush=True)).other_conditions == ("warm caches instead of cold ones",)


def test_where_nothing_can_be_measured_only_a_dry_run_is_possible(job: Job) -> None:
    job.engine.unmeasurable = "no CUDA device here"
    with pytest.raises(EnvironmentFault, match="no CUDA device here") as caught:
        job.run(job.request())
    assert "--dry-run" in caught.value.remedy
    assert job.run(job.request("dense", dry_run=3))["trials"] == 0


def test_another_search_follows_one_that_failed_in_the_same_worker(job: Job) -> None:
    job.engine.bench.faults["propose", "conv2d"] = Interrupted("The work was stopped.")
    with pytest.raises(Interrupted):
        job.run(job.request())
    assert not job.engine.scratch[0].exists()
    job.engine.bench.faults.clear()
    assert job.run(job.request(resume=True))["trials"] == 12


def test_a_schedule_function_needs_trust(job: Job) -> None:
    with pytest.raises(ModelError, match="has to run"):
        job.run(job.request(schedule="json:loads"))
    assert job.run(job.request(schedule="json:loads"), trust=True)["trials"] == 12


def test_a_schedule_function_is_to_be_given_again_and_nothing_is_touched_before(job: Job) -> None:
    job.run(job.request("dense", schedule="json:loads"), trust=True)
    before = job.manifest()["search"]
    with pytest.raises(SessionError, match="dense was searched with the schedule function json:loads") as refused:
        job.run(job.request("conv2d", "dense", resume=True))
    assert "--schedule json:loads --trust" in refused.value.remedy
    assert job.manifest()["search"] == before
    with job.directory.store() as store:
        assert [progress.name for progress in store.trials.progress()] == ["dense"]
    budget = SearchBudget(per_task=6)
    assert job.run(job.request("dense", schedule="json:loads", resume=True, budget=budget), trust=True)["trials"] == 6
    assert job.run(job.request("dense", space="default", resume=True, budget=SearchBudget(per_task=7)))["trials"] == 7


def test_each_task_is_searched_in_the_space_of_before_or_the_one_that_is_named(job: Job) -> None:
    job.run(job.request("dense", space="tensorcore"))
    job.run(job.request("dense", "conv2d", resume=True, budget=SearchBudget(per_task=6)))
    job.run(job.request("dense", resume=True, space="plain", budget=SearchBudget(per_task=8)))
    assert job.engine.spaces == ["tensorcore", "tensorcore", "default", "plain"]


def test_the_manifest_says_which_trials_are_those_of_the_search(job: Job) -> None:
    job.run(job.request("dense"))
    job.run(job.request("conv2d"))
    with job.directory.store() as store:
        trials = store.trials.all()
        own = [stored.trial.task for stored in trials if stored.cursor > job.manifest()["search"]["after_trial"]]
        assert store.command(job.manifest()["search"]["command"]).kind == "tune"
    assert len(trials) == 8
    assert [task.partition("-")[0] for task in own] == ["conv2d"] * 4


# what a transfer brings


def write_records(folder: Path, count: int, *, target: dict[str, Any] | None = None, kernel: str = "k", damage: str = "") -> Path:
    graph = json.dumps({"root_index": 0, "nodes": [kernel]}).encode()
    module = base64.b64encode(len(graph).to_bytes(8, "little") + graph).decode()
    with DatabaseWriter(folder) as writer:
        for number in range(count):
            writer.append(
                structural_hash="1",
                module=module,
                trace=json.loads(trace_of(number)),
                run_secs=[1e-6],
                target=TARGET if target is None else target,
                args_info=None,
            )
    if damage:
        with (folder / RECORD_FILE).open("a") as file:
            file.write(damage)
    return folder


def test_each_source_of_a_transfer_is_told_with_what_it_gave(job: Job, tmp_path: Path) -> None:
    first = write_records(tmp_path / "first", 3, damage="nonsense\n")
    second = write_records(tmp_path / "session" / "records", 4).parent  # the first three are those of the first one
    other = write_records(tmp_path / "other", 2, target={"kind": "cuda"})
    job.engine.bench.inherited |= {"dense": 4, "conv2d": 2, "softmax": 0}
    result = job.run(job.request(transfer=(str(first), str(second), str(other))))
    assert job.engine.bench.said("transfer")[0].endswith(" 4")
    assert result["transfer"] == [
        {"source": str(first), "records": 3, "bad_lines": 1, "for_target": 3, "schedules": 5, "why": "", "workloads": []},
        {"source": str(second), "records": 4, "bad_lines": 0, "for_target": 4, "schedules": 1, "why": "", "workloads": []},
        {"source": str(other), "records": 2, "bad_lines": 0, "for_target": 0, "schedules": 0, "why": "", "workloads": []},
    ]
    assert json.loads(json.dumps(result)) == result


def log_line(kernel: str, seconds: float, *, error: int = 0, target: str = "llvm -mcpu=x86-64") -> str:
    key = json.dumps([kernel, 1, 2])
    return json.dumps({"i": [[key, target], [[], [["CI", 1]]]], "r": [[seconds], error, 1.0, 1.7e9], "v": "v0.6"}) + "\n"


def test_a_log_of_the_auto_scheduler_is_told_with_what_became_of_each_workload(job: Job, tmp_path: Path) -> None:
    log = tmp_path / "tuning.json"
    lines = [log_line("dense", 3e-6), log_line("dense", 2e-6), log_line("dense", 1e10, error=2), log_line("attention", 1e-6), "damage\n"]
    log.write_text("".join([*lines, log_line("dense", 1e-6, target="cuda"), log_line("pool", 1e10, error=1)]))
    job.engine.bench.times["dense/2"] = Failed(WRONG_RESULT, "off by one")
    (given,) = job.run(job.request("dense", "softmax", transfer=(str(log),)))["transfer"]
    assert {name: given[name] for name in ("records", "bad_lines", "for_target", "schedules")} == {
        "records": 6,
        "bad_lines": 1,
        "for_target": 3,
        "schedules": 2,
    }
    dense, attention, other_target, pool = given["workloads"]
    (taken,) = dense["tasks"]
    assert (dense["records"], dense["failed"], dense["claimed_us"], dense["why"]) == (2, 1, 2.0, "")
    assert taken == {
        "task": taken["task"],
        "name": "dense",
        "tried": 3,
        "translated": 2,
        "untranslatable": {"step 3 (StorageAlign): no": 1},
        "measured": 2,
        "right": 1,
        "wrong": 1,
        "best_us": BASELINE_US - 1 / 16,
        "best_claimed_us": 2.0,
    }
    assert attention["why"] == "it is of no kernel that was searched; the nearest is softmax: stage 0 is another one"
    assert other_target["why"] == "it is for cuda"
    assert pool["why"] == "no record of it was right"


def test_a_log_among_the_records_of_a_session_is_taken_beside_its_database(job: Job, tmp_path: Path) -> None:
    records = write_records(tmp_path / "session" / "records", 2)
    (records / "auto_scheduler.json").write_text(log_line("dense", 2e-6))
    database, log = job.run(job.request("dense", transfer=(str(records.parent),)))["transfer"]
    assert (database["records"], log["records"], log["schedules"]) == (2, 1, 1)


def test_a_file_that_is_no_log_of_the_auto_scheduler_is_refused(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "model.txt"
    file.write_text("fn (%x: Tensor[(1), float32]) { %x }")
    with pytest.raises(InputError, match=r"a file of another kind \(Relay text\)"):
        job.run(job.request(transfer=(str(file),)))


AUTOTVM_LINE = {
    "input": ["llvm -mcpu=x86-64", "dense_pack.x86", [["TENSOR", [1, 8], "float32"], ["TENSOR", [4, 8], "float32"], None, "float32"], {}],
    "config": {"index": 0, "code_hash": None, "entity": [["tile_y", "sp", [-1, 1]]]},
    "result": [[2e-6], 0, 1.0, 1.7e9],
    "version": 0.2,
    "tvm_version": "0.16.dev0",
}


def test_a_log_of_autotvm_is_records_for_older_tvm_and_today_says_why_it_takes_none(job: Job, tmp_path: Path) -> None:
    log = tmp_path / "autotvm.json"
    log.write_text(json.dumps(AUTOTVM_LINE) + "\ndamage\n")
    (given,) = job.run(job.request("dense", transfer=(str(log),)))["transfer"]
    assert (given["records"], given["bad_lines"], given["for_target"], given["schedules"]) == (1, 1, 0, 0)
    assert given["why"].startswith("it is a log of AutoTVM, whose templates today's TVM does not have")
    assert job.engine.bench.said("transfer") == []
    older = Transfer([str(log)], TargetSpec("llvm", json.dumps({"kind": "llvm", "mcpu": "x86-64"}), "cpu", "a processor"), engine="relay")
    assert [(source["for_target"], source["why"]) for source in older.summary([], [], lambda _: [])] == [(1, "")]


def test_without_a_transfer_there_are_no_sources(job: Job) -> None:
    assert job.run(job.request("dense"))["transfer"] == []
    assert job.engine.bench.said("transfer") == []


def test_a_source_without_a_database_is_refused_before_anything_is_searched(job: Job, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no .*nowhere"):
        job.run(job.request(transfer=(str(tmp_path / "nowhere"),)))
    assert job.engine.scratch == []


def test_a_session_without_a_profile_is_refused(job: Job, tmp_path: Path) -> None:
    empty = Job(SessionDirectory.create(tmp_path / "empty"), job.engine)
    with pytest.raises(SessionError, match="no profile"):
        empty.run(TuneRequest((SelectedTask("dense-1", "dense"),)))


@pytest.mark.parametrize("name", ["records", "artifacts"])
def test_a_session_whose_folders_lead_elsewhere_is_refused_and_nothing_is_written_there(job: Job, name: str, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (job.directory.path / name).symlink_to(tmp_path / "victim")
    with pytest.raises(SessionError, match="leads out of the session"):
        job.run(job.request())
    assert list((tmp_path / "victim").iterdir()) == []


@pytest.mark.parametrize("target", [None, "llvm", {"kind": 3}, {}])
def test_a_session_that_names_no_target_is_refused(job: Job, target: Any) -> None:
    with job.directory.store() as store:
        store.update_manifest({"target": target})
    with pytest.raises(SessionError, match="does not say for which target"):
        job.run(job.request())


def test_a_session_that_does_not_say_what_was_asked_for_is_refused(job: Job) -> None:
    with job.directory.store() as store:
        store.update_manifest({"request": {"threads": "many"}})
    with pytest.raises(SessionError, match="damaged"):
        job.run(job.request())


def test_a_command_for_a_search_that_does_not_run_is_refused() -> None:
    context: Any = None
    with pytest.raises(SessionError, match="No search is running"):
        refuse_control(context, {})


# what a request may say


@pytest.mark.parametrize("name", ["trials", "seconds", "per_task", "flat_after", "flat_gain"])
@pytest.mark.parametrize("value", [value for value in REFUSED_NUMBERS if value != 1.5])
def test_budgets_that_make_no_sense_are_refused(job: Job, name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} of the budget is") as caught:
        job.run(job.request(budget=SearchBudget(**{name: value})))
    assert caught.value.remedy.startswith("Give a")
    assert len(caught.value.message) < 200
    assert job.engine.scratch == []


@pytest.mark.parametrize("name", ["dry_run", "builders", "batch", "finalists"])
@pytest.mark.parametrize("value", REFUSED_NUMBERS)
def test_numbers_of_a_request_that_make_no_sense_are_refused(job: Job, name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} is"):
        job.run(job.request(**{name: value}))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("number", REFUSED_NUMBERS),
        ("repeat", [*REFUSED_NUMBERS, None]),
        ("min_repeat_ms", [-1.0, True, "3", float("nan"), float("inf"), 1e9, None]),
        ("timeout_s", [0.0, -1.0, True, "3", float("nan"), float("inf"), 1e9, None]),
        ("build_timeout_s", [0.0, -1.0, True, "3", float("nan"), float("inf"), 1e9, None]),
        ("cooldown_ms", [-1.0, True, "3", float("nan"), float("inf"), 1e9, None]),
        ("device", [-1, True, 0.5, "0", 10**30, None]),
    ],
)
def test_measure_options_that_make_no_sense_are_refused(job: Job, name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InputError, match=f"{name} of the measuring is"):
            job.run(job.request(measure=replace(MeasureOptions(), **{name: value})))


@pytest.mark.parametrize("limits", [{"trials": 0}, {"seconds": -1.0}, {"trials": True}, {"seconds": float("nan")}])
def test_budgets_of_a_task_that_make_no_sense_are_refused(job: Job, limits: dict[str, Any]) -> None:
    tasks = tuple(replace(item, **limits) for item in job.request("dense").tasks)
    with pytest.raises(InputError, match="of task dense-"):
        job.run(replace(job.request(), tasks=tasks))


@pytest.mark.parametrize("seed", [-1, 2**63, True, 0.5])
def test_a_seed_that_is_none_is_refused(job: Job, seed: Any) -> None:
    with pytest.raises(InputError, match="seed is"):
        job.run(job.request(seed=seed))


def test_a_request_without_tasks_is_refused(job: Job) -> None:
    with pytest.raises(InputError, match="no task"):
        job.run(replace(job.request(), tasks=()))


def test_everything_that_may_be_left_out_may_be_left_out(job: Job) -> None:
    budget = SearchBudget(trials=None, seconds=HANG_S, per_task=3, flat_after=None)
    measure = MeasureOptions(number=None, min_repeat_ms=0.0, cooldown_ms=0.0)
    assert job.run(job.request(budget=budget, measure=measure, builders=None, dry_run=None))["trials"] == 9
