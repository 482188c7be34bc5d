"""What MetaSchedule's own database writes is read, and what was damaged loads in stock TVM after a repair."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import te
from tvm.s_tir import meta_schedule

from workbench.engines.relax.space import prepare_intrinsics
from workbench.engines.targets import resolve_target, to_tvm
from workbench.tuning_database import (
    RECORD_FILE,
    WORKLOAD_FILE,
    Database,
    DatabaseWriter,
    TuningRecord,
    decisions,
    for_target,
    read_database,
    repair_database,
)

TARGET = '{"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}'

# Loads databases in one process, each in a child of its own, because some of them kill it.
STOCK = """
import json, os, sys
from tvm.s_tir import meta_schedule
for folder in sys.argv[1:]:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            database = meta_schedule.database.JSONDatabase(work_dir=folder)
            records = database.get_all_tuning_records()
            workloads = {str(record.workload.as_json()[0]): record.workload for record in records}
            best = {}
            for name, workload in workloads.items():
                found = database.get_top_k(workload, 1)
                best[name] = [[float(second) for second in record.run_secs] for record in found]
            print(json.dumps({"count": len(records), "best": best}), flush=True)
        except BaseException as error:
            print(json.dumps({"error": type(error).__name__}), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        print(json.dumps({"signal": os.WTERMSIG(status)}), flush=True)
"""


def stock(*folders: Path) -> list[dict[str, Any]]:
    """What stock TVM makes of databases."""
    done = subprocess.run([sys.executable, "-c", STOCK, *map(str, folders)], capture_output=True, text=True, timeout=120, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def matmul(size: int) -> tvm.IRModule:
    left, right = (te.placeholder((size, size), name=name) for name in "AB")
    axis = te.reduce_axis((0, size), name="k")
    product = te.compute((size, size), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis), name="C")
    return tvm.IRModule({"main": te.create_prim_func([left, right, product]).with_attr("global_symbol", "main")})


def sketches(module: tvm.IRModule, target: tvm.target.Target) -> list[Any]:
    prepare_intrinsics(target)
    rules = "cuda" if target.kind.name == "cuda" else "from-target"
    space = meta_schedule.space_generator.PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules)
    context = meta_schedule.TuneContext(module, target=target, space_generator=space, task_name="main", num_threads=1, rand_state=1)
    return list(context.generate_design_space())


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of two matmuls as stock TVM writes it: six measured schedules, a failed one, and one without times and target."""
    folder = tmp_path_factory.mktemp("sound")
    target = to_tvm(resolve_target(TARGET, threads=2))
    database = meta_schedule.database.JSONDatabase(work_dir=str(folder))
    for size in (16, 32):
        module = matmul(size)
        workload = database.commit_workload(module)
        arguments = meta_schedule.arg_info.ArgInfo.from_entry_func(module)
        traces = [schedule.trace for schedule in sketches(module, target)]
        assert len(traces) == 3
        for number, trace in enumerate(traces, start=1):
            database.commit_tuning_record(meta_schedule.database.TuningRecord(trace, workload, [number * 1e-3, 2e-3], target, arguments))
    empty = tvm.s_tir.Trace([], {})
    database.commit_tuning_record(meta_schedule.database.TuningRecord(empty, workload, [1e10], target, arguments))
    database.commit_tuning_record(meta_schedule.database.TuningRecord(empty, workload, None, None, None))
    return folder


def copied(sound: Path, folder: Path, damage: Callable[[bytes, bytes], tuple[bytes, bytes]] = lambda *files: files) -> Path:
    folder.mkdir()
    workloads, records = damage(*((sound / name).read_bytes() for name in (WORKLOAD_FILE, RECORD_FILE)))
    (folder / WORKLOAD_FILE).write_bytes(workloads)
    (folder / RECORD_FILE).write_bytes(records)
    return folder


def times(database: Database) -> list[float | None]:
    return [record.time_us and round(record.time_us, 6) for record in database.records]


MEASURED = [1500, 2000, 2500]
ALL = [*MEASURED, *MEASURED, None, None]


def test_a_database_of_stock_tvm_is_read_with_its_decisions(sound: Path) -> None:
    database = read_database(sound)
    assert not database.bad_lines
    assert times(database) == ALL
    assert database.records[0].target == {"keys": ["cpu"], "kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2, "tag": ""}
    assert database.records[0].args_info == [["TENSOR", "float32", [16, 16]]] * 3
    assert len({record.workload for record in database.records}) == 2
    shown = decisions(database.records[0].trace)
    assert [text.split()[0] for text in shown] == ["tile", "tile", "tile", "unroll"]
    assert len(for_target(database, resolve_target(TARGET, threads=2)).records) == 7
    assert not for_target(database, resolve_target('{"kind": "llvm", "mcpu": "znver4", "num-cores": 2}', threads=2)).records
    assert repair_database(sound).set_aside == ()


def test_records_of_a_gpu_are_for_the_gpu_that_the_workbench_means() -> None:
    spec = resolve_target("cuda:sm_90", threads=2)
    target, module = to_tvm(spec), matmul(64)
    record = meta_schedule.database.TuningRecord(sketches(module, target)[0].trace, meta_schedule.database.Workload(module), [1.0], target, None)
    trace, _, exported, _ = plain_values(record.as_json())
    found = TuningRecord(None, json.dumps(trace), (1.0,), json.dumps(exported), "null", 1)  # type: ignore[arg-type]
    assert for_target(Database((found,)), spec).records
    assert not for_target(Database((found,)), resolve_target("cuda:sm_80", threads=2)).records
    assert any(text.startswith("cooperative fetch ") for text in decisions(trace))


def plain_values(value: Any) -> Any:
    """JSON values of TVM's containers."""
    if isinstance(value, str | int | float | None):
        return value
    if hasattr(value, "items"):
        return {str(name): plain_values(item) for name, item in value.items()}
    return float(value.value) if hasattr(value, "value") else [plain_values(item) for item in value]


def edited(line: int, change: Callable[[Any], Any]) -> Callable[[bytes, bytes], tuple[bytes, bytes]]:
    """A change of the JSON value of one record."""

    def damage(workloads: bytes, records: bytes) -> tuple[bytes, bytes]:
        lines = records.splitlines()
        value = json.loads(lines[line])
        change(value)
        lines[line] = json.dumps(value).encode()
        return workloads, b"\n".join(lines) + b"\n"

    return damage


def inserted(line: bytes, place: int) -> Callable[[bytes, bytes], tuple[bytes, bytes]]:
    def damage(workloads: bytes, records: bytes) -> tuple[bytes, bytes]:
        lines = records.splitlines()
        lines.insert(place, line)
        return workloads, b"\n".join(lines) + b"\n"

    return damage


def seconds(value: Any) -> Callable[[bytes, bytes], tuple[bytes, bytes]]:
    return edited(0, lambda record: record[1].__setitem__(1, value))


WITHOUT_FIRST = ALL[1:]
WITHOUT_SECOND_WORKLOAD = MEASURED
UNTIMED_FIRST = [None, *ALL[1:]]
LOADS = {"count", "best"}

# name: (damage, whether stock loads it as it is, times that are left after the repair, bad lines)
UNDEFINED = None  # stock TVM reads beyond an array: it dies, or not
DAMAGES: dict[str, tuple[Callable[[bytes, bytes], tuple[bytes, bytes]], bool, list[float | None], int]] = {
    "no newline": (lambda w, r: (w, r[:-1]), True, ALL, 0),
    "cut off": (lambda w, r: (w, r[:-9]), False, ALL[:-1], 1),
    "garbage": (inserted(b"garbage", 3), False, ALL, 1),
    "comment": (inserted(b"# mine", 0), False, ALL, 1),
    "empty line at the end": (inserted(b"", 8), False, ALL, 1),
    "empty line inside": (inserted(b"", 3), False, ALL, 1),
    "index out of range": (edited(0, lambda record: record.__setitem__(0, 2)), False, WITHOUT_FIRST, 1),
    "index negative": (edited(0, lambda record: record.__setitem__(0, -1)), False, WITHOUT_FIRST, 1),
    "index a text": (edited(0, lambda record: record.__setitem__(0, "0")), False, WITHOUT_FIRST, 1),
    "index a truth value": (edited(0, lambda record: record.__setitem__(0, False)), True, WITHOUT_FIRST, 1),  # noqa: FBT003
    "index large": (edited(0, lambda record: record.__setitem__(0, 10**30)), False, WITHOUT_FIRST, 1),
    "workloads shorter": (lambda w, r: (w.splitlines(keepends=True)[0], r), False, WITHOUT_SECOND_WORKLOAD, 5),
    "times null": (seconds(None), True, UNTIMED_FIRST, 0),
    "times empty": (seconds([]), True, UNTIMED_FIRST, 0),
    "times failed": (seconds([1e10]), True, UNTIMED_FIRST, 0),
    "times texts": (seconds(["0.1"]), False, WITHOUT_FIRST, 1),
    "times null inside": (seconds([None]), False, WITHOUT_FIRST, 1),
    "times nested": (seconds([[0.1] * 1000] * 100), False, WITHOUT_FIRST, 1),
    "time NaN": (seconds([float("nan")]), False, WITHOUT_FIRST, 1),
    "time too small": (seconds([5e-324]), False, WITHOUT_FIRST, 1),
    "time negative": (seconds([-1.0]), True, WITHOUT_FIRST, 0),
    "time zero": (seconds([0.0]), True, WITHOUT_FIRST, 0),
    "target null": (edited(0, lambda record: record[1].__setitem__(2, None)), True, ALL, 0),
    "decision out of range": (edited(0, lambda record: record[1][0][1].append([400, [1]])), UNDEFINED, WITHOUT_FIRST, 1),
    "decision negative": (edited(0, lambda record: record[1][0][1].append([-1, [1]])), UNDEFINED, WITHOUT_FIRST, 1),
    "candidate": (edited(0, lambda record: record[1][0][1][-1].__setitem__(1, 77)), False, WITHOUT_FIRST, 1),
    "duplicate": (lambda w, r: (w, r + r.splitlines(keepends=True)[0]), True, ALL, 0),
    "workload cut off": (lambda w, r: (w[:-100], r), False, WITHOUT_SECOND_WORKLOAD, 6),
    "workload blank": (lambda w, r: (b"\n" + w.splitlines(keepends=True)[1], r), False, ALL[3:], 4),
    "workload blank at the end": (lambda w, r: (w + b"\n", r), False, ALL, 1),
    "workload edited": (lambda w, r: (w.replace(b"okYAAA", b"okYAAB", 1), r), False, ALL[3:], 4),
    "workload again": (lambda w, r: (w.splitlines(keepends=True)[0] + w, r.replace(b"\n[1,", b"\n[2,")), True, ALL, 0),
    "hash edited": (lambda w, r: (w.replace(w.split(b'"')[1], b"1", 1), r), True, ALL, 0),
    "not UTF-8": (inserted(b'["\xff"]', 1), False, ALL, 1),
    "byte order mark": (lambda w, r: (b"\xef\xbb\xbf" + w, b"\xef\xbb\xbf" + r), False, ALL, 0),
    "line ends": (lambda w, r: (w.replace(b"\n", b"\r\n"), r.replace(b"\n", b"\r\n")), True, ALL, 0),
    "NUL bytes": (lambda w, r: (w, r + b"\0" * 4096), False, ALL, 1),
    "deep": (inserted(b"[" * 100_000 + b"]" * 100_000, 2), False, ALL, 1),
    "escape": (edited(0, lambda record: record[1][0][0].append(["Annotate", ["b0", 1], ["größe"], []])), False, ALL, 0),
}


@pytest.fixture(scope="module")
def loaded(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Database, dict[str, Any], dict[str, Any]]]:
    """Each damage: what we read, and what stock TVM loads before and after the repair; all in one process of TVM, to be fast."""
    root = tmp_path_factory.mktemp("damaged")
    read = {}
    for name, (damage, *_) in DAMAGES.items():
        read[name] = read_database(copied(sound, root / f"{name} before", damage))
        repair_database(copied(sound, root / f"{name} after", damage))
    before, after = (stock(*(root / f"{name} {when}" for name in DAMAGES)) for when in ("before", "after"))
    return {name: (read[name], *results) for name, *results in zip(DAMAGES, before, after, strict=True)}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_database_is_read_and_stock_tvm_loads_it_repaired(loaded: dict[str, Any], name: str) -> None:
    _, loads, left, bad_lines = DAMAGES[name]
    database, before, after = loaded[name]
    assert len(database.bad_lines) == bad_lines
    assert loads is UNDEFINED or (set(before) == LOADS) is loads
    kept = [time for record, time in zip(database.records, times(database), strict=True) if not record.misleads_stock]
    assert kept == left
    assert set(after) == LOADS
    assert after["count"] == len(left)
    expected: dict[str, float] = {}
    for record in database.records:
        if record.time_us is not None:
            expected[record.workload.module] = min(record.time_us, expected.get(record.workload.module, record.time_us))
    best = [1e6 * sum(found[0]) / len(found[0]) for found in after["best"].values() if found]
    assert sorted(best) == pytest.approx(sorted(expected.values()))


def test_a_record_of_another_device_stays_and_is_not_for_this_one(sound: Path, tmp_path: Path) -> None:
    def lie(record: Any) -> None:
        record[1][1:3] = [[1e-9], {"kind": "cuda", "arch": "sm_90"}]

    folder = copied(sound, tmp_path / "lie", edited(0, lie))
    database = read_database(folder)
    assert database.records[0].time_us == pytest.approx(1e-3)
    mine = for_target(database, resolve_target(TARGET, threads=2))
    assert times(mine) == ALL[1:-1]


def test_a_trace_that_names_a_missing_block_takes_one_who_knows_to_be_found(sound: Path, tmp_path: Path) -> None:
    def rename(record: Any) -> None:
        record[1][0][0][0][2][0] = "missing"

    folder = copied(sound, tmp_path / "missing", edited(0, rename))
    assert not read_database(folder).bad_lines
    repair = repair_database(folder, check=lambda record: "no such block" if '"missing"' in record.trace_json else "")
    assert [(line.line, line.reason) for line in repair.set_aside] == [(1, "no such block")]
    (result,) = stock(folder)
    assert result["count"] == 7


def test_what_the_writer_writes_is_what_stock_tvm_would_have_written(sound: Path, tmp_path: Path) -> None:
    target = to_tvm(resolve_target(TARGET, threads=2))
    with DatabaseWriter(tmp_path) as writer:
        for size in (16, 32):
            module = matmul(size)
            workload = meta_schedule.database.Workload(module)
            arguments = meta_schedule.arg_info.ArgInfo.from_entry_func(module)
            for number, schedule in enumerate(sketches(module, target), start=1):
                record = meta_schedule.database.TuningRecord(schedule.trace, workload, [number * 1e-3, 2e-3], target, arguments)
                trace, run_secs, exported, args_info = plain_values(record.as_json())
                structural_hash, text = (str(item) for item in workload.as_json())
                writer.append(structural_hash=structural_hash, module=text, trace=trace, run_secs=run_secs, target=exported, args_info=args_info)
    ours, theirs = stock(tmp_path, sound)
    assert ours["count"] == 6
    assert ours["best"] == theirs["best"]
    assert (tmp_path / WORKLOAD_FILE).read_bytes() == (sound / WORKLOAD_FILE).read_bytes()
    stock_lines = (sound / RECORD_FILE).read_text().splitlines()[:6]
    assert [json.loads(line) for line in (tmp_path / RECORD_FILE).read_text().splitlines()] == [json.loads(line) for line in stock_lines]


def test_stock_tvm_and_the_writer_take_turns(sound: Path, tmp_path: Path) -> None:
    folder = copied(sound, tmp_path / "turns")
    first = read_database(folder).records[0]
    values = {"structural_hash": first.workload.structural_hash, "module": first.workload.module, "target": first.target, "args_info": None}
    with DatabaseWriter(folder) as writer:
        writer.append(trace=[[], []], run_secs=[1e-6], **values)  # type: ignore[arg-type]
    database = meta_schedule.database.JSONDatabase(work_dir=str(folder))
    workload = database.commit_workload(matmul(8))
    database.commit_tuning_record(meta_schedule.database.TuningRecord(tvm.s_tir.Trace([], {}), workload, [1e-6], None, None))
    with DatabaseWriter(folder) as writer:
        writer.append(trace=[[], []], run_secs=[2e-6], **{**values, "target": None})  # type: ignore[arg-type]
    records = read_database(folder).records
    assert [json.loads(line)[0] for line in (folder / RECORD_FILE).read_text().splitlines()] == [0, 0, 0, 1, 1, 1, 1, 1, 0, 2, 0]
    assert len({record.workload for record in records}) == 3
    assert stock(folder)[0]["count"] == 11
