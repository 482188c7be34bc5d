"""The command line without TVM: where options stand, what results hold, and one sentence with a remedy for all that is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.command_line import Answer
from workbench.errors import WorkbenchError
from workbench.session import SessionDirectory

HANG_S = 60
ROW_KEYS = ["row", "node_name", "ops", "origins", "time_us", "time_us_iqr", "time_percent", "shape", "dtype", "inputs", "outputs", "flop"]
ROW_KEYS += ["gflops", "kernel", "task", "untunable"]
TASK_KEYS = ["task", "name", "weight", "rows", "time_us", "flop", "space_size", "shapes"]


def shell(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which $W is the command line, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "W": f"{sys.executable} -m workbench.cli.main", **variables}
    return subprocess.run(  # noqa: S602 - pipes and closed streams are what is tested
        script, shell=True, executable="/bin/bash", cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False
    )


def is_one_sentence_with_a_remedy(answer: Answer | subprocess.CompletedProcess[str]) -> bool:
    err = answer.err if isinstance(answer, Answer) else answer.stderr
    return (
        err.startswith("workbench: ")
        and err.count("\n") == 1
        and err.strip().isprintable()
        and len(err) < 900
        and err.count(". ") + err.count("? ") >= 1
    )


# where options stand


@pytest.mark.parametrize("arguments", [("--json", "-", "models"), ("models", "--json", "-"), ("-q", "models", "-v", "--json", "-")])
def test_an_option_may_stand_before_or_after_the_command(arguments: tuple[str, ...], call: Callable[..., Answer]) -> None:
    answer = call(*arguments)
    assert answer.code == 0
    assert {"name", "kind", "description"} == set(json.loads(answer.out)[0])


def test_the_later_place_of_an_option_counts(call: Callable[..., Answer]) -> None:
    assert call("--json", "a.json", "models", "--json", "b.json").code == 0
    assert [path.name for path in Path().iterdir()] == ["b.json"]


def test_models_lists_all_bundled_models(call: Callable[..., Answer]) -> None:
    answer = call("models")
    names = [line.split()[0] for line in answer.out.splitlines()]
    assert names[:9] == ["alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19", "zfnet512"]
    assert "conv2d_relu" in names
    assert answer.err == ""


def test_no_command_shows_the_help_and_is_bad_input(call: Callable[..., Answer]) -> None:
    answer = call()
    assert (answer.code, answer.out) == (2, "")
    assert "COMMAND" in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("\x1b[31mred\n",),
        ("models", "--nonsense"),
        ("models", "--js", "-"),
        ("models", "\x1b[31m"),
        ("profile",),
        ("profile", "m", "--layout", "nhwc"),
        *(("profile", "m", option, value) for option in ("--repeat", "--threads") for value in ("0", "-1", "x", "1e3", "9" * 5000, "²")),
        ("profile", "m", "--threads", "100000"),
        ("profile", "m", "--seed", "-1"),
        ("select", "--top", "x"),
        ("select", "--share"),
    ],
)
def test_a_malformed_command_line_is_one_sentence(arguments: tuple[str, ...], call: Callable[..., Answer]) -> None:
    answer = call(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert is_one_sentence_with_a_remedy(answer), answer.err
    assert "--help" in answer.err


# what results hold


def test_tasks_as_json_has_the_promised_keys_and_nothing_else_is_printed(session: SessionDirectory, call: Callable[..., Answer]) -> None:
    answer = call("tasks", "--session", str(session.path), "--json", "-", "-q")
    tasks = json.loads(answer.out)["tasks"]
    assert (answer.code, answer.err) == (0, "")
    assert [task["weight"] for task in tasks] == [2, 1, 1]
    for task in tasks:
        assert set(TASK_KEYS) <= set(task)
        assert len(task["rows"]) == task["weight"]


def test_a_profile_as_json_has_the_promised_keys(session: SessionDirectory) -> None:
    with session.store() as store:
        profile = store.profile()
    assert profile is not None
    values = profile.to_dict()
    assert {"model", "engine", "target", "total_us", "rows_us", "rows", "tasks", "measured"} <= set(values)
    assert [set(ROW_KEYS) - set(row) for row in values["rows"]] == [set()] * 5
    assert values["rows"][0]["origins"] == ["Conv /c0", "Relu /r (line 3)"]
    assert values["measured"] is True


def test_a_selection_is_made_shown_exported_and_imported(session: SessionDirectory, call: Callable[..., Answer]) -> None:
    place = ("--session", str(session.path))
    nothing = call("select", *place)
    assert nothing.code == 2
    assert is_one_sentence_with_a_remedy(nothing)
    made = call("select", *place, "--top", "2", "--export", "s.json", "--json", "-")
    assert made.code == 0
    values = json.loads(made.out)
    assert set(values) == {"format", "version", "model", "target", "rule", "notes", "rows", "tasks"}
    assert [task["name"] for task in values["tasks"]] == ["conv2d", "dense"]
    assert json.loads(Path("s.json").read_text()) == values
    assert json.loads(call("select", *place, "--json", "-").out) == values
    assert call("select", *place, "--ops", "softmax").code == 0
    assert json.loads(call("select", *place, "--import", "s.json", "--export", "-").out)["tasks"] == values["tasks"]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (["--share", "0.5"], ["conv2d"]),
        (["--top", "1"], ["conv2d"]),
        (["--rows", "1,3"], ["dense", "softmax"]),
        (["--rows", "2-3"], ["conv2d", "softmax"]),
        (["--tasks", "softmax,dense"], ["dense", "softmax"]),
        (["--tasks", "softmax", "dense"], ["dense", "softmax"]),
        (["--ops", "relu", "--top", "2"], ["conv2d", "dense"]),
    ],
)
def test_every_rule_ticks_its_tasks(rule: list[str], names: list[str], session: SessionDirectory, call: Callable[..., Answer]) -> None:
    answer = call("select", "--session", str(session.path), *rule, "--json", "-")
    assert [task["name"] for task in json.loads(answer.out)["tasks"]] == names


@pytest.mark.parametrize(
    "rule",
    [
        ["--top", "0"],
        ["--top", "-1"],
        ["--share", "0"],
        ["--share", "nan"],
        ["--share", "2"],
        ["--rows", "9"],
        ["--rows", "x"],
        ["--rows", ""],
        ["--rows", "0-" + "9" * 5000],
        ["--tasks", "nowhere\x1b[31m"],
        ["--tasks", "<script>"],
        ["--ops", "x" * 10_000],
        ["--import", "nowhere.json"],
        ["--import", "."],
        ["--import", "/dev/zero"],
        ["--import", "s.json", "--top", "1"],
    ],
)
def test_a_rule_that_names_nothing_is_refused_and_the_old_selection_stays(
    rule: list[str], session: SessionDirectory, call: Callable[..., Answer]
) -> None:
    place = ("--session", str(session.path))
    before = call("select", *place, "--top", "1", "--json", "-").out
    answer = call("select", *place, *rule)
    assert (answer.code, answer.out) == (2, "")
    assert is_one_sentence_with_a_remedy(answer), answer.err
    assert call("select", *place, "--json", "-").out == before


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"5", b"\xff\xfe", b'{"format": "workbench-selection"}', b"x" * 1_000_001, b"[" * 100_000])
def test_a_file_that_is_no_selection_is_refused(content: bytes, session: SessionDirectory, call: Callable[..., Answer]) -> None:
    Path("s.json").write_bytes(content)
    answer = call("select", "--session", str(session.path), "--import", "s.json")
    assert answer.code == 2
    assert is_one_sentence_with_a_remedy(answer), answer.err


# which session


def test_without_a_place_the_latest_session_is_meant_and_named(sessions: Any, call: Callable[..., Answer]) -> None:
    answer = call("tasks")
    assert answer.code == 2
    assert "workbench profile MODEL" in answer.err
    sessions.write(Path("workbench-sessions/net-cpu"), sessions.profile(["conv2d"]))
    answer = call("tasks")
    assert answer.code == 0
    assert answer.err == "session: workbench-sessions/net-cpu\n"


@pytest.mark.parametrize("place", ["nowhere", ".", "file", "x" * 10_000, "", " ", "\x1b[31m", "/dev/null", "file/below"])
@pytest.mark.parametrize("command", ["tasks", "select"])
def test_a_place_without_a_session_is_refused(command: str, place: str, call: Callable[..., Answer]) -> None:
    Path("file").touch()
    answer = call(command, "--session", place)
    assert answer.code == 2
    assert is_one_sentence_with_a_remedy(answer), answer.err
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_a_session_without_a_profile_says_how_to_make_one(call: Callable[..., Answer]) -> None:
    SessionDirectory.create(Path("s"))
    answer = call("tasks", "--session", "s")
    assert answer.code == 2
    assert "workbench profile MODEL" in answer.err


# where results go


@pytest.mark.parametrize("what", ["--json of tasks", "--csv of tasks", "--export of select", "--json of models"])
@pytest.mark.parametrize(("place", "code"), [("nowhere/x", 2), (".", 2), ("", 2), ("x" * 300, 2), ("/proc/x", 3), ("file/below", 2)])
def test_a_result_that_can_go_nowhere_is_refused_before_the_work(
    what: str, place: str, code: int, session: SessionDirectory, call: Callable[..., Answer]
) -> None:
    option, _, command = what.split()
    Path("file").touch()
    answer = call(command, "--session", str(session.path), *(["--top", "1"] if command == "select" else []), option, place)
    assert answer.code == code or (place == "x" * 300 and answer.code == 3)  # how long a name may be depends on the file system
    assert answer.out == ""
    assert is_one_sentence_with_a_remedy(answer), answer.err
    with session.store() as store:
        assert store.selection() is None


def test_two_results_cannot_both_go_to_standard_output(session: SessionDirectory, call: Callable[..., Answer]) -> None:
    answer = call("tasks", "--session", str(session.path), "--json", "-", "--csv", "-")
    assert (answer.code, answer.out) == (2, "")
    assert is_one_sentence_with_a_remedy(answer)


@pytest.mark.parametrize("full", [True, False])
def test_a_result_on_a_full_or_read_only_disk_leaves_the_old_file(
    full: bool, small_medium: Any, session: SessionDirectory, call: Callable[..., Answer]
) -> None:
    old = small_medium.path / "t.json"
    old.write_text("old")
    if full:
        small_medium.fill()
    else:
        small_medium.make_read_only()
    for option in ("--json", "--csv"):
        answer = call("tasks", "--session", str(session.path), option, str(old))
        assert answer.code == 3
        assert is_one_sentence_with_a_remedy(answer), answer.err
    assert old.read_text() == "old"
    assert {path.name for path in small_medium.path.iterdir()} <= {"t.json", "ballast"}


def test_a_result_behind_a_link_is_replaced_and_the_link_and_the_mode_stay(session: SessionDirectory, call: Callable[..., Answer]) -> None:
    Path("real.json").write_text("old")
    Path("real.json").chmod(0o640)
    Path("link.json").symlink_to("real.json")
    assert call("tasks", "--session", str(session.path), "--json", "link.json").code == 0
    assert Path("link.json").is_symlink()
    assert len(json.loads(Path("real.json").read_text())["tasks"]) == 3
    assert Path("real.json").stat().st_mode & 0o777 == 0o640


def test_csv_on_standard_output_is_nothing_but_csv(session: SessionDirectory, call: Callable[..., Answer]) -> None:
    answer = call("tasks", "--session", str(session.path), "--csv", "-")
    assert answer.out.startswith("Task,Name,")
    assert answer.out.count("\n") == 4


# faults


def test_an_error_nobody_foresaw_is_one_sentence_and_its_text_only_on_demand(call: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("one\nover nothing")

    monkeypatch.setattr("workbench.cli.models.bundled_models", fail)
    answer = call("models")
    assert answer.code == 3
    assert is_one_sentence_with_a_remedy(answer), answer.err
    assert "Traceback" in call("models", "-v").err


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (MemoryError(), 3), (OSError(28, "No space left on device", "/x"), 3), (WorkbenchError("No."), 1)]
)
def test_every_kind_of_error_has_its_exit_code(error: BaseException, code: int, call: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("workbench.cli.models.bundled_models", fail)
    answer = call("models")
    assert answer.code == code
    assert answer.err.count("\n") == 1


def test_names_of_strangers_reach_no_terminal_as_they_are(tmp_path: Path, sessions: Any, call: Callable[..., Answer]) -> None:
    names = [
        "<script>alert(1)</script>",
        "a\"b'c",
        "a\nb\r\n",
        "\x1b[31mred\x1b[0m",
        "свёртка畳",
        "\u202eabc",
        "\ud800",
        "x" * 10_000,
        "[bold]x[/bold]",
    ]
    profile = sessions.profile(names, model="\x1b]0;title\x07", notes=["\x1b[2J"])
    sessions.write(tmp_path / "s", profile)
    for arguments in (("tasks",), ("select", "--top", "9"), ("select", "--tasks", "\x1b[31mred\x1b[0m")):
        answer = call(*arguments, "--session", "s")
        assert answer.code == 0, answer.err
        for text in (answer.out, answer.err):
            assert all(sign.isprintable() or sign == "\n" for sign in text)
            assert all(len(line) < 1000 for line in text.splitlines())
        assert json.loads(call(*arguments, "--session", "s", "--json", "-").out)
        answer = call("tasks", "--session", "s", "--csv", "t.csv")
        assert answer.code == 0


# streams


def test_a_reader_that_goes_early_ends_it_quietly(tmp_path: Path, sessions: Any) -> None:
    sessions.write(tmp_path / "s", sessions.profile([f"kernel{index}" for index in range(3000)]))
    done = shell("$W tasks --session s | head -1; echo ${PIPESTATUS[0]}; $W tasks --session s --json - | head -1; echo ${PIPESTATUS[0]}", tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Task")
    assert lines[1:] == ["0", "{", "0"]
    assert done.stderr == ""


def test_closed_streams_and_odd_encodings_are_no_errors(tmp_path: Path, sessions: Any) -> None:
    sessions.write(tmp_path / "s", sessions.profile(["свёртка", "畳"]))
    for script in ("$W tasks --session s <&-", "$W models >&-", "$W models >&- 2>&-", "$W tasks --session s --csv -"):
        done = shell(script, tmp_path, LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        assert (done.returncode, done.stderr) == (0, ""), script
        assert done.stdout.isascii()
    done = shell("$W tasks --session nowhere 2>&-", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_full_standard_output_is_one_sentence(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    for command in ("$W models", "$W models --json -", "$W models --json /dev/full"):
        done = shell(f"{command} > /dev/full", tmp_path)
        assert done.returncode == 3
        assert is_one_sentence_with_a_remedy(done), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tasks", "--session", "s", "--json", "s/session.sqlite"), "part of a session"),
        (("select", "--session", "s", "--top", "1", "--export", "s/worker.log"), "part of a session"),
        (("profile", "m.onnx", "--csv", "m.onnx"), "overwrite the model"),
        (("tasks", "--session", "s", "--json", "out", "--csv", "out"), "the same file"),
    ],
)
def test_a_result_never_overwrites_what_it_comes_from(
    arguments: tuple[str, ...], message: str, tmp_path: Path, sessions: Any, call: Callable[..., Answer]
) -> None:
    sessions.write(tmp_path / "s", sessions.profile(["conv2d"]))
    (tmp_path / "s" / "worker.log").write_text("log")
    (tmp_path / "m.onnx").write_text("model")
    (tmp_path / "out").write_text("old")
    answer = call(*arguments)
    assert (answer.code, message in answer.err) == (2, True), answer.err
    assert (tmp_path / "m.onnx").read_text() == "model"
    assert call("tasks", "--session", "s").code == 0
