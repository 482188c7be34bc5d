"""What a profile says: rows, kernels, tasks, and the two kinds of total.

The JSON forms are the contract of ``profile --json`` and ``tasks --json`` (docs/design.md, section 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from workbench.records.decode import decode
from workbench.records.old_search import ListedTask
from workbench.records.origin import Origin

RUNTIME_ROW = "runtime"

DEBUG_RUNTIME_COLUMNS = {
    "node_name": "Node Name",
    "ops": "Ops",
    "time_us": "Time(us)",
    "time_percent": "Time(%)",
    "shape": "Shape",
    "inputs": "Inputs",
    "outputs": "Outputs",
}
"""The columns of TVM's old debug runtime in their order, by the field of `Row` that each one shows."""


@dataclass(frozen=True)
class TensorShape:
    """Shape and dtype of one tensor, e.g. ``(1, 64, 56, 56)`` and ``float32``."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.shape))})"


@dataclass(frozen=True)
class Kernel:
    """One fused PrimFunc of the lowered program.

    Attributes:
        name: GlobalVar of the PrimFunc in the lowered module, which is also its symbol.
        structural_hash: Hash of the PrimFunc by structure, its name left out; equal hashes are one task.
        ops: Operators fused into it, in order, e.g. ``("conv2d", "add", "relu")``.
        parameters: Shapes of its inputs.
        results: Shapes of its outputs.
        flop: Arithmetic operations of one call; None where the body cannot be counted.
        space_size: Number of distinct schedules that the default search space holds, over all its sketches; None if untunable.
        untunable: Why no schedule can be searched for it; empty if it can be tuned.
        spaces: Sizes of several search spaces by name, where the engine has several; the sketches of auto_scheduler are no schedules yet.
    """

    name: str
    structural_hash: str
    ops: tuple[str, ...]
    parameters: tuple[TensorShape, ...]
    results: tuple[TensorShape, ...]
    flop: int | None
    space_size: int | None
    untunable: str = ""
    spaces: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelCall:
    """One call of a kernel in execution order, before it is measured: a row without its time."""

    kernel: str
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class CallTime:
    """Measured time of one call (or of all VM builtins together).

    Attributes:
        median_us: Median over the repeats.
        iqr_us: Distance between the quartiles of the repeats.
        repeats: Number of repeats behind the two.
        nan_count: NaN values in the call's outputs; None where they were not looked at.
        inf_count: Infinite values in the call's outputs.
    """

    median_us: float
    iqr_us: float
    repeats: int
    nan_count: int | None = None
    inf_count: int | None = None


@dataclass(frozen=True)
class Measurement:
    """Result of running a program under the profiler.

    Attributes:
        calls: One time per kernel call, in execution order; empty if nothing could be measured.
        runtime: Time that the VM itself takes in one run: all ``vm.builtin.*`` calls and its own dispatch, without the kernels' work.
        builtins: Name and number of calls of the builtins behind `runtime`.
        total: End-to-end time of whole runs without instrumentation.
        hook_us: Cost of the instrumentation per call, measured on skipped kernels and already taken off the calls.
        threads: Threads that ran the kernels.
        unmeasured: Why there are no times; empty if there are.
        resolution_us: Spread of the instrumentation's cost: the time of a call that takes less is noise.
    """

    calls: tuple[CallTime, ...]
    runtime: CallTime | None
    builtins: tuple[tuple[str, int], ...]
    total: CallTime | None
    hook_us: float
    threads: int
    unmeasured: str = ""
    resolution_us: float = 0.0


@dataclass(frozen=True)
class Row:
    """One call of a kernel in execution order: a line of the debug-runtime table.

    Times are None where there was no device to measure on, ``gflops`` also where the time is below the profile's resolution. ``task`` and
    ``kernel`` are None for the `runtime` row only.
    """

    row: int
    node_name: str
    ops: tuple[str, ...]
    origins: tuple[Origin, ...]
    time_us: float | None
    time_us_iqr: float | None
    time_percent: float | None
    shape: str
    dtype: str
    inputs: int
    outputs: int
    flop: int | None
    gflops: float | None
    kernel: str | None
    task: str | None
    untunable: str = ""
    nan_count: int | None = None
    inf_count: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The row as in ``profile --json``; origins as ``"<op> <name> (<place>)"``."""
        values = {name.name: getattr(self, name.name) for name in fields(self)}
        values["ops"] = list(self.ops)
        values["origins"] = [str(origin) for origin in self.origins]
        values["untunable"] = self.untunable or None
        return values

    def to_record(self) -> dict[str, Any]:
        """The row as the store keeps it: as `to_dict`, with whole origins."""
        return {**self.to_dict(), "origins": [origin.to_dict() for origin in self.origins]}

    @classmethod
    def from_record(cls, values: dict[str, Any]) -> Row:
        """The inverse of `to_record`; raises DecodeError."""
        return decode(cls, _with_text(values, "untunable"))


