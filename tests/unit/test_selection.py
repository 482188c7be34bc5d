"""Selections: by rule, by file, and what they promise."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from workbench.errors import SelectionError
from workbench.links import build_profile
from workbench.records.origin import Origin
from workbench.records.profile import CallTime, Kernel, KernelCall, Measurement, Profile, TensorShape
from workbench.records.selection import SelectedTask, Selection
from workbench.selection import covered_share, forecast_speedup, hottest, read_selection, select, write_selection

HOSTILE = {
    "markup": "<script>",
    "quotes": "a\"b'c",
    "lines": "a\nb",
    "terminal": "\x1b[31m",
    "long": "x" * 10_000,
    "non-ASCII": "свёртка",
    "override": "\u202eabc",
    "surrogate": "\ud800",
    "wide": "畳" * 500,
}


def make_kernel(name: str, *ops: str, flop: int | None = 1_000, untunable: str = "") -> Kernel:
    tensor = TensorShape((1, 8), "float32")
    return Kernel(name, f"hash of {name}", ops, (tensor,), (tensor,), flop, None if untunable else 420, untunable)


KERNELS = [
    make_kernel("fused_conv2d_relu", "conv2d", "relu", flop=9_000),
    make_kernel("fused_conv2d_add", "conv2d", "add", flop=5_000),
    make_kernel("max_pool2d", "max_pool2d", flop=700),
    make_kernel("gather", "take", flop=None, untunable="dynamic shape"),
    make_kernel("spare", "tanh"),
]
# row:     0                    1             2                   3        4
CALLED = ["fused_conv2d_relu", "max_pool2d", "fused_conv2d_add", "gather", "fused_conv2d_add"]
TIMES_US = [20.0, 10.0, 25.0, 20.0, 15.0]
CONV_RELU, POOL, CONV_ADD, GATHER = 0, 1, 2, 3


def make_profile(*, measured: bool = True, model: str = "net", target: str = "llvm") -> Profile:
    source = {"fused_conv2d_relu": "Conv", "fused_conv2d_add": "Conv", "max_pool2d": "nn.max_pool2d", "gather": "Gather"}
    calls = [KernelCall(name, (Origin(source[name], f"/{index}"),)) for index, name in enumerate(CALLED)]
    times = tuple(CallTime(time, 0.5, 10) for time in TIMES_US)
    yes = Measurement(times, CallTime(10.0, 0.1, 10), (("vm.builtin.reshape", 1),), CallTime(95.0, 1.0, 10), 0.1, 2)
    no = Measurement((), None, (), None, 0.0, 0, "no CUDA device")
    return build_profile(
        model=model,
        engine="relax",
        target=target,
        kernels=KERNELS,
        calls=calls,
        measurement=yes if measured else no,
        builtin_origins=[Origin("Reshape", "/flatten")],
        notes=["random weights"],
    )


PROFILE = make_profile()
UNMEASURED = make_profile(measured=False)


def names(selection: Selection) -> list[str]:
    return [item.name for item in selection.tasks]


@pytest.mark.parametrize(
    ("rules", "chosen", "rows", "words"),
    [
        ({"share": 0.3}, ["fused_conv2d_add"], (2, 4), "share 0.3"),
        ({"share": 0.4}, ["fused_conv2d_add"], (2, 4), "share 0.4"),
        ({"share": 0.41}, ["fused_conv2d_add", "fused_conv2d_relu"], (0, 2, 4), "share 0.41"),
        (
            {"share": 0.9},
            ["fused_conv2d_add", "fused_conv2d_relu", "max_pool2d"],
            (0, 1, 2, 4),
            "share 0.9 (out of reach: all 3 tasks to choose from cover 0.7)",
        ),
        ({"top": 1}, ["fused_conv2d_add"], (2, 4), "top 1"),
        (
            {"top": 9},
            ["fused_conv2d_add", "fused_conv2d_relu", "max_pool2d"],
            (0, 1, 2, 4),
            "top 9 (there are only 3 to choose from)",
        ),
        ({"rows": [0]}, ["fused_conv2d_relu"], (0,), "row 0"),
        ({"rows": [2, 0]}, ["fused_conv2d_add", "fused_conv2d_relu"], (0, 2, 4), "rows 0, 2 (row 2 also selects row 4)"),
        ({"rows": range(3)}, ["fused_conv2d_add", "fused_conv2d_relu", "max_pool2d"], (0, 1, 2, 4), "rows 0-2 (row 2 also selects row 4)"),
        ({"ops": ["conv2d"]}, ["fused_conv2d_add", "fused_conv2d_relu"], (0, 2, 4), "operator conv2d"),
        ({"ops": "relu"}, ["fused_conv2d_relu"], (0,), "operator relu"),
        ({"ops": ["CONV"]}, ["fused_conv2d_add", "fused_conv2d_relu"], (0, 2, 4), "operator CONV"),
        ({"ops": ["nn.max_pool2d"]}, ["max_pool2d"], (1,), "operator nn.max_pool2d"),
        ({"ops": ["relu"], "rows": [1]}, ["fused_conv2d_relu", "max_pool2d"], (0, 1), "row 1 or operator relu"),
        ({"ops": ["conv2d"], "top": 1}, ["fused_conv2d_add"], (2, 4), "operator conv2d, then top 1"),
        ({"rows": [1], "share": 0.1}, ["max_pool2d"], (1,), "row 1, then share 0.1"),
        ({"share": 0.9, "top": 2}, ["fused_conv2d_add", "fused_conv2d_relu"], (0, 2, 4), None),
    ],
)
def test_a_rule_selects_tasks_hottest_first_with_all_their_rows(
    rules: dict[str, Any], chosen: list[str], rows: tuple[int, ...], words: str | None
) -> None:
    selection = select(PROFILE, **rules)

    assert (names(selection), selection.rows) == (chosen, rows)
    assert words is None or selection.rule == words
    assert (selection.model, selection.target) == ("net", "llvm")


@pytest.mark.parametrize("name", ["fused_conv2d_relu", PROFILE.tasks[CONV_RELU].task, PROFILE.tasks[CONV_RELU].task[:14]])
def test_a_task_is_found_by_kernel_name_identifier_or_unique_beginning(name: str) -> None:
    assert names(select(PROFILE, tasks=[name])) == ["fused_conv2d_relu"]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({}, ["No rule", "Give a share"]),
        ({"share": 0}, ["share 0 ", "Write 0.8 for 80 %"]),
        ({"share": 80}, ["share 80 ", "Write 0.8 for 80 %"]),
        ({"share": float("nan")}, ["share nan"]),
        ({"share": True}, ["share True"]),
        ({"top": 0}, ["0 is not a positive"]),
        ({"top": -1}, ["-1 is not a positive"]),
        ({"top": 1.5}, ["1.5 is not a positive"]),
        ({"rows": []}, ["No rows", "0 to 5"]),
        ({"rows": [6]}, ["no row 6", "0 to 5"]),
        ({"rows": [-1]}, ["no row -1"]),
        ({"rows": [1.0]}, ["1.0 is not a row number"]),
        ({"rows": [True]}, ["True is not a row number"]),
        ({"rows": ["1"]}, ["'1' is not a row number"]),
        ({"rows": range(4)}, ["Row 3 cannot be tuned: dynamic shape", "Leave it out: 0-2"]),
        ({"rows": [3, 5]}, ["Rows 3, 5 cannot be tuned", "VM builtins", "Choose other rows"]),
        ({"tasks": []}, ["No tasks are given"]),
        ({"tasks": [""]}, ['"" is no name']),
        ({"tasks": ["fused_conv2d_rule"]}, ['no task or kernel "fused_conv2d_rule"', "Did you mean fused_conv2d_relu"]),
        ({"tasks": ["fused"]}, ['"fused" fits 2 tasks', "Say which: fused_conv2d_relu-"]),
        ({"tasks": ["gather"]}, ["gather-", "cannot be tuned: dynamic shape"]),
        ({"tasks": ["spare"]}, ["no row calls it"]),
        ({"ops": []}, ["No operators are given"]),
        ({"ops": ["conv3d"]}, ['operator "conv3d"', "Did you mean conv2d"]),
        ({"ops": ["zzz"]}, ["The kernels' operators are add, conv2d, max_pool2d, relu, take"]),
        ({"ops": ["CONV2D"]}, ["Did you mean conv2d"]),
        ({"ops": ["take"]}, ['"take" can be tuned: dynamic shape']),
        ({"ops": ["reshape"]}, ["runs as VM builtins"]),
    ],
)
def test_a_rule_that_selects_nothing_sensible_says_what_to_do(rules: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(SelectionError) as caught:
        select(PROFILE, **rules)

    assert all(words in str(caught.value) for words in said), str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("rule", ["tasks", "ops"])
def test_hostile_names_in_a_rule_come_back_harmless(rule: str, text: str) -> None:
    with pytest.raises(SelectionError) as caught:
        select(PROFILE, **{rule: [text]})  # type: ignore[arg-type]

    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_without_times_share_and_top_go_by_flop_and_say_so() -> None:
    by_share, by_top = select(UNMEASURED, share=0.5), select(UNMEASURED, top=2)

    assert (names(by_share), by_share.rule) == (["fused_conv2d_add"], "share 0.5 by FLOP: not measured")
    assert (names(by_top), by_top.rule) == (["fused_conv2d_add", "fused_conv2d_relu"], "top 2 by FLOP: not measured")


def test_without_times_and_flop_there_is_no_hottest_task() -> None:
    blank = replace(
        UNMEASURED,
        rows=tuple(replace(row, flop=None) for row in UNMEASURED.rows),
        tasks=tuple(replace(task, flop=None) for task in UNMEASURED.tasks),
    )

    with pytest.raises(SelectionError, match=r"no FLOP are known.*by name"):
        select(blank, top=1)
    assert names(select(blank, rows=[0])) == ["fused_conv2d_relu"]


def test_a_model_without_tunable_kernels_says_why() -> None:
    stuck = replace(PROFILE, tasks=tuple(replace(task, untunable="dynamic shape") for task in PROFILE.tasks))

    with pytest.raises(SelectionError, match="No kernel of net can be tuned: dynamic shape"):
        select(stuck, share=0.8)


def test_a_rule_with_many_rows_stays_short() -> None:
    many = build_profile(
        model="net",
        engine="relax",
        target="llvm",
        kernels=[make_kernel(f"k{index}", "add") for index in range(500)],
        calls=[KernelCall(f"k{index % 500}", ()) for index in range(5_000)],
        measurement=Measurement(tuple(CallTime(1.0, 0.1, 3) for _ in range(5_000)), None, (), None, 0.0, 1),
        builtin_origins=[],
        notes=[],
    )
    selection = select(many, rows=range(0, 500, 2))

    assert len(selection.tasks) == 250
    assert len(selection.rule) <= 300


def test_tasks_are_ranked_by_time_or_by_flop() -> None:
    assert [task.name for task in hottest(PROFILE)] == ["fused_conv2d_add", "fused_conv2d_relu", "gather", "max_pool2d", "spare"]
    assert [task.name for task in hottest(UNMEASURED)][:2] == ["fused_conv2d_add", "fused_conv2d_relu"]


def test_the_forecast_follows_amdahl() -> None:
    selection = select(PROFILE, ops=["conv2d"])

    assert covered_share(PROFILE, selection) == pytest.approx(0.6)
    assert forecast_speedup(PROFILE, selection, 2.0) == pytest.approx(1 / (0.4 + 0.3))
    assert forecast_speedup(PROFILE, selection, 1.0) == pytest.approx(1.0)
    assert forecast_speedup(PROFILE, selection, 1e9) == pytest.approx(1 / 0.4)


def test_nothing_is_forecast_without_times_or_for_another_profile() -> None:
    selection = select(UNMEASURED, top=1)

    assert covered_share(UNMEASURED, selection) == pytest.approx(10_000 / 19_700)
    with pytest.raises(SelectionError, match="Without measured times"):
        forecast_speedup(UNMEASURED, selection, 2.0)
    with pytest.raises(SelectionError, match='"gone", which is no task of net'):
        covered_share(PROFILE, replace(selection, tasks=(SelectedTask("gone", "gone"),)))
    with pytest.raises(ValueError, match="positive"):
        forecast_speedup(PROFILE, selection, 0.0)


def file_text(**changes: Any) -> str:
    values: dict[str, Any] = select(PROFILE, top=2).to_dict() | changes
    return json.dumps({key: value for key, value in values.items() if value is not ...})


def entry(**changes: Any) -> dict[str, Any]:
    task = PROFILE.tasks[CONV_RELU]
    values = {"task": task.task, "name": task.name, "trials": 64, "seconds": None} | changes
    return {key: value for key, value in values.items() if value is not ...}


def test_a_written_selection_reads_back_the_same() -> None:
    selection = select(PROFILE, share=0.5)
    budgeted = replace(selection, tasks=tuple(replace(item, trials=64, seconds=1.5) for item in selection.tasks))

    assert read_selection(write_selection(budgeted), PROFILE) == budgeted
    assert write_selection(budgeted) == write_selection(read_selection(write_selection(budgeted), PROFILE))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_selection_of_hostile_names_survives_its_file(text: str) -> None:
    kernel = make_kernel(text, text)
    profile = build_profile(
        model=text,
        engine="relax",
        target=text,
        kernels=[kernel],
        calls=[KernelCall(text, (Origin(text, text),))],
        measurement=Measurement((CallTime(1.0, 0.1, 3),), None, (), None, 0.0, 1),
        builtin_origins=[],
        notes=[],
    )
    selection = select(profile, ops=[text])
    written = write_selection(selection)

    assert written.isascii()
    assert selection.rule.isprintable()
    assert read_selection(written, profile) == selection
    assert names(select(profile, tasks=[text])) == [text]


def test_a_selection_carries_the_notes_of_its_profile_and_a_file_may_lack_them() -> None:
    selection = select(PROFILE, top=1)

    assert selection.notes == ("random weights",)
    assert json.loads(write_selection(selection))["notes"] == ["random weights"]
    assert read_selection(file_text(notes=...), PROFILE).notes == ("random weights",)
    assert read_selection(file_text(notes=["of another profile"]), PROFILE).notes == ("random weights",)
    assert Selection.from_dict({key: value for key, value in selection.to_dict().items() if key != "notes"}).notes == ()


def test_a_hand_written_file_needs_only_tasks() -> None:
    text = file_text(model=..., target=..., rule=..., rows=..., notes=..., tasks=[entry(name=..., seconds=...)])
    selection = read_selection(text, PROFILE)

    assert selection.tasks == (SelectedTask(PROFILE.tasks[CONV_RELU].task, "fused_conv2d_relu", 64, None),)
    assert selection.rows == (0,)
    assert "an unknown model" in selection.rule


def test_tasks_of_another_target_are_matched_by_kernel_name_and_the_rule_says_so() -> None:
    other = make_profile(model="net2", target="cuda")
    selection = read_selection(write_selection(select(PROFILE, top=2)), other)

    assert [item.task for item in selection.tasks] == [other.tasks[CONV_ADD].task, other.tasks[CONV_RELU].task]
    assert (selection.model, selection.target) == ("net2", "cuda")
    assert selection.rule == "top 2; made for net on llvm; 2 matched by kernel name"
    assert read_selection(write_selection(selection), other) == selection


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "the file must be a JSON object, not a list"),
        ("null", "the file must be a JSON object, not nothing"),
        ('{"a": 1, "a": 2}', "a key stands twice"),
        ('{"format": NaN}', "NaN is not a JSON value"),
        ('{"version": ' + "9" * 5000 + "}", "not valid JSON"),
        (" " * 1_000_001, "larger than 1,000,000 bytes"),
        ('"' + "畳" * 400_000 + '"', "larger than 1,000,000 bytes"),
        ("{}", "its format is nothing"),
        (file_text(format="other"), 'its format is "other"'),
        (file_text(version=2), "has version 2; this workbench reads up to 1. Update the workbench"),
        (file_text(version=0), "version must be a positive"),
        (file_text(version=True), "version must be a positive"),
        (file_text(version="1"), "version must be a positive"),
        (file_text(model=3), "model must be a text, not 3"),
        (file_text(rule=None), "rule must be a text, not nothing"),
        (file_text(rows=3), "rows must be a list"),
        (file_text(rows=[0, -1]), "rows[1] must be a whole number from 0, not -1"),
        (file_text(rows=[True]), "rows[0] must be"),
        (file_text(notes="random weights"), 'notes must be a list, not "random weights"'),
        (file_text(notes=["a", 3]), "notes[1] must be a text, not 3"),
        (file_text(tasks=...), "tasks must be a list, not nothing"),
        (file_text(tasks=[]), "ticks no task"),
        (file_text(tasks=["a"]), 'tasks[0] must be a JSON object, not "a"'),
        (file_text(task=[]), 'unknown key "task" (Did you mean tasks'),
        (file_text(tasks=[entry(trails=3)]), 'tasks[0] has the unknown key "trails" (Did you mean trials'),
        (file_text(tasks=[entry(task=5)]), "tasks[0].task must be a text, not 5"),
        (file_text(tasks=[entry(task=...)]), "tasks[0].task must be a text"),
        (file_text(tasks=[entry(name=None)]), "tasks[0].name must be a text"),
        (file_text(tasks=[entry(task="", name="")]), "tasks[0] has neither"),
        (file_text(tasks=[entry(trials=0)]), "tasks[0].trials must be a whole number from 1 to 1,000,000,000 or null, not 0"),
        (file_text(tasks=[entry(trials=1.5)]), "tasks[0].trials"),
        (file_text(tasks=[entry(trials=True)]), "tasks[0].trials"),
        (file_text(tasks=[entry(trials="64")]), "tasks[0].trials"),
        (file_text(tasks=[entry(trials=10**30)]), "tasks[0].trials"),
        (file_text(tasks=[entry(seconds=-1)]), "tasks[0].seconds must be a number above 0"),
        (file_text(tasks=[entry(seconds=0)]), "tasks[0].seconds"),
        (file_text(tasks=[entry(seconds=[[]])]), "tasks[0].seconds must be a number above 0 and at most 1,000,000,000 or null, not a list"),
        (file_text(tasks=[entry(seconds=7)]).replace(": 7", ": 1e999"), "tasks[0].seconds"),
        (file_text(tasks=[entry(), entry()]), "two of its entries tick the same task"),
        (file_text(tasks=[entry(task="x", name="conv9"), entry(task="y", name="\x1b[31m")]), "2 of 2 tasks in the selection file are not in net"),
        (file_text(tasks=[entry(task="x", name="fused_conv2d_rule")]), "Did you mean fused_conv2d_relu"),
        (file_text(tasks=[entry(task="x", name="gather")]), "cannot be tuned in net on llvm: gather (dynamic shape)"),
    ],
    ids=lambda text: ascii(text[:24]),
)
def test_a_file_that_cannot_be_used_says_where_and_why(text: str, said: str) -> None:
    with pytest.raises(SelectionError) as caught:
        read_selection(text, PROFILE)

    assert said in str(caught.value), str(caught.value)
    assert caught.value.remedy
    assert str(caught.value).isprintable()
