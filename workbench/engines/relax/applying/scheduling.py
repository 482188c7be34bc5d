"""Puts recorded schedules into a lowered module, as stock TVM's ``MetaScheduleApplyDatabase`` would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.database import Workload

from workbench.engines.apply_protocol import AppliedSchedule, RecordedSchedule
from workbench.engines.relax.build import Built, build
from workbench.engines.relax.foreign_code import foreign_code, refuse_brought_code
from workbench.engines.relax.views import scheduled
from workbench.engines.relax.workload_module import as_main, fingerprint

_IS_SCHEDULED = "tirx.is_scheduled"


def replayed(function: tvm.tirx.PrimFunc, target: tvm.target.Target, schedule: RecordedSchedule, *, trust: bool) -> tvm.IRModule:
    """A kernel with a recorded schedule, as ``main``; without a trace the baseline.

    Raises:
        InputError: The trace is damaged, is another kernel's, gives another one than the fingerprint says, or brings code of its own without trust.
    """
    module = scheduled(function, target, schedule.trace, expected=schedule.fingerprint).module
    if schedule.trace and not trust:
        refuse_brought_code(module, foreign_code(as_main(function)))
    return module


def with_schedules(module: tvm.IRModule, target: tvm.target.Target, schedules: Mapping[str, RecordedSchedule], *, trust: bool) -> tvm.IRModule:
    """A lowered module whose named kernels have recorded schedules; the others are as they were.

    Raises:
        InputError: A schedule does not fit; see `replayed`.
    """
    functions = {variable: function for variable, function in module.functions.items()}  # noqa: C416 - a mapping of TVM's is no dict
    for variable, function in module.functions.items():
        schedule = schedules.get(variable.name_hint)
        if schedule is not None:
            tuned = replayed(function, target, schedule, trust=trust)["main"]
            functions[variable] = _in_place_of(function, tuned)
    return tvm.IRModule(functions, attrs=module.attrs)


def _in_place_of(function: tvm.tirx.PrimFunc, tuned: tvm.tirx.PrimFunc) -> Any:
    """The tuned body with the attributes of the kernel, marked so that nobody schedules it again."""
    made = tvm.tirx.PrimFunc(tuned.params, tuned.body, tuned.ret_type)
    return made.with_attr({**dict((function.attrs or {}).items()), _IS_SCHEDULED: True})


def built_with(
    module: tvm.IRModule, target: tvm.target.Target, schedules: Mapping[str, RecordedSchedule], *, trust: bool
) -> tuple[Built, dict[str, AppliedSchedule]]:
    """A lowered module compiled with recorded schedules, and those of them that are in what was compiled.

    Raises:
        InputError: A schedule does not fit; see `replayed`.
        EnvironmentFault: It cannot be compiled.
    """
    built = build(with_schedules(module, target, schedules, trust=trust), target)
    return built, really_applied(module, built.module, schedules)


def really_applied(untuned: tvm.IRModule, module: tvm.IRModule, schedules: Mapping[str, RecordedSchedule]) -> dict[str, AppliedSchedule]:
    """The kernels of a module whose fingerprint is that of their schedule: what is counted as applied was looked for in the module itself."""
    found = {}
    for name, schedule in schedules.items():
        kernel = module[name]
        if _IS_SCHEDULED not in (kernel.attrs or {}):
            continue
        key = fingerprint(as_main(kernel.without_attr(_IS_SCHEDULED)))
        if key == schedule.fingerprint:
            workload = as_main(untuned[name])
            structural_hash, text = Workload(workload).as_json()
            arguments = [["TENSOR", str(item.ty.dtype), [int(size) for size in item.ty.shape]] for item in workload["main"].params]
            found[name] = AppliedSchedule(key, (str(structural_hash), str(text)), tuple(arguments))
    return found
