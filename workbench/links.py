"""Owns the one place where rows, kernels, tasks and origins are tied together; it neither measures nor draws.

The links are exact by construction: rows and tasks come from the same lowered module, so a row knows its kernel by name and a kernel
knows its task by structural hash. Nothing is matched by similarity.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.escaping import file_stem
from workbench.records import number
from workbench.records.dtype_size import tensors_bytes
from workbench.records.origin import Origin
from workbench.records.profile import (
    RUNTIME_ROW,
    CallTime,
    Kernel,
    KernelCall,
    Measurement,
    Profile,
    Row,
    Task,
    TensorShape,
)

BUILTINS_UNTUNABLE = "VM builtins: not a kernel"
NEVER_CALLED = "no row calls it"

_ID_NAME_LENGTH = 40
_ID_DIGEST_LENGTH = 8


@dataclass(frozen=True)
class _Group:
    """Kernels of one structure: what becomes a task."""

    task: str
    kernels: tuple[Kernel, ...]
    rows: tuple[int, ...]

    @property
    def lead(self) -> Kernel:
        return self.kernels[0]

    @property
    def untunable(self) -> str:
        return self.lead.untunable or ("" if self.rows else NEVER_CALLED)


def build_profile(
    *,
    model: str,
    engine: str,
    target: str,
    kernels: Sequence[Kernel],
    calls: Sequence[KernelCall],
    measurement: Measurement,
    builtin_origins: Sequence[Origin],
    notes: Sequence[str],
    eliminated: Sequence[Origin] = (),
) -> Profile:
    """Tie the kernels, calls and times of one lowered module together.

    Args:
        model: What the user called the model.
        engine: Engine that lowered it.
        target: Label of the target.
        kernels: Distinct PrimFuncs of the lowered module.
        calls: Calls of them in execution order, which `measurement` has the times of.
        measurement: Those times, or why there are none.
        builtin_origins: Source operators that became VM builtins, not kernels.
        notes: What a reader must know.
        eliminated: Source operators of which nothing is left to run.

    Returns:
        Every call as a row, `runtime` last; every distinct kernel as a task. The tasks' weights sum to the number of kernel rows.

    Raises:
        ValueError: An engine broke its contract: times and calls disagree, a call names no kernel, two kernels share a name.
    """
    by_name = _kernels_by_name(kernels, calls)
    times = _times(calls, measurement)
    rows_us = None if measurement.unmeasured else _rows_us(measurement)
    called = [call.kernel for call in calls]
    groups = _groups(by_name, called, target=target)
    group_of = {kernel.name: group for group in groups for kernel in group.kernels}
    rows = [
        _kernel_row(
            index,
            name,
            call=calls[index],
            kernel=by_name[called[index]],
            group=group_of[called[index]],
            time=times[index],
            rows_us=rows_us,
            resolution_us=measurement.resolution_us,
        )
        for index, name in enumerate(_node_names(called, reserved=by_name))
    ]
    rows.extend(_runtime_row(len(rows), measurement, builtin_origins=builtin_origins, rows_us=rows_us))
    total = None if measurement.unmeasured else measurement.total
    return Profile(
        model=model,
        engine=engine,
        target=target,
        total_us=total.median_us if total else None,
        total_us_iqr=_iqr(total),
        rows_us=rows_us,
        rows=tuple(rows),
        tasks=tuple(_task(group, rows, rows_us=rows_us) for group in groups),
        unmeasured=measurement.unmeasured,
        notes=tuple(notes),
        resolution_us=measurement.resolution_us,
        repeats=min((time.repeats for time in times if time), default=0),
        threads=measurement.threads,
        eliminated=tuple(map(str, eliminated)),
    )


def difference_note(profile: Profile) -> str:
    """One or two sentences on how far the sum of the rows is from the end-to-end median, and why; empty if nothing was measured."""
    if profile.unmeasured or profile.rows_us is None:
        return ""
    if profile.total_us is None:
        return "The end-to-end time was not measured, so the sum of the rows cannot be checked against it."
    difference_us = profile.rows_us - profile.total_us
    size_us = abs(difference_us)
    percent = f" ({100 * size_us / profile.total_us:.1f} %)" if profile.total_us > 0 else ""
    fact = f"The rows sum to {size_us:,.1f} us{percent} {'more' if difference_us >= 0 else 'less'} than the end-to-end median"
    spreads = [row.time_us_iqr for row in profile.rows if row.time_us is not None]
    if profile.total_us_iqr is not None and size_us <= profile.total_us_iqr:
        return f"{fact}: within the spread of whole runs (IQR {profile.total_us_iqr:,.1f} us)."
    rows_iqr_us = math.fsum(spread for spread in spreads if spread is not None)
    if None not in spreads and size_us <= rows_iqr_us:
        return f"{fact}: within the rows' own noise (their IQRs sum to {rows_iqr_us:,.1f} us)."
    if None in spreads or profile.total_us_iqr is None:
        return f"{fact}. Measured once: no spread is known."
    noise = f"Noise alone does not explain it (the rows' IQRs sum to {rows_iqr_us:,.1f} us)."
    if difference_us > 0:
        return f"{fact}. {noise} Calls timed one by one pay for gaps of the instrumentation and for caches gone cold between calls."
    return f"{fact}. {noise} Whole runs also spend time between the timed calls, or the machine was slower while they ran."


def resolution_note(profile: Profile) -> str:
    """A sentence on the rows that are too short for their time to be told from the instrument's own; empty if there are none."""
    short = sum(row.time_us is not None and profile.resolved_us(row.time_us) is None for row in profile.kernel_rows)
    if not short or not profile.resolution_us:
        return ""
    rows, their = ("row is", "its") if short == 1 else ("rows are", "their")
    return (
        f"{short:,} kernel {rows} shorter than what timing one call can tell apart ({number.microseconds(profile.resolution_us)} us): "
        f"{their} time is noise, and no rate is made of it."
    )


