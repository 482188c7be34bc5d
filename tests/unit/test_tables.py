"""The command line's tables and CSV: data first, then looks."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from workbench.api import SessionProfile
from workbench.cli import formats
from workbench.cli.profile_table import profile_table
from workbench.cli.table_csv import ROW_COLUMNS, TASK_COLUMNS, profile_csv, tasks_csv
from workbench.cli.task_table import selection_summary, task_table
from workbench.links import build_profile
from workbench.records.origin import Origin
from workbench.records.profile import CallTime, Kernel, KernelCall, Measurement, Profile, TensorShape
from workbench.selection import select
from workbench.session import SessionDirectory

HOSTILE = {
    "markup": "<script>",
    "quotes": "a\"b'c",
    "lines": "a\nb\r\n",
    "terminal": "\x1b[31mred\x1b[0m",
    "rich": "[bold]x[/bold]",
    "long": "x" * 10_000,
    "non-ASCII": "свёртка畳",
    "override": "\u202eabc",
    "surrogate": "\ud800",
    "emoji": ":smile:",
}
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", " =1+1", "\uff1d1"]


def make_kernel(name: str, **changes: Any) -> Kernel:
    tensor = TensorShape((1, 64, 56, 56), "float32")
    return replace(Kernel(name, name, ("conv2d", "relu"), (tensor,), (tensor,), 1_850_000_000, 1_200_000_000), **changes)


def make_profile(names: list[str], times_us: list[float] | None = None, *, unmeasured: str = "", **changes: Any) -> Profile:
    times = times_us or [10.0] * len(names)
    calls = tuple(CallTime(time, 0.5, 10, nan_count=12 if index == 1 else 0, inf_count=0) for index, time in enumerate(times))
    values: dict[str, Any] = {
        "model": "net",
        "engine": "relax",
        "target": "llvm",
        "kernels": [make_kernel(name, untunable="dynamic shape" if name == "gather" else "") for name in dict.fromkeys(names)],
        "calls": [KernelCall(name, (Origin("Conv", f"/c{index}"), Origin("Relu", "/r"), Origin("Add", "/a"))) for index, name in enumerate(names)],
        "measurement": Measurement(calls, None, (), CallTime(sum(times), 1.25, 10), 0.1, 2, unmeasured),
        "builtin_origins": [],
        "notes": ["random weights"],
    }
    return build_profile(**(values | changes))


SMALL = make_profile(["conv", "dense", "conv", "gather"], [40.0, 30.0, 20.0, 10.0])


def shown(renderable: RenderableType, *, width: int = 250, encoding: str = "utf-8", terminal: bool = False) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    console = Console(file=stream, width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    console.print(renderable)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_a_wide_table_shows_the_debug_runtimes_columns_and_the_links() -> None:
    heading, _, first, second, *_ = shown(profile_table(SMALL)).splitlines()

    assert heading.split() == [
        *("Row", "Node", "Name", "Ops", "Time(us)", "±IQR(us)", "Time(%)", "Shape", "Inputs", "Outputs"),
        *("Dtype", "FLOP", "GFLOP/s", "Origins", "Kernel", "Task", "Flags"),
    ]
    cells = [cell.strip() for cell in first.split("  ") if cell.strip()]
    assert cells[:7] == ["0", "conv", "conv2d, relu", "40.00", "0.50", "40.00", "████████"]
    assert cells[7:] == ["(1, 64, 56, 56)", "1", "1", "float32", "1.85 G", "46,250.0", "Conv /c0, Relu /r +1", SMALL.tasks[0].task]
    assert second.endswith("NaN 12")
    assert "██████  " in second
    kernel = next(line for line in shown(profile_table(SMALL)).splitlines() if "conv_1" in line).split("  ")
    assert "conv" in [cell.strip() for cell in kernel]


def test_two_hundred_columns_show_times_with_spread_work_rate_origins_and_tasks() -> None:
    names = ["fused_conv2d_add_relu_multiply_tanh", "gather", "fused_conv2d_add_relu_multiply_tanh"]
    heading = shown(profile_table(make_profile(names)), width=200).splitlines()[0]

    assert {"Time(us)", "±IQR(us)", "Time(%)", "FLOP", "GFLOP/s", "Origins", "Task", "Flags"} <= set(heading.split())
    assert "+/-IQR(us)" in shown(profile_table(SMALL), encoding="ascii")


def test_one_round_has_no_spread() -> None:
    once = Measurement((CallTime(40.0, 0.0, 1),), None, (), CallTime(41.0, 0.0, 1), 0.1, 1)
    lines = shown(profile_table(make_profile(["conv"], measurement=once))).splitlines()

    assert [cell.strip() for cell in lines[2].split("  ") if cell.strip()][3:6] == ["40.00", "-", "100.00"]
    assert "sum of 1 row: 40.00 us (one round, 1 thread)" in lines
    assert "end to end: 41.00 us (one round)" in lines


def test_totals_and_notes_stand_under_the_rows() -> None:
    text = shown(profile_table(SMALL))

    assert "sum of 4 rows: 100.00 us (medians of 10 rounds, 2 threads)" in text
    assert "end to end: 100.00 us ± 1.25 us (median ± IQR)" in text
    assert "within the spread of whole runs" in text
    assert "note: random weights" in text


def test_every_view_says_which_times_are_noise() -> None:
    profile = replace(make_profile(["conv", "dense"]), resolution_us=1e6)
    said = "2 kernel rows are shorter than what timing one call can tell apart"
    for text in (shown(profile_table(profile)), shown(task_table(profile)), profile_csv(profile), tasks_csv(profile)):
        assert said in text


@pytest.mark.parametrize("unmeasured", ["", "no CUDA device"])
def test_every_view_carries_the_notes(unmeasured: str) -> None:
    profile = make_profile(["conv", "dense"], unmeasured=unmeasured)
    remarks = [f"not measured: {unmeasured}", "random weights"] if unmeasured else ["random weights"]

    for table in (profile_table(profile), task_table(profile), task_table(profile, select(profile, top=1))):
        assert [line for line in shown(table).splitlines() if line.startswith("note: ")] == [f"note: {remark}" for remark in remarks]
    for text in (profile_csv(profile), tasks_csv(profile)):
        frame = pd.read_csv(io.StringIO(text))
        assert frame.columns[-1] == "Notes"
        assert list(frame["Notes"]) == ["; ".join(remarks)] * 2


def test_an_unmeasured_profile_says_why_and_shows_no_numbers() -> None:
    profile = make_profile(["conv", "dense"], unmeasured="no CUDA device")
    text = shown(profile_table(profile))

    assert "not measured: no CUDA device" in text
    assert "sum of" not in text
    assert "█" not in text
    assert " - " in text.splitlines()[2]
    assert "not measured" in shown(task_table(profile, select(profile, top=1)))
    assert "of the FLOP (not measured)" in shown(selection_summary(profile, select(profile, top=1)))


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 160, 200, 300])
@pytest.mark.parametrize("name", ["fused_conv2d_add_relu_multiply_tanh_subtract", "畳" * 30, "\x1b[31m" * 20])
def test_every_row_is_one_line_that_fits_the_width(width: int, name: str) -> None:
    profile = make_profile([name, "gather", name, "dense"])
    for renderable in (profile_table(profile), task_table(profile, select(profile, rows=[0]))):
        lines = shown(renderable, width=width).splitlines()

        assert all(cell_len(line) <= width for line in lines)
        assert "─" in lines[1]
        assert sum("gather" in line for line in lines[2:6]) == (1 if width > 20 else sum("gather" in line for line in lines[2:6]))


@pytest.mark.parametrize("unmeasured", ["", "no CUDA device"])
def test_the_data_frame_carries_the_notes(unmeasured: str, session: SessionDirectory) -> None:
    frame = SessionProfile(session, make_profile(["conv"], unmeasured=unmeasured)).frame()

    assert frame.attrs == {"notes": ["random weights"], "unmeasured": unmeasured}


def test_a_narrow_table_keeps_names_times_and_tasks_and_says_what_it_leaves_out() -> None:
    lines = shown(profile_table(make_profile(["fused_conv2d_add_relu", "dense"])), width=80).splitlines()

    assert lines[0].split() == ["Row", "Node", "Name", "Time(us)", "Time(%)", "Task", "Flags"]
    assert "fused_conv2d_add_relu" in lines[2]
    assert lines[4].startswith("no room for: Ops, ±IQR(us), Shape")


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_hostile_names_reach_the_terminal_escaped_and_without_markup(name: str, encoding: str) -> None:
    kernel = make_kernel(name, ops=(name,))
    profile = make_profile([name], model=name, kernels=[kernel], calls=[KernelCall(name, (Origin(name, name, name),))], notes=[name], target=name)
    selection = select(profile, top=1)
    renderables = (
        profile_table(profile),
        task_table(profile, selection),
        selection_summary(profile, select(profile, ops=[name])),
    )
    for renderable in renderables:
        text = shown(renderable, encoding=encoding)

        assert all(line.isprintable() for line in text.split("\n"))
        assert "\u202e" not in text
        assert encoding == "utf-8" or text.isascii()
    if name.startswith(("[bold]", ":smile:", "<script>")):
        assert name in shown(profile_table(profile))


def test_bars_and_marks_have_an_ascii_form() -> None:
    table = shown(profile_table(SMALL), encoding="ascii")

    assert "########" in table
    assert "100.00 us +/- 1.25 us" in table
    assert "\nx  conv" in shown(task_table(SMALL, select(SMALL, rows=[0])), encoding="ascii")


def test_colour_is_for_terminals_only() -> None:
    assert "\x1b[" in shown(profile_table(SMALL), terminal=True)
    assert "\x1b" not in shown(profile_table(SMALL))


@pytest.mark.parametrize(
    ("columns", "width"),
    [(None, 220), ("33", 33), ("120", 120), ("400", 400), ("99999", 10_000), ("", 220), ("0", 220), ("-5", 220), ("wide", 220), ("9" * 5000, 220)],
)
def test_a_pipe_is_as_wide_as_columns_says_and_has_no_colour(columns: str | None, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    stream = io.StringIO()
    console = formats.table_console(stream)
    console.print(profile_table(SMALL))

    assert console.width == width
    assert max(map(cell_len, stream.getvalue().splitlines())) <= width
    assert "\x1b" not in stream.getvalue()


def test_a_reader_that_has_gone_is_the_callers_business() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError), os.fdopen(writing, "w", closefd=False) as stream:
        formats.table_console(stream).print(profile_table(SMALL))
    os.close(writing)


@pytest.mark.parametrize("command", ["models", "doctor"])
def test_a_command_whose_reader_has_gone_ends_quietly(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "workbench.cli.main", command], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)

    assert (done.returncode, done.stderr) == (0, b"")


def test_by_default_the_hottest_forty_rows_stand_in_execution_order() -> None:
    times_us = [100.0 if index % 5 == 0 else 1.0 for index in range(200)]
    profile = make_profile([f"k{index}" for index in range(200)], times_us)
    lines = shown(profile_table(profile)).splitlines()

    assert [int(line.split()[0]) for line in lines[2:42]] == list(range(0, 200, 5))
    assert next(line for line in lines if line.startswith("…")) == "… 160 rows below 0.03 % each, together 3.8 % (all rows: --all)"
    assert len([line for line in shown(profile_table(profile, all_rows=True)).splitlines() if " k" in line and "hottest:" not in line]) == 200


def test_forty_rows_hide_nothing() -> None:
    assert "--all" not in shown(profile_table(make_profile([f"k{index}" for index in range(40)])))


@pytest.mark.parametrize(("size", "hidden"), [(41, 0), (45, 0), (46, 6)])
def test_hardly_any_hidden_rows_are_shown_instead(size: int, hidden: int) -> None:
    text = shown(profile_table(make_profile([f"k{index}" for index in range(size)])))

    assert (f"… {hidden} rows below " in text) == bool(hidden)
    assert len([line for line in text.splitlines() if " k" in line and "hottest:" not in line]) == size - hidden


def test_the_hottest_row_is_named_with_its_task_and_origins() -> None:
    profile = make_profile(["conv2d", "dense"], [10.0, 30.0])
    row = profile.rows[1]
    assert f"hottest: row 1, {row.time_percent:.1f} % of the time, task {row.task}, from {row.origins[0]}" in shown(profile_table(profile))


def test_the_task_table_ranks_ticks_and_explains() -> None:
    selection = select(SMALL, top=1)
    lines = shown(task_table(SMALL, selection)).splitlines()
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]

    assert cells[0] == ["Task", "Name", "Weight", "Time(us)", "Time(%)", "FLOP", "Space", "Shapes", "Cannot be tuned"]
    assert cells[2][:8] == ["✔", SMALL.tasks[0].task, "conv", "2", "60.00", "60.00", "████████", "1.85 G"]
    assert cells[2][8:] == ["1.2e9", "(1, 64, 56, 56), (1, 64, 56, 56)"]
    assert cells[3][0] == SMALL.tasks[1].task
    assert cells[4][-1] == "dynamic shape"


@pytest.mark.parametrize(("others", "words"), [(["conv_b"], "conv_a +1 kernel"), (["conv_b", "conv_c"], "conv_a +2 kernels")])
def test_a_task_of_several_kernels_says_so(others: list[str], words: str) -> None:
    names = ["conv_a", *others]
    profile = make_profile(names, kernels=[make_kernel(name, structural_hash="same") for name in names])

    assert f"  {words}  " in shown(task_table(profile))


def test_the_summary_forecasts_the_model() -> None:
    text = shown(selection_summary(SMALL, select(SMALL, rows=[0])))

    assert text.splitlines() == [
        "1 of 3 tasks ticked (2 rows), covering 60 % of the rows' time",
        "rule: row 0 (row 0 also selects row 2)",
        "if 2x faster: model 1.43x",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (999, "999"), (1_000, "1 k"), (999_600, "1 M"), (1_850_000_000, "1.85 G"), (2 * 10**18, "2.00e+03 P")],
)
def test_operations_are_written_with_a_prefix(value: int | None, text: str) -> None:
    assert formats.operations(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (420, "420"), (9_999, "9999"), (10_000, "1.0e4"), (1_249_000_000, "1.2e9"), (10**4000, "1.0e4000")],
)
def test_counts_of_any_size_take_a_few_characters(value: int | None, text: str) -> None:
    assert formats.count(value) == text


@pytest.mark.parametrize(
    ("share", "unicode_bar", "ascii_bar"),
    [(0.0, "", ""), (1e-9, "▏", "#"), (0.5, "████", "####"), (0.55, "████▍", "####"), (1.0, "████████", "########"), (7.0, "████████", "########")],
)
def test_bars_show_any_share_above_zero(share: float, unicode_bar: str, ascii_bar: str) -> None:
    assert formats.bar(share, width=8, ascii_only=False) == unicode_bar
    assert formats.bar(share, width=8, ascii_only=True) == ascii_bar


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (0.0, "0.00"), (0.0042, "0.0042"), (1234.567, "1,234.57"), (1e15, "1.000e+15")])
def test_times_have_two_decimals_that_say_something_and_never_sprawl(value: float | None, text: str) -> None:
    assert formats.microseconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0, "0.01"), (0.02, "0.03"), (0.073, "0.08"), (0.1, "0.2"), (9.5, "10"), (12.0, "20")])
def test_the_bound_of_the_hidden_rows_is_above_all_of_them(value: float, text: str) -> None:
    assert formats.above(value) == text
    assert float(text) > value


def test_csv_starts_with_the_old_columns_and_keeps_full_precision() -> None:
    rows = list(csv.reader(io.StringIO(profile_csv(SMALL))))

    assert profile_csv(SMALL).startswith("Node Name,Ops,Time(us),Time(%),Shape,Inputs,Outputs,")
    assert rows[1][:7] == ["conv", "conv2d, relu", "40.0", "40.0", "(1, 64, 56, 56)", "1", "1"]
    assert dict(zip(rows[0], rows[2], strict=True))["NaN"] == "12"
    assert dict(zip(rows[0], rows[4], strict=True))["Untunable"] == "dynamic shape"
    assert len(rows) == 5


def test_task_csv_has_a_line_per_task() -> None:
    rows = list(csv.DictReader(io.StringIO(tasks_csv(SMALL))))

    assert [(row["Name"], row["Weight"], row["Rows"], row["Space Size"]) for row in rows] == [
        ("conv", "2", "0, 2", "1200000000"),
        ("dense", "1", "1", "1200000000"),
        ("gather", "1", "3", "1200000000"),
    ]


def test_csv_leaves_unknown_values_empty() -> None:
    row = next(csv.DictReader(io.StringIO(profile_csv(make_profile(["conv"], unmeasured="no device")))))

    assert (row["Time(us)"], row["Time(%)"], row["GFLOP/s"]) == ("", "", "")


@pytest.mark.parametrize("name", [*HOSTILE.values(), *FORMULAS], ids=[*HOSTILE.keys(), *map(ascii, FORMULAS)])
def test_hostile_names_stay_one_cell_and_never_a_formula(name: str) -> None:
    calls = [KernelCall(name, (Origin(name, name),))]
    profile = make_profile([name], kernels=[make_kernel(name, ops=(name,))], calls=calls)
    for text in (profile_csv(profile), tasks_csv(profile)):
        rows = list(csv.reader(io.StringIO(text)))

        assert text.count("\n") == 2
        assert len(rows[1]) == len(rows[0])
        assert text.encode("utf-8")
        assert not any(cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d")) for cell in rows[1])
    assert name not in FORMULAS or f"'{name}" in next(csv.DictReader(io.StringIO(tasks_csv(profile))))["Name"]


def count_calls(work: Callable[[], object]) -> int:
    """How many functions were called: a measure of work that no busy machine disturbs."""
    count = 0

    def hook(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(hook)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_the_work_for_all_rows_grows_with_the_rows_and_the_default_hardly_at_all() -> None:
    small, large = (make_profile([f"k{index}" for index in range(size)]) for size in (200, 800))

    assert count_calls(lambda: shown(profile_table(large, all_rows=True))) < 4.5 * count_calls(lambda: shown(profile_table(small, all_rows=True)))
    assert count_calls(lambda: shown(profile_table(large))) < 2 * count_calls(lambda: shown(profile_table(small)))


@pytest.mark.parametrize("name", [*HOSTILE.values(), *FORMULAS], ids=[*HOSTILE.keys(), *map(ascii, FORMULAS)])
def test_pandas_reads_the_csv_of_hostile_names_without_options(name: str) -> None:
    calls = [KernelCall(name, (Origin(name, name, name),)), KernelCall("dense", ())]
    kernels = [make_kernel(name, ops=(name,)), make_kernel("dense")]
    profile = make_profile([name, "dense"], [1.5, 1e-3], kernels=kernels, calls=calls, notes=[name, "random weights"])
    rows, tasks = (pd.read_csv(io.StringIO(text)) for text in (profile_csv(profile), tasks_csv(profile)))

    assert tuple(rows.columns) == ROW_COLUMNS
    assert tuple(tasks.columns) == TASK_COLUMNS
    assert list(rows["Time(us)"]) == list(tasks["Time(us)"]) == [1.5, 1e-3]
    assert list(rows["FLOP"]) == list(tasks["FLOP"]) == [1_850_000_000] * 2
    assert list(rows["Row"]) == [0, 1]
    assert list(rows["Node Name"])[1] == list(tasks["Name"])[1] == "dense"
    assert rows["Notes"].str.endswith("; random weights").all()
