"""The record library: winners of many sessions, found by kernel and target, tried and measured before anybody believes them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.chart_points import module_of
from tests.unit.search_fakes import TARGET, trace_of
from workbench.api import open as open_session
from workbench.api.library import library_databases, library_winners
from workbench.cli.main import main
from workbench.errors import SessionError
from workbench.kernel import WorkerProcess
from workbench.library import Library, Winner, collect, library_place
from workbench.records.target import TargetSpec
from workbench.records.trial import OK, Trial
from workbench.records.tuning import FASTER, NOT_FASTER, Final, TaskProgress
from workbench.session import SessionDirectory
from workbench.tuning_database import DatabaseWriter, for_target, read_database

SPEC = TargetSpec("llvm", json.dumps(TARGET, sort_keys=True), "cpu", "llvm znver5, 2 threads")


def tune(session: SessionDirectory, *, gains: dict[str, float], trace: int = 1, target: dict[str, Any] = TARGET) -> SessionDirectory:
    """Let a session have a winner for each named kernel."""
    with session.store() as store, DatabaseWriter(session.records) as writer:
        profile = store.profile()
        assert profile is not None
        store.update_manifest({"target": replace(SPEC, config=json.dumps(target)).to_dict(), "versions": {"tvm": "0.27"}})
        for task in profile.tasks:
            if task.name not in gains:
                continue
            gain = gains[task.name]
            final = Final(1 if gain > 1 else 0, 100.0, 1.0, 100.0 / gain, 1.0, 1, 11, FASTER if gain > 1 else NOT_FASTER, "why")
            progress = TaskProgress(task.task, task.name, task.weight, final=final, trials=2)
            item = Trial(task.task, 1, OK, "", "f", "search", "here", (100.0 / gain,), 1, 0.0, 0.0, 0.0, None, None, 1.0, ("tile 1 4",))
            store.trials.add(item, trace_of(trace), progress)
            writer.append(
                structural_hash="1",
                module=module_of(task.name),
                trace=json.loads(trace_of(trace)),
                run_secs=[1e-4 / gain],
                target=target,
                args_info=None,
            )
    return session


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "library")


def test_a_new_session_with_the_same_kernel_and_target_finds_the_winner(tmp_path: Path, sessions: Any, library: Library) -> None:
    first = tune(sessions.write(tmp_path / "a", sessions.profile(["conv2d", "dense"])), gains={"conv2d": 2.0})
    collected = collect(first, library)
    assert [winner.kernel for winner in collected.added] == ["conv2d"]
    assert collected.added[0].gain == pytest.approx(2.0)
    second = sessions.write(tmp_path / "b", sessions.profile(["softmax", "conv2d"]))
    with second.store() as store:
        store.update_manifest({"target": SPEC.to_dict()})
        profile = store.profile()
    assert profile is not None
    conv2d = next(task.task for task in profile.tasks if task.name == "conv2d")
    found = library_winners(second, library)
    assert {task: [winner.model for winner in winners] for task, winners in found.items()} == {conv2d: ["net"]}
    (place,) = library_databases(second, library, [task.task for task in profile.tasks])
    (record,) = for_target(read_database(place), TARGET).records
    assert record.trace == json.loads(trace_of(1))
    assert library_databases(second, library, []) == ()


def test_another_target_finds_nothing(tmp_path: Path, sessions: Any, library: Library) -> None:
    collect(tune(sessions.write(tmp_path / "a", sessions.profile(["conv2d"])), gains={"conv2d": 2.0}), library)
    other = sessions.write(tmp_path / "b", sessions.profile(["conv2d"]))
    with other.store() as store:
        store.update_manifest({"target": replace(SPEC, config=json.dumps({**TARGET, "mcpu": "skylake"})).to_dict()})
    assert library_winners(other, library) == {}


def test_the_same_target_in_other_words_is_the_same(tmp_path: Path, sessions: Any, library: Library) -> None:
    collect(tune(sessions.write(tmp_path / "a", sessions.profile(["conv2d"])), gains={"conv2d": 2.0}), library)
    other = sessions.write(tmp_path / "b", sessions.profile(["conv2d"]))
    with other.store() as store:
        store.update_manifest({"target": replace(SPEC, config=json.dumps({**TARGET, "keys": ["x"], "tag": "y"})).to_dict()})
    assert len(library_winners(other, library)) == 1


def test_a_search_gets_the_winners_as_candidates_unless_it_is_told_not_to(tmp_path: Path, sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    library = Library()
    assert library.place == tmp_path / "data" / "tvm-workbench" / "library"
    directory = tune(sessions.write(tmp_path / "a", sessions.profile(["conv2d", "dense"])), gains={"conv2d": 2.0})
    collect(directory, library)
    with open_session(directory.path) as session:
        monkeypatch.setattr(WorkerProcess, "begin", lambda worker, kind, arguments: None)
        selection = session.stored_profile().select(share=1.0)
        assert len(session.tune(selection).request.transfer) == 1
        assert session.tune(selection, library=False).request.transfer == ()


def test_only_the_best_few_winners_of_a_kernel_are_kept(tmp_path: Path, sessions: Any, library: Library) -> None:
    for place, gain in enumerate([1.5, 3.0, 2.0, 5.0, 4.0, 1.2]):
        name = f"s{place}"
        added = collect(tune(sessions.write(tmp_path / name, sessions.profile(["conv2d"])), gains={"conv2d": gain}, trace=place + 1), library)
        assert bool(added.added) == (gain != 1.2)
    assert [round(winner.gain, 3) for winner in library.all()] == [5.0, 4.0, 3.0, 2.0]
    (folder,) = {path.parent for path in library.place.glob("*/*/winners.json")}
    assert len(read_database(folder).records) == 4


def test_the_same_schedule_is_kept_once_with_its_newest_times(tmp_path: Path, sessions: Any, library: Library) -> None:
    for place, gain in enumerate([2.0, 1.8]):
        collect(tune(sessions.write(tmp_path / f"s{place}", sessions.profile(["conv2d"])), gains={"conv2d": gain}), library)
    assert [round(winner.gain, 3) for winner in library.all()] == [1.8]


def test_what_did_not_win_is_no_winner(tmp_path: Path, sessions: Any, library: Library) -> None:
    directory = tune(sessions.write(tmp_path / "a", sessions.profile(["conv2d"])), gains={"conv2d": 0.9})
    with pytest.raises(SessionError, match="named a winner"):
        collect(directory, library)
    assert library.all() == []


def test_a_winner_whose_record_is_missing_is_left_out_and_named(tmp_path: Path, sessions: Any, library: Library) -> None:
    directory = tune(sessions.write(tmp_path / "a", sessions.profile(["conv2d"])), gains={"conv2d": 2.0})
    (directory.records / "database_tuning_record.json").write_text("")
    assert "records/ lacks it" in collect(directory, library).left_out["conv2d"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "workbench-library", "version": 1, "winners": [{}]}', "[" * 100_000])
def test_a_damaged_library_says_which_file_and_what_to_do(tmp_path: Path, sessions: Any, library: Library, text: str) -> None:
    directory = tune(sessions.write(tmp_path / "a", sessions.profile(["conv2d"])), gains={"conv2d": 2.0})
    collect(directory, library)
    (path,) = library.place.glob("*/*/winners.json")
    path.write_text(text)
    with pytest.raises(SessionError, match=r"winners\.json is damaged"):
        library.all()
    with pytest.raises(SessionError, match="--no-library"):
        library_winners(directory, library)


def test_the_place_is_that_of_the_xdg_specification(tmp_path: Path) -> None:
    assert library_place({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "tvm-workbench" / "library"
    assert library_place({"XDG_DATA_HOME": "relative"}) == library_place({}) == Path.home() / ".local/share/tvm-workbench/library"


def test_the_library_on_the_command_line(tmp_path: Path, sessions: Any, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tune(sessions.write(tmp_path / "a", sessions.profile(["conv2d", "dense"])), gains={"conv2d": 2.0})
    place = ["library", "--library", str(tmp_path / "shared")]
    assert main([*place, "list"]) == 0
    assert main([*place, "add", str(directory.path), "--json", str(tmp_path / "added.json")]) == 0
    assert [winner["kernel"] for winner in json.loads((tmp_path / "added.json").read_text())["added"]] == ["conv2d"]
    capsys.readouterr()
    assert main([*place, "find", "--session", str(directory.path)]) == 0
    assert "1 of 2 tasks" in capsys.readouterr().out
    assert main([*place, "list", "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)["winners"]) == 1
    with pytest.raises(SystemExit):
        main(["library"])


def test_a_winner_is_read_back_as_it_was_written(tmp_path: Path, sessions: Any, library: Library) -> None:
    (winner,) = collect(tune(sessions.write(tmp_path / "a", sessions.profile(["conv2d"])), gains={"conv2d": 2.0}), library).added
    assert library.all() == [winner]
    assert isinstance(winner, Winner)
    assert (winner.tvm, winner.target, winner.trial, winner.decisions) == ("0.27", "cpu", 1, ("tile 1 4",))
