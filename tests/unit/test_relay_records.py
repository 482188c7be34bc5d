"""Schedules and records of the relay engine, which knows no TVM on this side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.search_fakes import Bench, FakeTaskSearch
from workbench.engines.relay.records import LogRecords
from workbench.engines.relay.traces import decisions, fingerprint, line_with, without_result
from workbench.errors import InputError
from workbench.exchange.records import export_records
from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.autotvm_log import parse_autotvm_log
from workbench.legacy.log_files import AUTO_SCHEDULER_LOG, AUTOTVM_LOG
from workbench.records.trial import OK, MeasureOptions, Trial
from workbench.session import SessionDirectory
from workbench.tuning_database import for_target
from workbench.worker.autotvm_records import autotvm_log, read_autotvm_log

KEY = '["0f3d", [1, 16], [64, 16], [1, 64]]'
SKETCH: dict[str, Any] = {"i": [[KEY, "llvm -keys=cpu"], [[], [["SP", 2, 0, 64, [4, 8], 1], ["AN", 2, 0, 3]]]], "v": "v0.6"}
TEMPLATE: dict[str, Any] = {
    "input": ["llvm -keys=cpu", "dense_pack.x86", [["TENSOR", [1, 16], "float32"], ["TENSOR", [4, 16, 16], "float32"], None, "float32"], {}],
    "config": {"index": 3, "code_hash": None, "entity": [["tile_x", "sp", [-1, 16]], ["unroll_kw", "ot", True]]},
    "version": 0.2,
    "tvm_version": "0.16.dev0",
}


def text(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def trial(number: int, *times_us: float) -> Trial:
    return Trial("t", number, OK, "", "f", "search", "here", times_us, 1, 0.0, 0.0, 0.0, None, None, 1_700_000_000.5, (), MeasureOptions())


def task() -> FakeTaskSearch:
    return FakeTaskSearch(Bench(), "dense")


def test_a_schedule_is_told_in_words() -> None:
    assert decisions(text(SKETCH)) == ("split 2 0 64 4,8 True", "annotate 2 0 parallel")
    assert decisions(text(TEMPLATE)) == ("tile_x [-1, 16]", "unroll_kw true")


def test_equal_schedules_have_equal_fingerprints_whatever_else_stands_in_the_line() -> None:
    elsewhere = {**SKETCH, "i": [[KEY, "llvm -keys=cpu -mcpu=haswell"], SKETCH["i"][1]]}
    other = {**SKETCH, "i": [SKETCH["i"][0], [[], [["SP", 2, 0, 64, [8, 8], 1]]]]}
    assert fingerprint(text(SKETCH)) == fingerprint(text(elsewhere)) != fingerprint(text(other))
    renumbered = {**TEMPLATE, "config": {**TEMPLATE["config"], "index": 99}}
    assert fingerprint(text(TEMPLATE)) == fingerprint(text(renumbered)) != fingerprint(text(SKETCH))


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"i": 3, "v": "v0.6"}',
        text({**SKETCH, "v": "v9"}),
        text({**TEMPLATE, "version": 0.1}),
        text({**TEMPLATE, "config": {}}),
        "[" * 9999,
    ],
)
def test_what_is_no_schedule_is_refused(damaged: str) -> None:
    for read in (fingerprint, decisions):
        with pytest.raises(InputError):
            read(damaged)


def test_records_are_lines_of_the_stock_logs(tmp_path: Path) -> None:
    records = LogRecords(tmp_path / "records")
    records.append(task(), trial(1, 2.5, 3.5), text(SKETCH))
    records.append(task(), trial(2, 4.0), text(TEMPLATE))
    records.close()
    (sketch,) = parse_auto_scheduler_log((tmp_path / "records" / AUTO_SCHEDULER_LOG).read_text()).entries
    assert sketch.result.times_s == pytest.approx((2.5e-6, 3.5e-6))
    assert (sketch.result.status, sketch.result.measured_at) == (OK, 1_700_000_000)
    (template,) = parse_autotvm_log((tmp_path / "records" / AUTOTVM_LOG).read_text()).entries
    assert template.result.times_s == pytest.approx((4e-6,))
    assert without_result(line_with(text(SKETCH), [1.0], 0.0)) == without_result(text(SKETCH))


def test_a_recorded_schedule_is_known_and_half_a_line_is_taken_away(tmp_path: Path) -> None:
    records = LogRecords(tmp_path)
    assert not records.holds(task(), text(SKETCH))
    records.append(task(), trial(1, 2.5), text(SKETCH))
    assert records.holds(task(), text(SKETCH))
    records.close()
    log = tmp_path / AUTO_SCHEDULER_LOG
    whole = log.read_bytes()
    log.write_bytes(whole + b"damaged\n" + whole[: len(whole) // 2])
    again = LogRecords(tmp_path)
    assert again.count() == 2
    assert again.holds(task(), text(SKETCH))
    assert not again.holds(task(), text(TEMPLATE))
    again.close()
    assert log.read_bytes() == whole + b"damaged\n"


def test_two_searches_do_not_write_the_same_logs(tmp_path: Path) -> None:
    records = LogRecords(tmp_path)
    with pytest.raises(InputError, match="Another process"):
        LogRecords(tmp_path)
    records.close()
    records.close()
    LogRecords(tmp_path).close()


def test_a_link_or_a_folder_in_the_place_of_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / AUTOTVM_LOG).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is a link"):
        LogRecords(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / AUTOTVM_LOG).unlink()
    (tmp_path / AUTOTVM_LOG).mkdir()
    with pytest.raises(InputError, match="not a regular file"):
        LogRecords(tmp_path)


def test_the_logs_of_a_session_are_exported_without_their_damaged_lines(session: SessionDirectory, tmp_path: Path) -> None:
    records = LogRecords(session.records)
    records.append(task(), trial(1, 2.5), text(SKETCH))
    records.append(task(), trial(2, 4.0), text(TEMPLATE))
    records.close()
    log = session.records / AUTO_SCHEDULER_LOG
    whole = log.read_text()
    log.write_text(f"damaged\n{whole}")
    folder = tmp_path / "exported"
    assert export_records(session, folder) == 2
    assert (folder / AUTO_SCHEDULER_LOG).read_text() == whole
    assert (folder / AUTOTVM_LOG).read_text() == (session.records / AUTOTVM_LOG).read_text()
    with pytest.raises(InputError, match="holds records already"):
        export_records(session, folder)


def test_a_log_of_autotvm_is_records_that_another_search_may_start_from(tmp_path: Path) -> None:
    records = LogRecords(tmp_path)
    records.append(task(), trial(1, 2.5, 3.5), text(SKETCH))
    records.append(task(), trial(2, 4.0), text(TEMPLATE))
    records.close()
    with (tmp_path / AUTOTVM_LOG).open("a") as file:
        file.write(json.dumps({**TEMPLATE, "result": [[1e9], 4, 1.0, 1]}) + "\ndamaged\n")
    log = autotvm_log(tmp_path)
    assert log == tmp_path / AUTOTVM_LOG == autotvm_log(log)
    assert autotvm_log(tmp_path / "elsewhere") is None
    found = read_autotvm_log(log)
    assert [(record.workload.module, record.time_us) for record in found.records] == [
        (f"dense_pack.x86 {json.dumps(TEMPLATE['input'][2])}", pytest.approx(4.0))
    ]
    assert [fingerprint(record.trace_json) for record in found.records] == [fingerprint(text(TEMPLATE))]
    assert [line.line for line in found.bad_lines] == [3]
    assert len(for_target(found, {"kind": "llvm", "keys": ["cpu"]}).records) == 1
    assert not for_target(found, {"kind": "llvm", "mcpu": "haswell"}).records