def _kernels_by_name(kernels: Sequence[Kernel], calls: Sequence[KernelCall]) -> dict[str, Kernel]:
    by_name = {kernel.name: kernel for kernel in kernels}
    if len(by_name) != len(kernels):
        raise ValueError(f"{len(kernels)} kernels have only {len(by_name)} different names")
    for call in calls:
        if call.kernel not in by_name:
            raise ValueError(f"a call names the kernel {call.kernel!r}, which the lowered module does not have")
    return by_name


def _times(calls: Sequence[KernelCall], measurement: Measurement) -> list[CallTime | None]:
    """One time per call; None for each if nothing was measured."""
    if measurement.unmeasured:
        return [None] * len(calls)
    if len(calls) != len(measurement.calls):
        raise ValueError(f"the program makes {len(calls)} kernel calls but {len(measurement.calls)} were timed")
    for index, time in enumerate(measurement.calls):
        if not (math.isfinite(time.median_us) and math.isfinite(time.iqr_us)):
            raise ValueError(f"the time of call {index} is not a number: {time.median_us} us, IQR {time.iqr_us} us")
    return list(measurement.calls)


def _rows_us(measurement: Measurement) -> float:
    runtime_us = measurement.runtime.median_us if measurement.runtime else 0.0
    return math.fsum([*(time.median_us for time in measurement.calls), runtime_us])


def _node_names(called: Sequence[str], *, reserved: dict[str, Kernel]) -> list[str]:
    """Unique names as the old debug runtime made them: the kernel's name, then ``_1``, ``_2`` for repeated calls."""
    taken = {RUNTIME_ROW, *reserved}
    seen: dict[str, int] = {}
    names = []
    for kernel in called:
        name, suffix = kernel, seen.get(kernel, 0)
        if suffix or kernel == RUNTIME_ROW:
            suffix = suffix or 1
            while (name := f"{kernel}_{suffix}") in taken:
                suffix += 1
        seen[kernel] = suffix + 1
        taken.add(name)
        names.append(name)
    return names


def _groups(by_name: dict[str, Kernel], called: Sequence[str], *, target: str) -> list[_Group]:
    """Kernels by structure, in order of their first row; those that no row calls come last."""
    rows: dict[str, list[int]] = {}
    for index, name in enumerate(called):
        rows.setdefault(by_name[name].structural_hash, []).append(index)
    members: dict[str, dict[str, None]] = {}
    for name in [*called, *by_name]:
        members.setdefault(by_name[name].structural_hash, {})[name] = None
    identifiers = _task_ids({structural_hash: next(iter(names)) for structural_hash, names in members.items()}, target=target)
    return [
        _Group(
            task=identifiers[structural_hash],
            kernels=tuple(by_name[name] for name in names),
            rows=tuple(rows.get(structural_hash, ())),
        )
        for structural_hash, names in members.items()
    ]


