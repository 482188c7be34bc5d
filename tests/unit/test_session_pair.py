"""Two sessions side by side: the same kernels are found, and noise is no difference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_apply_cli import COMPARISON, FAILED
from workbench.analysis.session_pair import FIRST_FASTER, NO_DIFFERENCE, SECOND_FASTER, UNKNOWN, Known, Side, judged, side_by_side
from workbench.cli.main import main
from workbench.records.tuning import FASTER, Final, TaskProgress
from workbench.session import SessionDirectory


def side(sessions: Any, names: list[str], *, factor: float = 1.0, iqr: float = 0.5, tasks: tuple[TaskProgress, ...] = (), **facts: str) -> Side:
    profile = sessions.profile(names)
    rows = tuple(
        replace(row, time_us=row.time_us * factor, time_us_iqr=iqr) if row.kernel is not None and row.time_us is not None else row
        for row in profile.rows
    )
    scaled = tuple(replace(task, time_us=(task.time_us or 0.0) * factor) for task in profile.tasks)
    profile = replace(profile, rows=rows, tasks=scaled)
    hashes = {row.task: f"hash of {row.kernel}" for row in profile.rows if row.task is not None}
    return Side("s", profile, hashes, tasks, facts)


def test_a_difference_above_the_noise_has_a_direction_and_one_within_it_has_none() -> None:
    assert judged(Known(100.0, 1.0), Known(50.0, 1.0)).verdict == SECOND_FASTER
    assert judged(Known(50.0, 1.0), Known(100.0, 1.0)).verdict == FIRST_FASTER
    assert judged(Known(100.0, 10.0), Known(95.0, 10.0)).verdict == NO_DIFFERENCE
    assert judged(Known(100.0, None), Known(50.0, 1.0)).verdict == UNKNOWN
    assert judged(None, Known(50.0, 1.0)).ratio is None
    found = judged(Known(100.0, 1.0), Known(50.0, 1.0))
    assert found.ratio == pytest.approx(2.0)
    assert found.ratio_error == pytest.approx(2.0 * (0.01**2 + 0.02**2) ** 0.5)


def test_kernels_are_matched_by_structure_and_those_of_one_session_alone_are_kept(sessions: Any) -> None:
    pair = side_by_side(side(sessions, ["conv2d", "dense"]), side(sessions, ["softmax", "conv2d"]))
    assert {kernel.kernel: kernel.found for kernel in pair.kernels} == {"conv2d": "both", "dense": "first", "softmax": "second"}


def test_a_kernel_that_another_tvm_hashes_otherwise_is_matched_by_name_and_shapes(sessions: Any) -> None:
    second = side(sessions, ["conv2d"])
    pair = side_by_side(side(sessions, ["conv2d"]), replace(second, hashes=dict.fromkeys(second.hashes, "other")))
    assert [kernel.found for kernel in pair.kernels] == ["both"]


def test_kernels_without_a_known_structure_are_not_taken_for_one_another(sessions: Any) -> None:
    first, second = (replace(side(sessions, names), hashes={}) for names in (["conv2d", "dense"], ["softmax", "conv2d"]))
    pair = side_by_side(first, second)
    assert {kernel.kernel: kernel.found for kernel in pair.kernels} == {"conv2d": "both", "dense": "first", "softmax": "second"}


def test_structures_are_matched_before_names_whatever_the_order_of_the_kernels(sessions: Any) -> None:
    """The second session calls the first one's `b` an `a`, and has an `a` of another structure beside it."""
    first, second = side(sessions, ["a", "b"]), side(sessions, ["a", "c"])
    tasks = {task.name: task.task for task in second.profile.tasks}
    hashes = {tasks["a"]: "hash of b", tasks["c"]: "of another kernel"}
    pair = side_by_side(first, replace(second, hashes=hashes))
    assert {kernel.kernel: kernel.found for kernel in pair.kernels} == {"b": "both", "a": "first", "c": "second"}