@dataclass(frozen=True)
class Task:
    """One distinct kernel to tune.

    Attributes:
        task: Identifier, stable across runs of the same model, target and version.
        name: Name of the first kernel with this structure.
        kernels: Names of all kernels with this structure.
        weight: Number of rows that call it.
        rows: Those rows.
        time_us: Sum of the rows' medians.
        flop: Arithmetic operations of one call.
        space_size: Number of distinct schedules in the default search space.
        shapes: Shapes of inputs, then outputs.
        untunable: Why it cannot be tuned; empty if it can.
        tensor_bytes: Bytes of all inputs and outputs of one call; None if they are not known.
        spaces: Sizes of several search spaces by name, where the engine has several.
        listed: What old tuners called it in the lists that were imported with the model.
    """

    task: str
    name: str
    ops: tuple[str, ...]
    kernels: tuple[str, ...]
    weight: int
    rows: tuple[int, ...]
    time_us: float | None
    time_percent: float | None
    flop: int | None
    space_size: int | None
    shapes: tuple[str, ...]
    untunable: str = ""
    tensor_bytes: int | None = None
    spaces: Mapping[str, int] = field(default_factory=dict)
    listed: tuple[ListedTask, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The task as in ``tasks --json``; without the spaces where there is one alone, and without old tuners' names where there are none."""
        values = {name.name: getattr(self, name.name) for name in fields(self)}
        for name in ("ops", "kernels", "rows", "shapes"):
            values[name] = list(values[name])
        spaces, listed = values.pop("spaces"), values.pop("listed")
        if spaces:
            values["spaces"] = dict(spaces)
        if listed:
            values["listed"] = [vars(task).copy() for task in listed]
        values["untunable"] = self.untunable or None
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Task:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, _with_text(values, "untunable"))


@dataclass(frozen=True)
class Profile:
    """A model's rows and tasks on one target.

    Attributes:
        model: What the user called the model.
        engine: ``relax`` or ``relay``.
        target: Label of the target.
        total_us: Median end-to-end time, measured without instrumentation.
        total_us_iqr: Its spread.
        rows_us: Sum of the rows, `runtime` included.
        rows: In execution order; `runtime` last.
        tasks: In order of their first row.
        unmeasured: Why there are no times; empty if there are.
        notes: What a reader must know, e.g. "random weights".
        repeats: Rounds of runs behind each row's median.
        threads: Threads that ran the kernels.
        eliminated: Source operators that no row has, as ``"<op> <name> (<place>)"``: computed before the run, idle at inference, or read by
            nobody.
        resolution_us: A time of one call at or below this is noise, and no rate is made of it.
    """

    model: str
    engine: str
    target: str
    total_us: float | None
    total_us_iqr: float | None
    rows_us: float | None
    rows: tuple[Row, ...]
    tasks: tuple[Task, ...]
    unmeasured: str = ""
    notes: tuple[str, ...] = field(default_factory=tuple)
    repeats: int = 0
    threads: int = 0
    eliminated: tuple[str, ...] = ()
    resolution_us: float = 0.0

    @property
    def kernel_rows(self) -> tuple[Row, ...]:
        """The rows that call a kernel: all but `runtime`."""
        return tuple(row for row in self.rows if row.kernel is not None)

    def resolved_us(self, call_us: float | None) -> float | None:
        """The time of one call, in microseconds; None where it is noise."""
        return call_us if call_us is not None and call_us > self.resolution_us else None

    def header(self) -> dict[str, Any]:
        """The profile without its rows and tasks."""
        return {
            "model": self.model,
            "engine": self.engine,
            "target": self.target,
            "measured": not self.unmeasured,
            "unmeasured": self.unmeasured or None,
            "total_us": self.total_us,
            "total_us_iqr": self.total_us_iqr,
            "rows_us": self.rows_us,
            "repeats": self.repeats,
            "threads": self.threads,
            "notes": list(self.notes),
            "eliminated": list(self.eliminated),
            "resolution_us": self.resolution_us,
        }

    @classmethod
    def from_parts(cls, header: dict[str, Any], rows: Iterable[Row], tasks: Iterable[Task]) -> Profile:
        """A profile from its `header`, rows and tasks.

        Raises:
            DecodeError: The header is damaged.
        """
        empty = decode(cls, {**_with_text(header, "unmeasured"), "rows": (), "tasks": ()})
        return replace(empty, rows=tuple(rows), tasks=tuple(tasks))

    def to_dict(self) -> dict[str, Any]:
        """The profile as in ``profile --json``."""
        return {
            **self.header(),
            "rows": [row.to_dict() for row in self.rows],
            "tasks": [task.to_dict() for task in self.tasks],
        }


def _with_text(values: Any, name: str) -> Any:
    """The values of a record whose JSON form has null where the record has an empty text."""
    return {**values, name: ""} if isinstance(values, Mapping) and values.get(name, "") is None else values
