"""The session directory: how it comes into being, who serves it, and what is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import EnvironmentFault, SessionError
from workbench.records.selection import Selection
from workbench.session import SessionDirectory, default_path, is_session, latest_session

HANG_S = 60
HOLDER = """
import sys
from pathlib import Path
from workbench.session import SessionDirectory
with SessionDirectory(Path(sys.argv[1])).lock() as mine:
    print(mine, flush=True)
    sys.stdin.read(1)
"""


def test_a_directory_that_was_made_goes_with_the_folders_made_for_it(tmp_path: Path) -> None:
    directory = SessionDirectory.create(tmp_path / "a" / "b" / "c")
    for name in ("worker.log", "worker.lock", "module-12ab.json", ".module-x.json"):
        (directory.path / name).touch()
    for name in ("program", "program-1", "program.partial-7", "artifacts/outputs-2"):
        (directory.path / name).mkdir(parents=True)
    directory.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_was_there_before_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    SessionDirectory.create(tmp_path / "mine").discard()
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


def test_files_of_others_are_kept(tmp_path: Path) -> None:
    directory = SessionDirectory.create(tmp_path / "s")
    (directory.path / "notes.txt").touch()
    directory.discard()
    assert list(directory.path.iterdir()) == [directory.path / "notes.txt"]


def test_a_session_that_holds_a_profile_or_was_there_before_is_not_discarded(tmp_path: Path, sessions: Any) -> None:
    profiled = sessions.write(tmp_path / "one", sessions.profile(["conv2d"]))
    profiled.discard()
    SessionDirectory.create(tmp_path / "two")
    SessionDirectory.create(tmp_path / "two").discard()
    assert is_session(tmp_path / "one")
    assert is_session(tmp_path / "two")


def test_a_session_on_which_another_front_waits_is_not_discarded(tmp_path: Path) -> None:
    directory = SessionDirectory.create(tmp_path / "s")
    with directory.store() as store:
        number = store.add_command("profile", {})
        directory.discard()
        directory.discard(own_commands={number + 1})
        assert is_session(directory.path)
    directory.discard(own_commands={number})
    assert not directory.path.exists()


def test_a_scratch_folder_is_new_and_goes_with_what_is_in_it(tmp_path: Path) -> None:
    directory = SessionDirectory.create(tmp_path / "s")
    with directory.scratch(7) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "x.so").touch()
        assert folder.parent == directory.artifacts
        with pytest.raises(SessionError, match="there already"), directory.scratch(7):
            pass
        assert (folder / "deep" / "x.so").exists()
    assert list(directory.artifacts.iterdir()) == []


@pytest.mark.parametrize("name", ["artifacts", "artifacts/build-7"])
@pytest.mark.parametrize("target", ["victim", "nowhere"])
def test_a_scratch_folder_never_lies_behind_a_link(tmp_path: Path, name: str, target: str) -> None:
    directory = SessionDirectory.create(tmp_path / "s")
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "mine.txt").touch()
    before = sorted((tmp_path / "victim").rglob("*"))
    link = directory.path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / target)
    with pytest.raises(SessionError, match=r"leads out|there already"), directory.scratch(7):
        pass
    assert sorted((tmp_path / "victim").rglob("*")) == before
    assert not (tmp_path / "nowhere").exists()
    assert link.is_symlink()


def test_a_records_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    directory = SessionDirectory.create(tmp_path / "s")
    assert directory.records == directory.path / "records"
    (directory.path / "records").symlink_to(tmp_path)
    with pytest.raises(SessionError, match="leads out of the session"):
        _ = directory.records


@pytest.mark.parametrize("name", ["file", "full"])
def test_a_place_that_holds_something_else_is_refused_and_untouched(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "photo.jpg").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SessionError, match=r"--session DIR"):
        SessionDirectory.create(tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["x" * 300, "file/below", "/proc/nowhere"])
def test_a_place_that_cannot_be_is_an_environment_fault(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match=r"--session DIR"):
        SessionDirectory.create(tmp_path / name)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_on_a_full_disk_no_directory_is_left(small_medium: Any) -> None:
    small_medium.fill()
    with pytest.raises(EnvironmentFault):
        SessionDirectory.create(small_medium.path / "a" / "b")
    assert [path.name for path in small_medium.path.iterdir()] == ["ballast"]


def test_on_a_read_only_medium_no_session_can_be_made(small_medium: Any) -> None:
    small_medium.make_read_only()
    with pytest.raises(EnvironmentFault, match=r"Read-only"):
        SessionDirectory.create(small_medium.path / "a" / "b")


def test_a_session_keeps_its_place_when_the_process_changes_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    directory = SessionDirectory.create(Path("s"))
    monkeypatch.chdir("/")
    directory.store().close()
    assert directory.path == tmp_path / "s"


@pytest.mark.parametrize("name", ["", "nowhere", "x" * 5000, "a\0b"])
def test_what_cannot_be_a_session_is_none(name: str, tmp_path: Path) -> None:
    assert not is_session(tmp_path / name)


def test_one_process_holds_the_lock_and_it_ends_with_that_process(session: SessionDirectory) -> None:
    assert not session.is_served()
    command = [sys.executable, "-c", HOLDER, str(session.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert session.is_served()
        with session.lock() as mine:
            assert not mine
        holder.kill()
        holder.wait(HANG_S)
    assert not session.is_served()
    with session.lock() as mine:
        assert mine


def test_storing_a_profile_that_was_cut_short_is_finished_later(session: SessionDirectory) -> None:
    for place, text in ((session.program, "old"), (session.new_program("7"), "new"), (session.new_program("8"), "never stored")):
        place.mkdir()
        (place / "module.json").write_text(text)
    session.settle_program("7")
    session.sweep()
    session.settle_program("7")
    assert (session.program / "module.json").read_text() == "new"
    assert [path.name for path in session.path.glob("program*")] == ["program"]
    session.settle_program(None)
    assert session.program.is_dir()


def test_links_of_a_stranger_lead_nowhere(session: SessionDirectory, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "outputs-2").mkdir(parents=True)
    (theirs / "text").write_text("mine")
    session.artifacts.symlink_to(theirs)
    session.program.symlink_to(theirs)
    session.log.symlink_to(theirs / "text")
    (session.path / "worker.lock").symlink_to(theirs / "text")
    session.sweep()
    for act in (lambda: session.outputs("2"), lambda: session.settle_program("1/../../theirs"), lambda: session.module("../x")):
        with pytest.raises(SessionError):
            act()
    with pytest.raises(OSError, match=r"symbolic"):
        session.open_log()
    with pytest.raises(OSError, match=r"symbolic"), session.lock():
        pass
    session.new_program("7").mkdir()
    session.settle_program("7")
    assert not session.program.is_symlink()
    assert (theirs / "text").read_text() == "mine"
    assert (theirs / "outputs-2").is_dir()


def test_the_latest_session_is_the_one_profiled_or_selected_from_last(tmp_path: Path, sessions: Any) -> None:
    assert latest_session(tmp_path) is None
    one = sessions.write(tmp_path / "one", sessions.profile(["a"]))
    two = sessions.write(tmp_path / "two", sessions.profile(["b"]))
    (tmp_path / "file").touch()
    os.utime(one.database, (2e9, 2e9))
    SessionDirectory.create(tmp_path / "never profiled")
    assert latest_session(tmp_path) == two.path
    with one.store() as store:
        store.set_worker(1, "ready")
        store.add_event("progress", {})
        assert latest_session(tmp_path) == two.path
        store.write_selection(Selection("net", "cpu", (), (), "by hand"))
        assert latest_session(tmp_path) == one.path


@pytest.mark.parametrize(
    ("model", "target", "place"),
    [
        ("squeezenet", "cpu", "squeezenet-cpu"),
        ("../../etc", "cuda-sm_90", "_._etc-cuda-sm_90"),
        ("a b/c\n", "cpu", "a_b_c_-cpu"),
        ("", "", "unnamed-unnamed"),
    ],
)
def test_the_default_place_is_below_workbench_sessions_whatever_the_names(model: str, target: str, place: str) -> None:
    path = default_path(model, target)
    assert path.parent == Path("workbench-sessions")
    assert path.name == place


# the applied model


def applied_model(directory: SessionDirectory, text: str) -> Path:
    folder = directory.path / f"new-{text}"
    folder.mkdir()
    (folder / "model.so").write_text(text)
    return folder


def test_an_applied_model_replaces_the_one_before_it(tmp_path: Path) -> None:
    directory = SessionDirectory.create(tmp_path / "s")
    for text in ("first", "second"):
        with directory.replacing_tuned(applied_model(directory, text)):
            pass
        assert (directory.tuned / "model.so").read_text() == text
    assert not (directory.path / "tuned.old").exists()


def test_the_applied_model_comes_back_if_its_successor_is_not_stored(tmp_path: Path) -> None:
    directory = SessionDirectory.create(tmp_path / "s")
    with directory.replacing_tuned(applied_model(directory, "first")):
        pass
    with pytest.raises(KeyError), directory.replacing_tuned(applied_model(directory, "second")):
        raise KeyError
    assert (directory.tuned / "model.so").read_text() == "first"
    with pytest.raises(KeyError), SessionDirectory.create(tmp_path / "new").replacing_tuned(applied_model(directory, "third")):
        raise KeyError
    assert not (tmp_path / "new" / "tuned").exists()


def test_a_crash_between_two_applied_models_leaves_the_first(tmp_path: Path) -> None:
    directory = SessionDirectory.create(tmp_path / "s")
    applied_model(directory, "first").rename(directory.path / "tuned.old")
    directory.sweep()
    assert (directory.tuned / "model.so").read_text() == "first"
    applied_model(directory, "older").rename(directory.path / "tuned.old")
    directory.sweep()
    assert (directory.tuned / "model.so").read_text() == "first"
    assert not (directory.path / "tuned.old").exists()