def test_the_largest_differences_come_first(sessions: Any) -> None:
    pair = side_by_side(side(sessions, ["a", "b", "c"]), side(sessions, ["a", "b", "c"], factor=0.5))
    assert [kernel.kernel for kernel in pair.kernels] == ["a", "b", "c"]
    assert {kernel.untuned.verdict for kernel in pair.kernels} == {SECOND_FASTER}


def test_noise_between_two_runs_of_one_session_is_no_difference(sessions: Any) -> None:
    pair = side_by_side(side(sessions, ["a", "b"], iqr=20.0), side(sessions, ["a", "b"], factor=1.02, iqr=20.0))
    assert {kernel.untuned.verdict for kernel in pair.kernels} == {NO_DIFFERENCE}
    assert pair.total.verdict == NO_DIFFERENCE


def test_best_times_come_from_the_finals_and_have_no_verdict_without_them(sessions: Any) -> None:
    (task,) = sessions.profile(["a"]).tasks
    final = Final(3, 100.0, 1.0, 40.0, 0.5, 3, 11, FASTER, "why")
    with_final = TaskProgress(task.task, "a", 1, trials=9, final=final)
    without = TaskProgress(task.task, "a", 1, trials=5, best_us=80.0)
    pair = side_by_side(
        side(sessions, ["a"], tasks=(with_final,)), side(sessions, ["a"], tasks=(replace(with_final, final=replace(final, winner_us=20.0)),))
    )
    assert (pair.kernels[0].best.verdict, pair.kernels[0].trials) == (SECOND_FASTER, (9, 9))
    pair = side_by_side(side(sessions, ["a"], tasks=(with_final,)), side(sessions, ["a"], tasks=(without,)))
    assert (pair.kernels[0].best.verdict, pair.kernels[0].best.ratio) == (UNKNOWN, 0.5)


def test_the_applied_models_stand_beside_the_untuned_ones(sessions: Any) -> None:
    first, second = side(sessions, ["a"]), side(sessions, ["a"])
    assert side_by_side(first, second).tuned.first is None
    pair = side_by_side(replace(first, tuned=Known(900.0, 2.0)), replace(second, tuned=Known(450.0, 2.0)))
    assert (pair.tuned.ratio, pair.tuned.verdict) == (2.0, SECOND_FASTER)
    one = side_by_side(replace(first, tuned=Known(900.0, 2.0)), second).to_dict()["tuned"]
    assert (one["first_us"], one["second_us"], one["verdict"]) == (900.0, None, UNKNOWN)


def test_what_else_differs_is_told(sessions: Any) -> None:
    pair = side_by_side(side(sessions, ["a"], processor="X", threads="2"), side(sessions, ["a"], processor="Y", threads="2"))
    assert pair.notes == ("processor: X in the first, Y in the second",)


def test_compare_on_the_command_line(tmp_path: Path, sessions: Any, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(sessions.write(tmp_path / name, sessions.profile(kernels)).path) for name, kernels in (("a", ["x", "y"]), ("b", ["x", "z"]))]
    assert main(["compare", *paths]) == 0
    assert "1 of 3 kernels are in both" in capsys.readouterr().out
    assert main(["compare", *paths, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {kernel["found"] for kernel in told["kernels"]} == {"both", "first", "second"}
    assert told["tuned"]["first_us"] is None
    with SessionDirectory.open(Path(paths[1])).store() as store:
        store.write_document("comparison", COMPARISON.to_dict())
    assert main(["compare", *paths]) == 0
    assert "end to end, tuned: - and 60.00 us, -: unknown" in capsys.readouterr().out
    with SessionDirectory.open(Path(paths[1])).store() as store:
        store.write_document("comparison", FAILED.to_dict())
    assert main(["compare", *paths]) == 0
    assert " tuned:" not in capsys.readouterr().out
    assert main(["compare", paths[0], str(tmp_path / "nowhere")]) == 2
