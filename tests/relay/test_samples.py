"""The networks of the samples on the relay engine: every row's link is what the constants of the optimised model tell, and the whole job is done.

What the links are judged by is `link_truth`, which knows nothing of how the engine makes them.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import workbench
from tests.relay.models import TWINS
from workbench.api.profile import SessionProfile
from workbench.engines.relay import interpreter
from workbench.engines.relay.model_request import model_request
from workbench.models import resolve_model
from workbench.records.trial import OK, MeasureOptions
from workbench.records.tuning import STOPPED

ROOT = Path(__file__).parents[2]
LEGACY = next((folder for folder in (ROOT / "shared" / "legacy", ROOT.parent / "shared" / "legacy") if folder.is_dir()), None)
SAMPLES = ROOT / "tests" / "samples" / "old_tvm"
SCRIPT = Path(__file__).with_name("link_truth.py")
NETWORKS = ("mlp", "resnet18")
ALONE = ("branches", "twins", "dqn")
"""Networks of which the links alone are judged."""

TARGET = {"config": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell", "num-cores": 2}, "machine": "x86_64"}
QUICK = MeasureOptions(repeat=3, min_repeat_ms=1.0)
TRIALS = 16
STOP_AFTER = 6
HANG_S = 600
_MOVES = {"layout_transform"}


def text_of(network: str, folder: Path) -> Path | None:
    """The Relay text of a network; None where the samples are not here."""
    if network in NETWORKS:
        return None if LEGACY is None else LEGACY / network / "model.relay.txt"
    if network == "twins":
        path = folder / "twins.relay"
        path.write_text(TWINS)
        return path
    return SAMPLES / network / "model.relay.txt"


@pytest.fixture(scope="module", autouse=True)
def asked(old_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A process that finds out the links of all networks, beside whatever the first tests do."""
    folder = tmp_path_factory.mktemp("texts")
    found = {network: text_of(network, folder) for network in (*NETWORKS, *ALONE)}
    models = {network: model_request(resolve_model(str(path)), seed=0) for network, path in found.items() if path is not None}
    requests = folder / "requests.json"
    requests.write_text(json.dumps({"target": TARGET, "models": models}))
    command = [str(old_python), str(SCRIPT), str(interpreter.FOLDER), str(requests)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.fixture(scope="module")
def truths(asked: subprocess.Popen[str]) -> dict[str, Any]:
    """The links of all networks, and what the constants tell of them."""
    printed, errors = asked.communicate(timeout=HANG_S)
    assert asked.returncode == 0, errors[-3000:]
    answers: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return answers


def truth_of(network: str, truths: Mapping[str, Any]) -> Any:
    if network not in truths:
        pytest.skip("shared/legacy is not here")
    return truths[network]


# the whole job


@pytest.fixture(scope="module", params=NETWORKS)
def session(request: pytest.FixtureRequest, old_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[workbench.Session]:
    """A profiled session of a network of the samples."""
    network = str(request.param)
    path = text_of(network, Path())
    if path is None:
        pytest.skip("shared/legacy is not here")
    options: dict[str, Any] = {"engine": "relay", "python": str(old_python), "target": "cpu", "threads": 2, "repeat": 2}
    with workbench.open(path, session=tmp_path_factory.mktemp(network) / "s", **options) as opened:
        opened.profile()
        yield opened


def test_the_links_of_the_session_are_those_that_were_judged(session: workbench.Session, truths: Mapping[str, Any]) -> None:
    profile, truth = session.profile(), truth_of(session.request.source.name, truths)
    operators = [f"{item['op']} {item['name']} ({item['location']})" for item in truth["operators"]]
    assert [list(map(str, row.origins)) for row in _rows(profile)] == [[operators[place] for place in row["operators"]] for row in truth["rows"]]
    assert all(row.time_us is not None and row.time_us > 0 for row in _rows(profile))
    tasks = {task.task: task for task in profile.tasks}
    for row in _rows(profile):
        assert row.task is not None
        assert row.row in tasks[row.task].rows
        assert row.kernel in tasks[row.task].kernels


def test_tasks_of_both_tuners_stand_side_by_side(session: workbench.Session) -> None:
    for task in session.profile().tasks:
        product = "conv2d" in task.name or "dense" in task.name
        assert set(task.spaces) == ({"auto-scheduler", "autotvm"} if product else {"auto-scheduler"}), task.name
        assert all(size >= 1 for size in task.spaces.values())
        assert not product or task.spaces["autotvm"] > 1


def test_two_tasks_are_searched_stopped_resumed_applied_and_verified(session: workbench.Session) -> None:
    profile = session.profile()
    hot = sorted((task for task in profile.tasks if "autotvm" in task.spaces), key=lambda task: -(task.time_us or 0.0))[:2]
    search = session.tune(profile.select(tasks=[task.task for task in hot]), trials=TRIALS, measure=QUICK, seed=1)
    seen = [0]
    while search.is_running and seen[-1] < STOP_AFTER:
        seen.append(_count(session))
        threading.Event().wait(0.1)
    search.stop()
    assert {progress.state for progress in search.wait(HANG_S)} <= {STOPPED}
    before = _trials(session)
    assert STOP_AFTER <= sum(map(len, before.values())) < TRIALS
    assert any(0 < count < STOP_AFTER for count in seen)  # they came one by one
    session.tune(trials=TRIALS, resume=True, measure=QUICK, seed=1).wait(HANG_S)
    after = _trials(session)
    assert set(after) == {task.task for task in hot}
    assert sum(map(len, after.values())) == TRIALS
    for task, trials in after.items():
        assert trials[: len(before.get(task, []))] == before.get(task, [])
        assert len({trial.fingerprint for trial in trials}) == len(trials)  # nothing was measured twice
        assert (trials[0].origin, trials[0].status) == ("baseline", OK)
    comparison = session.apply(inputs=1, rounds=3)
    assert comparison.applied, comparison.verification
    assert comparison.verification.verified


def _rows(profile: SessionProfile) -> list[Any]:
    return list(profile.record.kernel_rows)


def _count(session: workbench.Session) -> int:
    return sum(map(len, _trials(session).values()))


def _trials(session: workbench.Session) -> dict[str, list[Any]]:
    with session.directory.store() as store:
        return {progress.task: list(store.trials.of_task(progress.task)) for progress in store.trials.progress()}


# the links


@pytest.mark.parametrize("network", [*NETWORKS, *ALONE])
def test_every_row_has_the_operators_whose_parameters_it_reads_and_no_others(network: str, truths: Mapping[str, Any]) -> None:
    truth = truth_of(network, truths)
    reading = {place for places in truth["readers"].values() for place in places}
    wrong = []
    for number, row in enumerate(truth["rows"]):
        should = {place for name in row["parameters"] for place in truth["readers"][name]}
        said = set(row["operators"])
        if not _only_moves(row) and (not should <= said or (said & reading) != should):
            wrong.append((number, row["kernel"], _names(truth, said), _names(truth, should)))
    assert wrong == []


@pytest.mark.parametrize("network", [*NETWORKS, *ALONE])
def test_every_operator_is_in_one_row_and_what_it_reads_comes_from_there_or_from_a_row_that_is_read(network: str, truths: Mapping[str, Any]) -> None:
    truth = truth_of(network, truths)
    rows = {
        place: {number for number, row in enumerate(truth["rows"]) if place in row["operators"] and not _only_moves(row)} for place in _all(truth)
    }
    several = {place for place, operator in enumerate(truth["operators"]) if operator["op"] == "nn.batch_norm"}
    without = set(truth["builtins"]) | set(truth["eliminated"])
    assert {place: found for place, found in rows.items() if len(found) != 1 and place not in several | without} == {}
    assert {place for place, found in rows.items() if not found} == without
    for place, found in rows.items():
        if place in without:
            continue
        for read in _sources(truth, place, without):
            behind = {number for row in found for number in _behind(truth, row)}
            assert rows[read] & (found | behind), (truth["operators"][place], truth["operators"][read])


@pytest.mark.parametrize("network", [*NETWORKS, *ALONE])
def test_a_row_that_only_moves_data_is_of_the_operators_that_read_it(network: str, truths: Mapping[str, Any]) -> None:
    truth = truth_of(network, truths)
    for number, row in enumerate(truth["rows"]):
        if not _only_moves(row):
            continue
        reading = [item for item in truth["rows"] if f"row {number}" in item["reads"]]
        given = [truth["rows"][int(name.split()[1])] for name in row["reads"] if name.startswith("row ")]
        said = set(row["operators"])
        assert said
        for other in reading or given:
            assert said & set(other["operators"]), (row["kernel"], other["kernel"])


def _only_moves(row: Mapping[str, Any]) -> bool:
    return str(row["kernel"]).startswith("fused_layout_transform") and not set(str(row["kernel"]).removeprefix("fused_layout_transform")) - set(
        "_0123456789"
    )


def _names(truth: Mapping[str, Any], places: set[int]) -> list[str]:
    return [f"{truth['operators'][place]['op']} {truth['operators'][place]['name']}" for place in sorted(places)]


def _all(truth: Mapping[str, Any]) -> range:
    return range(len(truth["operators"]))


def _sources(truth: Mapping[str, Any], place: int, without: set[int]) -> set[int]:
    """The operators with rows that an operator reads, those without one passed over."""
    found: set[int] = set()
    for name in truth["operators"][place]["reads"]:
        kind, _, number = name.partition(" ")
        if kind == "operator":
            found |= _sources(truth, int(number), without) if int(number) in without else {int(number)}
    return found


def _behind(truth: Mapping[str, Any], row: int) -> set[int]:
    """The rows that a row reads; those that only move data are passed over."""
    found: set[int] = set()
    for name in truth["rows"][row]["reads"]:
        kind, _, number = name.partition(" ")
        if kind == "row":
            found |= {int(number)} | (_behind(truth, int(number)) if _only_moves(truth["rows"][int(number)]) else set())
    return found
