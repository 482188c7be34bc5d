"""Two sessions side by side: the same kernels are found, and noise is no difference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workbench.analysis.session_pair import FIRST_FASTER, NO_DIFFERENCE, SECOND_FASTER, UNKNOWN, Known, Side, judged, side_by_side
from workbench.cli.main import main
from workbench.records.tuning import FASTER, Final, TaskProgress


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
    assert main(["compare", paths[0], str(tmp_path / "nowhere")]) == 2
