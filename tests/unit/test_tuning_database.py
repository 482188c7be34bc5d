"""A tuning database is read, filtered, merged, repaired and written whatever its state; no TVM is needed."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import EnvironmentFault, InputError
from workbench.records.target import TargetSpec
from workbench.tuning_database import (
    RECORD_FILE,
    WORKLOAD_FILE,
    Database,
    DatabaseWriter,
    TuningRecord,
    Workload,
    decisions,
    for_target,
    merge,
    read_database,
    reading,
    repair_database,
)

TARGET = {"keys": ["cpu"], "kind": "llvm", "mcpu": "znver5", "num-cores": 2, "tag": ""}
ARGS = [["TENSOR", "float32", [16, 16]]]
INSTRUCTIONS = [
    ["GetSBlock", [], ["C", "main"], ["b0"]],
    ["SamplePerfectTile", ["l2"], [4, 64], ["v5", "v6", "v7", "v8"]],
    ["SampleComputeLocation", ["b0"], [], ["l9"]],
    ["SampleCategorical", [], [[0, 16, 64], [0.5, 0.25, 0.25]], ["v9"]],
    ["Annotate", ["b0", "v9"], ["meta_schedule.unroll_explicit"], []],
]


def module(name: str) -> str:
    text = json.dumps({"root_index": 0, "nodes": [name]}).encode()
    return base64.b64encode(len(text).to_bytes(8, "little") + text).decode()


def workload(name: str) -> str:
    return json.dumps(["123", module(name)], separators=(",", ":"))


def trace(tile: int = 1) -> list[Any]:
    return [INSTRUCTIONS, [[1, [tile, 4, 7, 2]], [2, -1], [3, 2]]]


def record(index: Any = 0, tile: int = 1, seconds: Any = (0.001, 0.003), target: Any = TARGET, **changes: Any) -> str:
    return json.dumps([index, [changes.get("trace", trace(tile)), seconds, target, changes.get("args", ARGS)]])


def raw_record(seconds: str) -> bytes:
    return record(seconds=["@"]).replace('"@"', seconds).encode()


def joined(*lines: str | bytes) -> bytes:
    return b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)


GOOD = (workload("a"), workload("b"))


def put(folder: Path, records: bytes, workloads: bytes = joined(*GOOD)) -> Path:
    (folder / WORKLOAD_FILE).write_bytes(workloads)
    (folder / RECORD_FILE).write_bytes(records)
    return folder


def test_a_sound_database_is_read(tmp_path: Path) -> None:
    database = read_database(put(tmp_path, joined(record(0), record(1, seconds=[1e10]), record(1, 2, seconds=None, target=None))))
    first, failed, untimed = database.records
    assert not database.bad_lines
    assert first.workload == Workload("123", module("a"))
    assert failed.workload.module == module("b")
    assert (first.trace, first.run_secs, first.target, first.args_info, first.line) == (trace(), (0.001, 0.003), TARGET, ARGS, 1)
    assert first.time_us == pytest.approx(2000)
    assert (failed.run_secs, failed.time_us, untimed.run_secs, untimed.time_us, untimed.target) == ((1e10,), None, None, None, None)


@pytest.mark.parametrize("seconds", [[], [1e10], [-1.0], [0], [0.0, 1.0], [2e9], [-1, 3], [1e308, 1e308]])
def test_times_that_are_none_give_no_time(tmp_path: Path, seconds: list[float]) -> None:
    (kept,) = read_database(put(tmp_path, joined(record(seconds=seconds)))).records
    assert kept.time_us is None
    assert kept.run_secs == tuple(seconds)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_a_time_that_is_no_number_gives_no_time(seconds: float) -> None:
    assert TuningRecord(Workload("1", ""), "[[],[]]", (seconds,), "null", "null", 1).time_us is None


BAD_RECORDS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the line is empty"),
    "garbage": (b"garbage \x1b[31m", "not valid JSON"),
    "comment": (b"# seen on Monday", "it is a comment"),
    "cut": (record().encode()[:-30], "not valid JSON"),
    "glued": (record().encode() * 2, "not valid JSON: Extra data"),
    "not utf-8": (record().encode().replace(b"float32", b"\xff\xfe"), "not UTF-8"),
    "nul": (record().encode() + b"\0" * 100, "NUL bytes"),
    "deep": (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    "rather deep": (b"[" * 100 + b"]" * 100, "nested too deeply"),
    "index out of range": (record(2).encode(), "its workload is 2, and the workload file has 2 lines"),
    "index negative": (record(-1).encode(), "its workload is -1"),
    "index a truth value": (record(True).encode(), "not a whole number"),  # noqa: FBT003
    "index a float": (record(0.0).encode(), "not a whole number"),
    "index a text": (record("0").encode(), "not a whole number"),
    "index of 10,000 digits": (b"[" + b"9" * 10_000 + b",[[[],[]],null,null,null]]", "more than 64 bits"),
    "index of 20 digits": (b"[18446744073709551616,[[[],[]],null,null,null]]", "more than 64 bits"),
    "NaN": (raw_record("NaN"), "NaN is not a JSON value"),
    "Infinity": (raw_record("-Infinity"), "-Infinity is not a JSON value"),
    "overflow": (raw_record("1e999"), "too large"),
    "underflow": (raw_record("5e-324"), "too small"),
    "float of 10,000 digits": (raw_record("0." + "1" * 10_000), "too long"),
    "time a text": (record(seconds=["0.1"]).encode(), "not a number"),
    "time a truth value": (record(seconds=[True]).encode(), "not a number"),
    "time null": (record(seconds=[None]).encode(), "not a number"),
    "times nested": (record(seconds=[[0.1] * 10_000]).encode(), "not a number"),
    "times a number": (record(seconds=0.1).encode(), "neither null nor a list"),
    "target a text": (record(target="llvm -mcpu=x").encode(), "its target"),
    "target without a kind": (record(target={"mcpu": "x"}).encode(), "its target"),
    "key twice": (record(target={"kind": "llvm", "@": 1}).replace("@", "kind").encode(), "a key stands twice"),
    "arguments": (record(args=[["TENSOR", "nonsense", [1]]]).encode(), "list of tensors"),
    "arguments a text": (record(args="x").encode(), "list of tensors"),
    "shape": (record(args=[["TENSOR", "float32", ["n"]]]).encode(), "list of tensors"),
    "parts": (b"[0,[[[],[]],null,null]]", "it is not [workload"),
    "an object": (b"{}", "it is not [workload"),
    "trace null": (record(trace=None).encode(), "its trace is not"),
    "instruction": (record(trace=[[["GetSBlock", []]], []]).encode(), "instruction 0 of its trace is not"),
    "kind": (record(trace=[[["no name", [], [], []]], []]).encode(), "a kind that is no name"),
    "outputs": (record(trace=[[["GetLoops", ["b0"], [], [1]]], []]).encode(), "of a wrong type"),
    "decision out of range": (record(trace=[INSTRUCTIONS, [[5, 1]]]).encode(), "a decision for instruction 5, and 5 instructions"),
    "decision negative": (record(trace=[INSTRUCTIONS, [[-1, 1]]]).encode(), "a decision for instruction -1"),
    "decision of none": (record(trace=[INSTRUCTIONS, [[0, 1]]]).encode(), "GetSBlock, which decides nothing"),
    "decision a number": (record(trace=[INSTRUCTIONS, [3]]).encode(), "a decision of its trace is not"),
    "candidate": (record(trace=[INSTRUCTIONS, [[3, 77]]]).encode(), "a candidate that does not exist"),
    "control character": (record(trace=[[["GetSBlock", [], ["a\0b"], []]], []]).encode(), "a control character"),
    "half a pair": (record(trace=[[["GetSBlock", [], ["\ud800"], []]], []]).encode(), "cannot be written as JSON"),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_a_bad_record_is_told_and_the_others_stay(tmp_path: Path, name: str) -> None:
    raw, reason = BAD_RECORDS[name]
    database = read_database(put(tmp_path, joined(record(0), raw, record(1))))
    assert [(item.line, item.workload.module) for item in database.records] == [(1, module("a")), (3, module("b"))]
    (bad,) = database.bad_lines
    assert (bad.file, bad.line) == (RECORD_FILE, 2)
    assert reason in bad.reason
    assert len(bad.text) <= 100
    assert bad.text.isprintable()


BAD_WORKLOADS: dict[str, tuple[str | bytes, str]] = {
    "blank": ("", "the line is empty"),
    "cut": (workload("a")[:-12], "not valid JSON"),
    "module cut": (json.dumps(["123", module("a")[:-8]]), "cut off or edited"),
    "no base64": (json.dumps(["123", "!!!"]), "not Base64"),
    "no graph": (json.dumps(["123", base64.b64encode((2).to_bytes(8, "little") + b"[]").decode()]), "no graph"),
    "deep graph": (json.dumps(["1", base64.b64encode((50_000).to_bytes(8, "little") + b"[" * 50_000).decode()]), "not valid JSON"),
    "hash a number": (b"[123" + workload("a").encode()[6:], "two texts"),
    "three": (json.dumps(["1", module("a"), 3]), "two texts"),
}


@pytest.mark.parametrize("name", BAD_WORKLOADS)
def test_a_bad_workload_keeps_its_number_and_takes_its_records_along(tmp_path: Path, name: str) -> None:
    raw, reason = BAD_WORKLOADS[name]
    database = read_database(put(tmp_path, joined(record(0), record(1), record(2)), joined(workload("x"), raw, workload("y"))))
    assert [item.workload.module for item in database.records] == [module("x"), module("y")]
    first, second = database.bad_lines
    assert (first.file, first.line, second.file, second.line) == (WORKLOAD_FILE, 2, RECORD_FILE, 2)
    assert reason in first.reason
    assert second.reason.startswith("its workload, line 2 of the workload file, cannot be used")


def test_an_edited_hash_does_no_harm(tmp_path: Path) -> None:
    edited = json.dumps(["not even a number", module("a")])
    assert read_database(put(tmp_path, joined(record()), joined(edited))).records[0].workload == Workload("not even a number", module("a"))


@pytest.mark.parametrize("change", [lambda raw: b"\xef\xbb\xbf" + raw, lambda raw: raw.replace(b"\n", b"\r\n"), lambda raw: raw[:-1]])
def test_a_byte_order_mark_other_line_ends_and_a_missing_one_do_no_harm(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    database = read_database(put(tmp_path, change(joined(record(0), record(1))), change(joined(*GOOD))))
    assert len(database.records) == 2
    assert not database.bad_lines


def test_a_last_line_that_is_cut_off_says_so(tmp_path: Path) -> None:
    database = read_database(put(tmp_path, joined(record(0), record(1))[:-40]))
    assert len(database.records) == 1
    assert "may be cut off" in database.bad_lines[0].reason


def test_a_line_of_100_mb_is_refused_without_being_held(tmp_path: Path) -> None:
    put(tmp_path, b"")
    with (tmp_path / RECORD_FILE).open("wb") as file:
        file.write(joined(record(0)))
        file.truncate(100_000_000)
        file.seek(100_000_000)
        file.write(b"\n" + joined(record(1)))
    database = read_database(tmp_path)
    assert [item.line for item in database.records] == [1, 3]
    assert "longer than" in database.bad_lines[0].reason


def test_a_file_beyond_all_measure_is_read_to_a_limit_and_not_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_LINES", 2)
    put(tmp_path, joined(record(0), record(1), record(0, 2)))
    database = read_database(tmp_path)
    assert len(database.records) == 2
    assert "too large" in database.bad_lines[0].reason
    with pytest.raises(InputError, match="too large to be repaired"):
        repair_database(tmp_path)
    assert (tmp_path / RECORD_FILE).read_bytes().count(b"\n") == 3


def test_a_duplicate_counts_once_and_the_better_time_stays(tmp_path: Path) -> None:
    lines = joined(record(seconds=[3.0]), record(seconds=[1.0]), record(seconds=[2.0]), record(seconds=None), record(1))
    database = read_database(put(tmp_path, lines))
    assert [item.run_secs for item in database.records] == [(1.0,), (0.001, 0.003)]
    assert (database.duplicates, database.bad_lines) == (3, ())


def test_truth_values_in_a_trace_are_the_numbers_that_stock_tvm_writes(tmp_path: Path) -> None:
    split = [[["Split", ["l1"], [True, False], []]], []]
    numbers = json.loads(json.dumps(split).replace("true", "1").replace("false", "0"))
    database = read_database(put(tmp_path, joined(record(trace=split), record(trace=numbers))))
    assert (database.duplicates, json.dumps(database.records[0].trace)) == (1, json.dumps(numbers))


@pytest.mark.parametrize("name", [WORKLOAD_FILE, RECORD_FILE])
@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "link", "loop"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, name: str, kind: str) -> None:
    path = put(tmp_path, joined(record())) / name
    path.rename(tmp_path / "elsewhere")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind in {"link", "loop"}:
        path.symlink_to("elsewhere" if kind == "link" else path)
    actions: list[Callable[[Path], Any]] = [read_database] if kind == "missing" else [read_database, repair_database, DatabaseWriter]
    for action in actions:
        with pytest.raises(InputError) as caught:
            action(tmp_path)
        assert caught.value.remedy


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    for action in (read_database, repair_database):
        with pytest.raises(InputError, match="no folder"):
            action(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(InputError):
        DatabaseWriter(tmp_path / "file")
    with pytest.raises(InputError, match="has no database_workload"):
        repair_database(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


CUDA = {"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024, "host": {"kind": "llvm"}}


@pytest.mark.parametrize(
    ("target", "same"),
    [
        ({"num-cores": 2, "mcpu": "znver5", "kind": "llvm"}, True),
        ({**TARGET, "tag": "mine", "keys": ["x"], "host": CUDA, "mattr": [], "mtriple": ""}, True),
        ({**TARGET, "num-cores": 4}, False),
        ({**TARGET, "mcpu": "znver4"}, False),
        ({**TARGET, "mattr": ["-avx512f"]}, False),
        ({**TARGET, "mtriple": "aarch64-linux-gnu"}, False),
        ({**TARGET, "vector-width": 8}, False),
        (CUDA, False),
        (None, False),
    ],
)
def test_records_are_filtered_by_what_decides_the_code(tmp_path: Path, target: Any, same: bool) -> None:
    database = read_database(put(tmp_path, joined(record(target=target, seconds=[1e-9]), b"bad")))
    wanted = TargetSpec("llvm", json.dumps(TARGET), "cpu", "cpu")
    for form in (wanted, TARGET):
        found = for_target(database, form)
        assert bool(found.records) is same
        assert found.bad_lines == database.bad_lines


def test_features_of_a_cpu_are_the_same_in_any_order_and_form(tmp_path: Path) -> None:
    database = read_database(put(tmp_path, joined(record(target={"kind": "llvm", "mattr": "+b, +a"}))))
    assert for_target(database, {"kind": "llvm", "mattr": ["+a", "+b"]}).records
    assert not for_target(database, {"kind": "llvm", "mattr": ["+a"]}).records


def test_the_host_of_a_gpu_does_not_count_and_its_limits_do(tmp_path: Path) -> None:
    database = read_database(put(tmp_path, joined(record(target=CUDA))))
    assert for_target(database, {**CUDA, "host": {"kind": "llvm", "mcpu": "znver5"}}).records
    assert not for_target(database, {**CUDA, "max_threads_per_block": 512}).records


def test_merging_keeps_the_better_of_equal_records(tmp_path: Path) -> None:
    parts = []
    for name, workloads, lines in (
        ("one", GOOD, joined(record(0, seconds=[2.0]), record(1, seconds=[1.0]), b"bad")),
        ("two", GOOD[::-1], joined(record(0, seconds=[3.0]), record(1, seconds=[1.0]), record(1, 9), record(1, 9))),
    ):
        (tmp_path / name).mkdir()
        parts.append(read_database(put(tmp_path / name, lines, joined(*workloads))))
    merged = merge(parts)
    found = [(item.workload.module == module("a"), item.time_us) for item in merged.records]
    assert found == [(True, 1e6), (False, 1e6), (True, 2000)]
    assert (merged.duplicates, len(merged.bad_lines)) == (3, 1)
    assert merge([]) == Database()


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_a_repair_sets_every_bad_line_aside_and_keeps_the_originals(tmp_path: Path) -> None:
    bads = [raw for name, (raw, _) in BAD_RECORDS.items() if "out of range" not in name]
    records = b"\xef\xbb\xbf" + joined(record(0), *bads, record(3), record(2), record(1), record(0, 5, seconds=[-1.0]), record(0)) + b"[0,[["
    workloads = joined(workload("a"), b"\xff", workload("a"), workload("b"))
    put(tmp_path, records, workloads)
    before = read_database(tmp_path)
    repair = repair_database(tmp_path)
    assert [(item.workload.module, item.trace) for item in repair.database.records] == [(module("a"), trace()), (module("b"), trace())]
    assert lines_of(tmp_path / WORKLOAD_FILE) == list(GOOD)
    assert [json.loads(line)[0] for line in lines_of(tmp_path / RECORD_FILE)] == [0, 1]
    assert (tmp_path / RECORD_FILE).read_bytes().endswith(b"\n")
    assert (tmp_path / (RECORD_FILE + ".original")).read_bytes() == records
    assert (tmp_path / (WORKLOAD_FILE + ".original")).read_bytes() == workloads
    aside = (tmp_path / (RECORD_FILE + ".set-aside")).read_bytes()
    assert all(raw + b"\n" in aside for raw in bads)
    assert aside.endswith(b"[0,[[\n")
    assert set(before.bad_lines) < set(repair.set_aside)
    assert [line.line for line in repair.set_aside if line.file == WORKLOAD_FILE] == [2, 3]
    reasons = {line.line: line.reason for line in repair.set_aside if line.file == RECORD_FILE}
    count = len(bads)
    assert sorted(reasons) == [*range(2, count + 2), count + 3, count + 4, count + 5, count + 6, count + 7]
    assert "0 s or less" in reasons[count + 5]
    assert "not faster" in reasons[count + 6]
    assert f"# line {count + 4}: its workload, line 2 of the workload file" in aside.decode("utf-8", "replace")
    assert not list(tmp_path.glob("*.repaired")) + list(tmp_path.glob("*.part"))


def test_a_second_repair_changes_nothing_and_a_later_one_keeps_the_first_originals(tmp_path: Path) -> None:
    put(tmp_path, joined(record(0), b""))
    repair_database(tmp_path)
    state = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(state) == {WORKLOAD_FILE, RECORD_FILE, RECORD_FILE + ".original", RECORD_FILE + ".set-aside"}
    assert repair_database(tmp_path).set_aside == ()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == state
    with (tmp_path / RECORD_FILE).open("ab") as file:
        file.write(b"cut")
    repair_database(tmp_path)
    assert (tmp_path / (RECORD_FILE + ".original")).read_bytes() == joined(record(0), b"")
    assert (tmp_path / (RECORD_FILE + ".set-aside")).read_bytes().splitlines()[1::2] == [b"", b"cut"]


def test_a_repair_asks_who_knows_more(tmp_path: Path) -> None:
    put(tmp_path, joined(record(0), record(1)))
    repair = repair_database(tmp_path, check=lambda item: "no such\nblock" if item.workload.module == module("a") else "")
    assert [item.workload.module for item in repair.database.records] == [module("b")]
    assert [(line.line, line.reason) for line in repair.set_aside] == [(1, r"no such\nblock")]


def test_escapes_that_tvm_cannot_read_are_written_out(tmp_path: Path) -> None:
    named = [[["GetSBlock", [], ["größe", r"a\u0"], ["b0"]]], []]
    put(tmp_path, joined(record(trace=named)))
    assert b"\\u00f6" in (tmp_path / RECORD_FILE).read_bytes()
    (kept,) = repair_database(tmp_path).database.records
    assert kept.trace == named
    assert "größe" in (tmp_path / RECORD_FILE).read_text()
    assert repair_database(tmp_path).set_aside == ()


class Crash(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("steps", range(12))
def test_a_crash_in_a_repair_never_pairs_records_with_other_workloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    put(tmp_path, joined(record(1), record(2)), joined(b"bad", *GOOD))
    left = [steps]

    def crashing(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return original(*arguments, **options)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", crashing(Path.replace))
        patch.setattr(Path, "unlink", crashing(Path.unlink))
        try:
            repair_database(tmp_path)
            crashed = False
        except Crash:
            crashed = True
    assert crashed == (steps < 11)
    if (tmp_path / RECORD_FILE).exists():
        stock = [json.loads(line)[0] for line in lines_of(tmp_path / RECORD_FILE)]
        first = "bad" if stock[0] == 1 else GOOD[0]
        assert lines_of(tmp_path / WORKLOAD_FILE)[0] == first
    for database in (read_database(tmp_path), repair_database(tmp_path).database, read_database(tmp_path)):
        assert [item.workload.module for item in database.records] == [module("a"), module("b")]
    assert not list(tmp_path.glob("*.repaired"))


def append(sink: DatabaseWriter, name: str = "a", tile: int = 1, seconds: Any = (0.5,), **changes: Any) -> None:
    values = {"structural_hash": "123", "module": module(name), "trace": trace(tile), "run_secs": seconds, "target": TARGET, "args_info": ARGS}
    sink.append(**{**values, **changes})


def test_a_writer_writes_each_workload_once_and_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "records"
    with DatabaseWriter(folder) as target:
        append(target, "a")
        append(target, "b")
        append(target, "a", 2)
        assert len(read_database(folder).records) == 3
    with DatabaseWriter(folder) as target:
        append(target, "b", 2)
        append(target, "c", seconds=[1e10])
    database = read_database(folder)
    assert [item.workload.module for item in database.records] == [module(name) for name in "abab"] + [module("c")]
    assert len(lines_of(folder / WORKLOAD_FILE)) == 3
    assert not database.bad_lines
    assert sorted(path.name for path in folder.iterdir()) == [RECORD_FILE, WORKLOAD_FILE]


@pytest.mark.parametrize("cut", [1, 2, 50])
@pytest.mark.parametrize("name", [WORKLOAD_FILE, RECORD_FILE])
def test_a_writer_never_appends_behind_a_line_that_is_cut_off(tmp_path: Path, name: str, cut: int) -> None:
    path = put(tmp_path, joined(record(0), record(1))) / name
    path.write_bytes(path.read_bytes()[:-cut])
    with DatabaseWriter(tmp_path) as target:
        append(target, "c")
    database = read_database(tmp_path)
    assert not database.bad_lines
    assert [item.workload.module for item in database.records] == [module(item) for item in ("abc" if cut == 1 else "ac")]
    assert (tmp_path / (name + ".original")).exists()


def test_duplicates_alone_are_left_where_they_are_by_a_writer(tmp_path: Path) -> None:
    put(tmp_path, joined(record(0), record(0)))
    DatabaseWriter(tmp_path).close()
    assert len(lines_of(tmp_path / RECORD_FILE)) == 2
    assert len(repair_database(tmp_path).set_aside) == 1


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    first = DatabaseWriter(tmp_path)
    for action in (DatabaseWriter, repair_database):
        with pytest.raises(InputError, match="Another process"):
            action(tmp_path)
    first.close()
    first.close()
    with pytest.raises(ValueError, match="closed"):
        append(first)
    DatabaseWriter(tmp_path).close()


@pytest.mark.parametrize(
    "changes",
    [
        {"seconds": [float("inf")]},
        {"seconds": [float("nan")]},
        {"seconds": [0.0]},
        {"seconds": ["x"]},
        {"module": "no module"},
        {"module": "\ud800"},
        {"trace": [[], [[0, 0]]]},
        {"trace": object()},
        {"target": "llvm"},
        {"args_info": {}},
        {"structural_hash": "\n\0"},
        {"trace": [[["GetSBlock", ["x" * (4 << 20)], [], []]], []]},
    ],
)
def test_what_stock_tvm_could_not_load_is_never_written(tmp_path: Path, changes: dict[str, Any]) -> None:
    with DatabaseWriter(tmp_path) as target:
        with pytest.raises(InputError, match="cannot be kept"):
            append(target, **changes)
        append(target)
    database = read_database(tmp_path)
    assert (len(database.records), database.bad_lines, len(lines_of(tmp_path / WORKLOAD_FILE))) == (1, (), 1)


def test_a_full_disk_leaves_no_half_of_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def full(descriptor: int, data: Any) -> int:
        if len(data) < 100:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: len(data) // 2])

    with DatabaseWriter(tmp_path) as target:
        append(target)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(EnvironmentFault, match="No space left"):
                append(target, "b")
        append(target, "b", 2)
    database = read_database(tmp_path)
    assert ([item.workload.module for item in database.records], database.bad_lines) == ([module("a"), module("b")], ())


def test_decisions_are_short_and_in_order() -> None:
    assert decisions(trace()) == ("tile 1 4 7 2", "compute at root", "unroll 64")
    instructions = [*INSTRUCTIONS[:4], ["SampleSomething", [], [], []]]
    assert decisions([instructions, [[4, [1, [2]]], [3, 0], [2, -2]]]) == ("compute at inline", "categorical 0", "SampleSomething 1 …")
    assert decisions([[*INSTRUCTIONS[:4], ["Annotate", ["b0", "v9"], ["meta_schedule.cooperative_fetch"], []]], [[3, 1]]]) == (
        "cooperative fetch 16",
    )


@pytest.mark.parametrize(
    "strange",
    [
        None,
        7,
        "trace",
        [],
        {},
        [[], []],
        [None, None],
        [[], [[0, 1]]],
        [INSTRUCTIONS, [[True, 1], [-1, 1], ["1", 1], [10**5000, 1], [1], 1, None, [[1], 1]]],
        [INSTRUCTIONS, [[1, "x"], [1, []], [2, None], [3, 99], [3, True]]],
        [[None, "x", [], ["SampleCategorical"], ["SampleCategorical", 1, 1, 1], [["a"], 1, 1, 1]], [[index, 0] for index in range(6)]],
        [[["Annotate", [], [], []], ["Annotate", 1, 1, 1], ["SampleCategorical", [], [], []]], [[2, 0]]],
    ],
)
def test_strange_traces_have_no_decisions(strange: Any) -> None:
    assert decisions(strange) == ()


def test_what_strangers_put_in_a_trace_is_shown_safely() -> None:
    hostile = [[["Sample\x1b[31m" * 50, [], [], []], ["SampleCategorical", [], [["\u202e" + "x" * 10**6]], []], ["SamplePerfectTile", [], [], []]]]
    shown = decisions([*hostile, [[0, 10**5000], [1, 0], [2, [10**5000] * 10**5]]])
    assert len(shown) == 3
    assert all(text.isprintable() and len(text) <= 60 for text in shown)