def _task_ids(names: dict[str, str], *, target: str) -> dict[str, str]:
    """Identifiers of tasks by structural hash: the same from run to run, and safe in shells and file names whatever the letters' case.

    Args:
        names: Name of each structure's first kernel.
        target: Label of the target.
    """
    taken: set[str] = set()
    identifiers = {}
    for structural_hash, name in names.items():
        digest = hashlib.sha256(f"{structural_hash}\0{target}".encode("utf-8", "surrogatepass")).hexdigest()
        stem = file_stem(name, _ID_NAME_LENGTH)
        length = _ID_DIGEST_LENGTH
        while (identifier := f"{stem}-{digest[:length]}").lower() in taken:
            if length >= len(digest):
                raise ValueError(f"two tasks have the identifier {identifier}")
            length += _ID_DIGEST_LENGTH
        taken.add(identifier.lower())
        identifiers[structural_hash] = identifier
    return identifiers


def _kernel_row(
    index: int,
    node_name: str,
    *,
    call: KernelCall,
    kernel: Kernel,
    group: _Group,
    time: CallTime | None,
    rows_us: float | None,
    resolution_us: float,
) -> Row:
    return Row(
        row=index,
        node_name=node_name,
        ops=kernel.ops,
        origins=call.origins,
        time_us=time.median_us if time else None,
        time_us_iqr=_iqr(time),
        time_percent=_percent(time.median_us if time else None, rows_us),
        shape=", ".join(map(str, kernel.results)),
        dtype=_dtype(kernel.results),
        inputs=len(kernel.parameters),
        outputs=len(kernel.results),
        flop=kernel.flop,
        gflops=kernel.flop / time.median_us / 1e3 if time and kernel.flop is not None and time.median_us > resolution_us else None,
        kernel=kernel.name,
        task=group.task,
        untunable=group.untunable,
        nan_count=time.nan_count if time else None,
        inf_count=time.inf_count if time else None,
    )


def _runtime_row(index: int, measurement: Measurement, *, builtin_origins: Sequence[Origin], rows_us: float | None) -> list[Row]:
    """The row of all VM builtins together, if any are known."""
    if not (measurement.builtins or measurement.runtime or (measurement.unmeasured and builtin_origins)):
        return []
    time = None if measurement.unmeasured else measurement.runtime
    row = Row(
        row=index,
        node_name=RUNTIME_ROW,
        ops=(),
        origins=(*builtin_origins, *(Origin(name, f"x{count}") for name, count in measurement.builtins)),
        time_us=time.median_us if time else None,
        time_us_iqr=_iqr(time),
        time_percent=_percent(time.median_us if time else None, rows_us),
        shape="",
        dtype="",
        inputs=0,
        outputs=0,
        flop=None,
        gflops=None,
        kernel=None,
        task=None,
        untunable=BUILTINS_UNTUNABLE,
    )
    return [row]


def _task(group: _Group, rows: Sequence[Row], *, rows_us: float | None) -> Task:
    time_us = None if rows_us is None else math.fsum(rows[index].time_us or 0.0 for index in group.rows)
    return Task(
        task=group.task,
        name=group.lead.name,
        ops=group.lead.ops,
        kernels=tuple(kernel.name for kernel in group.kernels),
        weight=len(group.rows),
        rows=group.rows,
        time_us=time_us,
        time_percent=_percent(time_us, rows_us),
        flop=group.lead.flop,
        space_size=group.lead.space_size,
        shapes=tuple(str(tensor) for tensor in (*group.lead.parameters, *group.lead.results)),
        untunable=group.untunable,
        tensor_bytes=tensors_bytes((*group.lead.parameters, *group.lead.results)),
        spaces=group.lead.spaces,
    )


def _iqr(time: CallTime | None) -> float | None:
    """Spread of a time; None if one measurement has none."""
    return time.iqr_us if time is not None and time.repeats > 1 else None


def _percent(time_us: float | None, rows_us: float | None) -> float | None:
    if time_us is None or rows_us is None:
        return None
    return 100.0 * time_us / rows_us if rows_us > 0 else 0.0


def _dtype(results: Sequence[TensorShape]) -> str:
    """One dtype if all outputs share it, else one per output."""
    dtypes = [tensor.dtype for tensor in results]
    return ", ".join(dtypes if len(set(dtypes)) > 1 else dtypes[:1])
