"""What leaves a session and comes into one: archives that strangers made, tables for spreadsheets, records for stock TVM."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.chart_points import module_of
from tests.unit.search_fakes import TARGET, trace_of
from workbench.cli.main import main
from workbench.errors import EnvironmentFault, InputError, SessionError, WorkbenchError
from workbench.exchange import TRIAL_COLUMNS, export_records, is_archive, pack_session, trials_csv, trials_parquet, unpack_session, unpacking
from workbench.exchange.contents import CONTENTS, is_allowed
from workbench.records.trial import BUILD_ERROR, OK, Check, Trial
from workbench.records.tuning import TaskProgress
from workbench.session import SessionDirectory
from workbench.tuning_database import DatabaseWriter, read_database

HOSTILE = "=cmd|'/c calc'!A1\n<img src=x>"


def trial(number: int, **changes: Any) -> Trial:
    values: dict[str, Any] = {
        "task": "conv2d-1",
        "number": number,
        "status": OK,
        "error": "",
        "fingerprint": f"f{number}",
        "origin": "search",
        "conditions": "here",
        "times_us": (100.0 - number, 101.0),
        "runs": 1,
        "search_s": 0.0,
        "build_s": 0.0,
        "run_s": 0.0,
        "check": Check(1e-6, None, 0, 64, 1e-4, 1e-4),
        "best_us": 99.0,
        "measured_at": 1.7e9 + number,
        "decisions": ("tile 1 4", HOSTILE),
    }
    return Trial(**{**values, **changes})


@pytest.fixture
def full(session: SessionDirectory) -> SessionDirectory:
    """A session with a program, records, an applied module, trials, and things that stay at home."""
    with session.store() as store:
        store.trials.add(trial(1), trace_of(1), TaskProgress("conv2d-1", "conv2d", 2))
        store.trials.add(trial(2, status=BUILD_ERROR, times_us=(), check=None, error=HOSTILE), "", TaskProgress("conv2d-1", "conv2d", 2))
        store.add_command("profile", {"secret": 1})
        store.add_event("progress", {"phase": "secret"})
        store.set_worker(1, "ready")
    (session.program / "deep").mkdir(parents=True)
    (session.program / "module.json").write_text("{}")
    (session.program / "deep" / "params.bin").write_bytes(bytes(range(256)) * 1000)
    (session.path / "tuned").mkdir()
    (session.path / "tuned" / "model.so").write_bytes(b"\x7fELF")
    session.artifacts.mkdir()
    (session.artifacts / "scratch.so").write_bytes(b"x")
    session.log.write_text("secret")
    (session.program / "link").symlink_to("/etc/passwd")
    with DatabaseWriter(session.records) as writer:
        writer.append(structural_hash="1", module=module_of("conv2d"), trace=json.loads(trace_of(1)), run_secs=[1e-4], target=TARGET, args_info=None)
    return session


@pytest.fixture
def packed(full: SessionDirectory, tmp_path: Path) -> Path:
    path = tmp_path / "net.zip"
    pack_session(full, path, version="1")
    return path


# archives that we made


def test_an_archive_is_the_session_again_without_what_belongs_to_processes(full: SessionDirectory, packed: Path, tmp_path: Path) -> None:
    assert is_archive(packed)
    found = unpack_session(packed, tmp_path / "copy")
    names = {path.relative_to(found.path).as_posix() for path in found.path.rglob("*") if path.is_file()}
    assert names >= {"session.sqlite", "program/module.json", "program/deep/params.bin", "tuned/model.so", "records/database_tuning_record.json"}
    assert not any(name.startswith("artifacts") or name in ("worker.log", "program/link") for name in names)
    with full.store() as ours, found.store() as theirs:
        assert theirs.profile() == ours.profile()
        assert theirs.trials.all() == ours.trials.all()
        assert theirs.trials.trace("conv2d-1", 1) == trace_of(1)
        assert (theirs.worker(), theirs.last_event(), theirs.open_commands()) == (None, 0, ())
    assert b"secret" not in (found.path / "session.sqlite").read_bytes()


def test_equal_sessions_are_equal_archives(full: SessionDirectory, packed: Path, tmp_path: Path) -> None:
    pack_session(full, tmp_path / "again.zip", version="1")
    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()


def test_a_session_is_packed_while_a_worker_writes_to_it(full: SessionDirectory, tmp_path: Path) -> None:
    with full.store() as store:
        for number in range(10, 200):
            store.trials.add(trial(number, times_us=(1.5,)), "", TaskProgress("conv2d-1", "conv2d", 2))
            if number == 100:
                pack_session(full, tmp_path / "live.zip", version="1")
    with unpack_session(tmp_path / "live.zip", tmp_path / "live").store() as store:
        assert len(store.trials.all()) == 2 + 91


def test_what_is_there_is_not_overwritten(packed: Path, tmp_path: Path, full: SessionDirectory) -> None:
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "mine").write_text("x")
    for target in (full.path, tmp_path / "busy", packed):
        with pytest.raises(SessionError, match="there already"):
            unpack_session(packed, target)
    assert (tmp_path / "busy" / "mine").read_text() == "x"


# archives that others made

Edit = Callable[[dict[str, Any]], None]


def forged(
    packed: Path, path: Path, *, files: dict[str, bytes] | None = None, drop: str = "", entry: zipfile.ZipInfo | None = None, told: bool = True
) -> Path:
    """The archive with other files; `told` lets its contents name them too."""
    import hashlib  # noqa: PLC0415 - only the forger needs it

    with zipfile.ZipFile(packed) as source:
        members = {name: source.read(name) for name in source.namelist() if name != drop}
        contents = json.loads(members.pop(CONTENTS))
    members |= files or {}
    if entry is not None:
        members.pop(entry.filename, None)
    if told:
        everything = {**members, **({entry.filename: b"/etc"} if entry else {})}
        contents["files"] = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in everything.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr(CONTENTS, json.dumps(contents))
        for name, data in members.items():
            target.writestr(name, data)
        if entry is not None:
            target.writestr(entry, b"/etc")
    return path


def refused(path: Path, tmp_path: Path, words: str) -> None:
    before = {item.name for item in tmp_path.iterdir()}
    with pytest.raises(WorkbenchError, match=words):
        unpack_session(path, tmp_path / "evil")
    assert {item.name for item in tmp_path.iterdir()} == before, "nothing is left of a refused archive"


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/evil",
        "program/../../evil",
        "program/./evil",
        "program//evil",
        "program\\evil",
        "C:/evil",
        "program/",
        "program/.hidden",
        "evil",
        "worker.lock",
        "session.sqlite-wal",
        "artifacts/evil.so",
        "program/\u202eevil",
        "module-../x.json",
        "program/" + "a/" * 9 + "b",
        "program/" + "a" * 300,
    ],
)
def test_a_file_that_no_session_has_is_refused_wherever_it_wants_to_go(packed: Path, tmp_path: Path, name: str) -> None:
    assert not is_allowed(name)
    refused(forged(packed, tmp_path / "f.zip", files={name: b"x"}), tmp_path, "no file that a session has|is no file but|damaged")


def test_a_name_with_an_end_in_its_middle_is_refused(packed: Path, tmp_path: Path) -> None:
    path = forged(packed, tmp_path / "f.zip", files={"program/aXb": b"x"})
    path.write_bytes(path.read_bytes().replace(b"program/aXb", b"program/a\0b"))
    refused(path, tmp_path, "no file that a session has|damaged")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_folders_and_devices_are_refused(packed: Path, tmp_path: Path, kind: int) -> None:
    entry = zipfile.ZipInfo("program/x")
    entry.external_attr = (kind | 0o777) << 16
    refused(forged(packed, tmp_path / "f.zip", entry=entry), tmp_path, "a link, a folder or a device")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_is_refused_in_any_case(packed: Path, tmp_path: Path) -> None:
    refused(forged(packed, tmp_path / "f.zip", files={"program/MODULE.json": b"{}"}), tmp_path, "twice")
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("program/module.json", b"[]")
    refused(packed, tmp_path, "twice")


def test_a_bomb_is_refused_before_it_goes_off(packed: Path, tmp_path: Path) -> None:
    refused(forged(packed, tmp_path / "f.zip", files={"program/zeros": bytes(100 << 20)}), tmp_path, "would unpack to")


def test_a_file_that_is_larger_than_it_says_is_refused_when_it_gets_there(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_compare", lambda *_: None)  # as if its directory lied in the same way
    with zipfile.ZipFile(packed) as source:
        contents = json.loads(source.read(CONTENTS))
    contents["files"]["program/deep/params.bin"]["bytes"] = 1000
    path = forged(packed, tmp_path / "f.zip", told=False)
    with zipfile.ZipFile(path) as source:
        members = {name: source.read(name) for name in source.namelist()}
    with zipfile.ZipFile(path, "w") as target:
        for name, data in {**members, CONTENTS: json.dumps(contents).encode()}.items():
            target.writestr(name, data)
    refused(path, tmp_path, "not what was packed")


def test_sizes_and_digests_have_to_be_those_of_the_contents(packed: Path, tmp_path: Path) -> None:
    refused(forged(packed, tmp_path / "a.zip", files={"program/module.json": b"[]"}, told=False), tmp_path, "not what was packed")
    refused(forged(packed, tmp_path / "b.zip", files={"program/more.json": b"[]"}, told=False), tmp_path, "not as")
    refused(forged(packed, tmp_path / "c.zip", drop="program/module.json", told=False), tmp_path, "not as")
    refused(forged(packed, tmp_path / "d.zip", drop="session.sqlite"), tmp_path, "holds no session.sqlite")
    refused(forged(packed, tmp_path / "e.zip", files={"session.sqlite": b"SQLite format 3\x00"}), tmp_path, "no workbench session|damaged|empty")


def test_archives_that_are_damaged_or_of_another_kind_or_newer_say_so(packed: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.zip"
    cut.write_bytes(packed.read_bytes()[:-200])
    refused(cut, tmp_path, "damaged")
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("session.sqlite", b"x")
    assert not is_archive(other)
    refused(other, tmp_path, "holds no workbench-session.json")
    for changes, words in (({"format": "x"}, "another kind"), ({"version": 99}, "newer workbench"), ({"files": 3}, "damaged")):
        path = tmp_path / "new.zip"
        with zipfile.ZipFile(packed) as source, zipfile.ZipFile(path, "w") as target:
            for name in source.namelist():
                data = source.read(name)
                target.writestr(name, json.dumps({**json.loads(data), **changes}) if name == CONTENTS else data)
        refused(path, tmp_path, words)
        path.unlink()


# tables and records


def test_trials_as_csv_have_a_line_each_and_no_formula() -> None:
    text = trials_csv([trial(1), replace(trial(2), status=BUILD_ERROR, times_us=(), error=HOSTILE)], {"conv2d-1": HOSTILE})
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == TRIAL_COLUMNS
    assert (rows[0]["number"], rows[0]["time_us"], rows[0]["times_us"], rows[0]["mismatches"]) == ("1", "100.0", "99 101", "0")
    assert (rows[1]["status"], rows[1]["time_us"]) == (BUILD_ERROR, "")
    assert all(not row[name].startswith("=") and "\n" not in row[name] for row in rows for name in ("kernel", "error", "decisions"))


def test_parquet_needs_pyarrow_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentFault, match="pyarrow"):
        trials_parquet([trial(1)], {}, tmp_path / "a.parquet")


def test_trials_as_parquet_keep_their_lists(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    trials_parquet([trial(1)], {"conv2d-1": "conv"}, tmp_path / "a.parquet")
    frame = pd.read_parquet(tmp_path / "a.parquet")
    assert list(frame["times_us"][0]) == [99.0, 101.0]


def test_records_are_exported_as_a_database_of_their_own(full: SessionDirectory, tmp_path: Path) -> None:
    assert export_records(full, tmp_path / "db") == 1
    assert [record.trace_json for record in read_database(tmp_path / "db").records] == [
        record.trace_json for record in read_database(full.records).records
    ]
    with pytest.raises(InputError, match="already"):
        export_records(full, tmp_path / "db")


def test_a_session_without_records_says_so(session: SessionDirectory, tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="no records"):
        export_records(session, tmp_path / "db")


# commands


def test_export_and_import_on_the_command_line(full: SessionDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--session", str(full.path)]
    archive = tmp_path / "a.zip"
    assert (
        main(["export", *place, "--archive", str(archive), "--trials", str(tmp_path / "t.csv"), "--records", str(tmp_path / "db"), "--json", "-"])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert (told["trials"]["trials"], told["records"]["records"]) == (2, 1)
    assert main(["import", str(archive), "--session", str(tmp_path / "new"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["session"] == str(tmp_path / "new")
    assert main(["import", str(archive), "--session", str(tmp_path / "new")]) == 2
    assert main(["export", *place]) == 2
    assert main(["export", *place, "--archive", str(tmp_path / "missing" / "a.zip")]) == 2
    assert main(["import", str(tmp_path / "t.csv")]) == 2
    capsys.readouterr()
    assert main(["export", *place, "--trials", "-"]) == 0
    assert capsys.readouterr().out.startswith("task,kernel,number,")
