"""Rows, kernels, tasks and origins: tied together exactly, in linear time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from workbench.links import BUILTINS_UNTUNABLE, NEVER_CALLED, build_profile, difference_note, resolution_note
from workbench.records.origin import Origin
from workbench.records.profile import CallTime, Kernel, KernelCall, Measurement, Profile, TensorShape

TraceFunction = Callable[[FrameType, str, object], Any]
UNMEASURED = Measurement((), None, (), None, 0.0, 0, "no CUDA device")
RESHAPE = Origin("Reshape", "/flatten")


def kernel(name: str, structural_hash: str = "", **changes: Any) -> Kernel:
    tensor = TensorShape((1, 8), "float32")
    made = Kernel(
        name=name,
        structural_hash=structural_hash or f"hash of {name}",
        ops=("conv2d", "relu"),
        parameters=(tensor, TensorShape((8, 8), "float32")),
        results=(tensor,),
        flop=1_000_000,
        space_size=420,
    )
    return replace(made, **changes)


def measured(times_us: Sequence[float], **changes: Any) -> Measurement:
    made = Measurement(tuple(CallTime(time, 0.5, 10) for time in times_us), None, (), CallTime(sum(times_us), 1.0, 10), 0.1, 2)
    return replace(made, **changes)


def link(kernels: Sequence[Kernel], called: Sequence[str], measurement: Measurement | None = None, **changes: Any) -> Profile:
    values: dict[str, Any] = {
        "model": "net",
        "engine": "relax",
        "target": "llvm",
        "kernels": kernels,
        "calls": [KernelCall(name, (Origin("Conv", f"/conv{index}"),)) for index, name in enumerate(called)],
        "measurement": measurement or measured([10.0] * len(called)),
        "builtin_origins": [],
        "notes": [],
    }
    return build_profile(**(values | changes))


def test_a_row_says_what_was_called_and_what_it_cost() -> None:
    times = measured([30.0, 10.0], calls=(CallTime(30.0, 1.5, 10, nan_count=3, inf_count=0), CallTime(10.0, 0.5, 12)))
    profile = link([kernel("conv"), kernel("dense")], ["conv", "dense"], times, notes=["random weights"])
    row = profile.rows[0]

    assert (row.row, row.node_name, row.kernel, row.ops) == (0, "conv", "conv", ("conv2d", "relu"))
    assert row.origins == (Origin("Conv", "/conv0"),)
    assert (row.time_us, row.time_us_iqr, row.time_percent) == (30.0, 1.5, 75.0)
    assert (row.shape, row.dtype, row.inputs, row.outputs) == ("(1, 8)", "float32", 2, 1)
    assert row.gflops == pytest.approx(1_000_000 / 30.0 / 1e3)
    assert (row.nan_count, row.inf_count) == (3, 0)
    assert (profile.rows_us, profile.total_us, profile.repeats, profile.threads) == (40.0, 40.0, 10, 2)
    assert profile.notes == ("random weights",)


def test_a_time_that_the_instrument_cannot_tell_apart_is_said_to_be_noise_and_makes_no_rate() -> None:
    profile = link([kernel("conv"), kernel("dense")], ["conv", "dense", "dense"], measured([30.0, 0.004, 0.1], resolution_us=0.1))

    assert [row.time_us for row in profile.rows] == [30.0, 0.004, 0.1]
    assert [row.gflops for row in profile.rows] == [pytest.approx(1_000_000 / 30.0 / 1e3), None, None]
    assert [profile.resolved_us(row.time_us) for row in profile.rows] == [30.0, None, None]
    assert profile.resolved_us(None) is None
    assert resolution_note(profile) == (
        "2 kernel rows are shorter than what timing one call can tell apart (0.10 us): their time is noise, and no rate is made of it."
    )


@pytest.mark.parametrize("measurement", [measured([30.0], resolution_us=0.1), measured([0.0]), UNMEASURED])
def test_without_such_a_time_nothing_is_said(measurement: Measurement) -> None:
    assert resolution_note(link([kernel("conv")], ["conv"], measurement)) == ""


def test_repeated_calls_get_the_old_suffixes() -> None:
    profile = link([kernel("conv")], ["conv"] * 3)

    assert [row.node_name for row in profile.rows] == ["conv", "conv_1", "conv_2"]
    assert {row.kernel for row in profile.rows} == {"conv"}


def test_a_suffix_never_takes_the_name_of_another_kernel() -> None:
    kernels = [kernel("conv"), kernel("conv_1"), kernel("conv_1_1"), kernel("runtime")]
    called = ["conv", "conv", "conv_1", "conv_1", "conv", "conv_1_1", "runtime"]
    names = [row.node_name for row in link(kernels, called, measured([1.0] * 7, builtins=(("vm.builtin.copy", 1),))).rows]

    assert names == ["conv", "conv_2", "conv_1", "conv_1_2", "conv_3", "conv_1_1", "runtime_1", "runtime"]


def test_kernels_of_one_structure_are_one_task_in_order_of_their_first_row() -> None:
    kernels = [kernel("pool"), kernel("conv", "same"), kernel("conv1", "same")]
    profile = link(kernels, ["conv1", "pool", "conv", "conv1"], measured([1.0, 2.0, 3.0, 4.0]))

    assert [(task.name, task.kernels, task.weight, task.rows, task.time_us) for task in profile.tasks] == [
        ("conv1", ("conv1", "conv"), 3, (0, 2, 3), 8.0),
        ("pool", ("pool",), 1, (1,), 2.0),
    ]
    assert profile.tasks[0].time_percent == 80.0
    assert [row.task for row in profile.rows] == [profile.tasks[index].task for index in (0, 1, 0, 0)]
    assert profile.tasks[0].shapes == ("(1, 8)", "(8, 8)", "(1, 8)")


def test_untunable_kernels_keep_their_task_so_that_weights_sum_to_the_kernel_rows() -> None:
    kernels = [kernel("conv"), kernel("gather", untunable="dynamic shape", space_size=None)]
    profile = link(kernels, ["conv", "gather", "conv"], measured([1.0] * 3, runtime=CallTime(2.0, 0.1, 10)))

    assert sum(task.weight for task in profile.tasks) == len(profile.kernel_rows) == 3
    assert profile.rows[1].untunable == profile.tasks[1].untunable == "dynamic shape"
    assert profile.rows[1].task == profile.tasks[1].task


def test_a_kernel_that_no_row_calls_is_a_task_of_weight_zero_at_the_end() -> None:
    task = link([kernel("spare"), kernel("conv")], ["conv"]).tasks[-1]

    assert (task.name, task.weight, task.rows, task.untunable, task.time_us) == ("spare", 0, (), NEVER_CALLED, 0.0)


def test_the_runtime_row_holds_builtins_and_what_became_of_them() -> None:
    times = measured([8.0], runtime=CallTime(2.0, 0.1, 10), builtins=(("vm.builtin.alloc_tensor", 12),))
    profile = link([kernel("conv")], ["conv"], times, builtin_origins=[RESHAPE])
    row = profile.rows[-1]

    assert (row.row, row.node_name, row.kernel, row.task, row.untunable) == (1, "runtime", None, None, BUILTINS_UNTUNABLE)
    assert row.origins == (RESHAPE, Origin("vm.builtin.alloc_tensor", "x12"))
    assert (row.time_us, row.time_percent, profile.rows_us) == (2.0, 20.0, 10.0)
    assert sum(row.time_percent or 0.0 for row in profile.rows) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("measurement", "builtin_origins", "rows"),
    [
        (measured([1.0]), [], ["conv"]),
        (measured([1.0], builtins=(("vm.builtin.copy", 1),)), [], ["conv", "runtime"]),
        (measured([1.0], runtime=CallTime(1.0, 0.0, 3)), [], ["conv", "runtime"]),
        (UNMEASURED, [], ["conv"]),
        (UNMEASURED, [RESHAPE], ["conv", "runtime"]),
        (replace(UNMEASURED, builtins=(("vm.builtin.copy", 1),)), [], ["conv", "runtime"]),
    ],
)
def test_there_is_one_runtime_row_if_builtins_are_known(measurement: Measurement, builtin_origins: list[Origin], rows: list[str]) -> None:
    profile = link([kernel("conv")], ["conv"], measurement, builtin_origins=builtin_origins)

    assert [row.node_name for row in profile.rows] == rows


def test_without_a_device_all_times_are_none_and_everything_else_is_there() -> None:
    profile = link([kernel("conv")], ["conv"], UNMEASURED, builtin_origins=[RESHAPE])

    assert {(row.time_us, row.time_us_iqr, row.time_percent, row.gflops) for row in profile.rows} == {(None,) * 4}
    assert (profile.rows_us, profile.total_us, profile.tasks[0].time_us, profile.tasks[0].time_percent) == (None,) * 4
    assert (profile.unmeasured, profile.rows[0].flop, profile.tasks[0].weight) == ("no CUDA device", 1_000_000, 1)


def test_several_outputs_are_all_told() -> None:
    results = (TensorShape((1, 2), "float32"), TensorShape((3,), "int64"))
    row = link([kernel("split", results=results), kernel("twice", results=results[:1] * 2)], ["split", "twice"]).rows

    assert (row[0].shape, row[0].dtype, row[0].outputs) == ("(1, 2), (3)", "float32, int64", 2)
    assert row[1].dtype == "float32"


def test_a_call_without_time_or_flop_has_no_rate() -> None:
    profile = link([kernel("conv"), kernel("sort", flop=None)], ["conv", "sort"], measured([0.0, 1.0]))

    assert [row.gflops for row in profile.rows] == [None, None]


@pytest.mark.parametrize(
    ("kernels", "called", "measurement", "message"),
    [
        ([kernel("conv")], ["conv", "conv"], measured([1.0]), "makes 2 kernel calls but 1 were timed"),
        ([kernel("conv")], ["dense"], measured([1.0]), "names the kernel 'dense'"),
        ([kernel("conv"), kernel("conv")], ["conv"], measured([1.0]), "only 1 different names"),
        ([kernel("conv")], ["conv"], measured([float("inf")]), "time of call 0 is not a number"),
    ],
)
def test_an_engine_that_breaks_its_contract_is_told_so(kernels: list[Kernel], called: list[str], measurement: Measurement, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        link(kernels, called, measurement)


def test_task_ids_are_stable_and_tell_targets_apart() -> None:
    first, again = (link([kernel("conv")], ["conv"]).tasks[0].task for _ in range(2))
    other = link([kernel("conv")], ["conv"], target="cuda").tasks[0].task

    assert first == again == "conv-4f0f8197"
    assert first != other


@pytest.mark.parametrize(
    "name",
    ["<script>", "a'b\"c", "a\nb", "\x1b[31m", "x" * 10_000, "свёртка", "\u202eabc", "-rf", "../..", "a b;c"],
    ids=lambda name: ascii(name[:24]),
)
def test_task_ids_are_safe_for_shells_and_file_names(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,59}", link([kernel(name)], [name]).tasks[0].task)


def test_task_ids_stay_apart_when_names_shorten_or_digests_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    class OneDigest:
        def __init__(self, data: bytes) -> None:
            self.data = data

        def hexdigest(self) -> str:
            return "0" * 8 + self.data[:24].hex().ljust(56, "0")

    monkeypatch.setattr("workbench.links.hashlib.sha256", OneDigest)
    kernels = [kernel("x" * 50 + str(index), f"{index}") for index in range(3)] + [kernel("X" * 50, "3")]
    tasks = link(kernels, [item.name for item in kernels]).tasks

    assert len({task.task.lower() for task in tasks}) == 4
    assert tasks[0].task == "x" * 40 + "-00000000"


def count_steps(work: Callable[[], object]) -> int:
    """How many lines of Python ran: a measure of work that no busy machine disturbs."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class CountedName(str):
    """A name whose comparisons run a line of Python, so that a search through a list would be counted."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


@pytest.mark.parametrize("shape", ["one kernel", "all different", "every suffix taken"])
def test_the_work_grows_with_the_rows_and_no_faster(shape: str) -> None:
    def work(size: int) -> Callable[[], object]:
        names = ["conv"] * size if shape == "one kernel" else [f"conv_{index}" for index in range(size)]
        called = [CountedName(name) for name in (["conv"] * size if shape == "every suffix taken" else names)]
        kernels = [kernel(CountedName(name)) for name in dict.fromkeys(["conv", *names])]
        return lambda: link(kernels, called)

    small, large = count_steps(work(250)), count_steps(work(1000))

    assert large < 4.5 * small


@pytest.mark.parametrize(
    ("total", "times_us", "expected"),
    [
        (CallTime(99.0, 2.0, 10), [60.0, 40.0], "The rows sum to 1.0 us (1.0 %) more than the end-to-end median: within the spread of whole runs"),
        (CallTime(99.1, 0.1, 10), [60.0, 40.0], "within the rows' own noise (their IQRs sum to 1.0 us)"),
        (CallTime(80.0, 1.0, 10), [60.0, 40.0], "20.0 us (25.0 %) more than the end-to-end median. Noise alone does not explain it"),
        (CallTime(125.0, 1.0, 10), [60.0, 40.0], "25.0 us (20.0 %) less than the end-to-end median. Noise alone does not explain it"),
        (None, [60.0, 40.0], "end-to-end time was not measured"),
    ],
)
def test_the_difference_to_the_whole_run_is_worded_from_the_numbers(total: CallTime | None, times_us: list[float], expected: str) -> None:
    assert expected in difference_note(link([kernel("conv")], ["conv"] * 2, measured(times_us, total=total)))


def test_the_reason_of_a_difference_depends_on_its_sign() -> None:
    more, less = (difference_note(link([kernel("conv")], ["conv"], measured([100.0], total=CallTime(total, 1.0, 10)))) for total in (50.0, 150.0))

    assert "caches gone cold" in more
    assert "between the timed calls" in less


@pytest.mark.parametrize(("rows", "total"), [(1, 1), (1, 10), (10, 1)])
def test_one_measurement_says_nothing_about_noise(rows: int, total: int) -> None:
    measurement = Measurement((CallTime(100.0, 0.0, rows),), None, (), CallTime(80.0, 0.0, total), 0.1, 2)
    note = difference_note(link([kernel("conv")], ["conv"], measurement))

    assert note == "The rows sum to 20.0 us (25.0 %) more than the end-to-end median. Measured once: no spread is known."


def test_nothing_measured_leaves_no_difference_to_explain() -> None:
    assert difference_note(link([kernel("conv")], ["conv"], UNMEASURED)) == ""
