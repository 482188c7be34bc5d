"""A recorded schedule as Python that makes it again, and as a list of its decisions by stage and iterator."""

from __future__ import annotations

import json
import re
from typing import Any

import tvm
from tvm import auto_scheduler, te
from tvm.auto_scheduler.measure_record import load_record_from_string

from .replaying import AUTO_SCHEDULER, Recorded, Scheduled

_PRAGMA = "auto_unroll_max_step"
_ANNOTATIONS = ("none", "unroll", "vectorize", "parallel", "bind", "bind", "bind", "bind", "bind", "bind", "bind", "tensorize")
_AXES = ("", "", "", "", "vthread", "blockIdx.x", "threadIdx.x", "blockIdx.y", "threadIdx.y", "blockIdx.z", "threadIdx.z", "")
_NO_NAME = re.compile(r"\W")
_WHOLE = "compiler.lower(kernel, target).funcs"


def schedule_text(scheduled: Scheduled) -> str:
    """Python for the old TVM alone: auto_scheduler's steps as a function of a TE schedule, or how TOPI is told AutoTVM's configuration."""
    recorded = scheduled.recorded
    if recorded is not None and recorded.system == AUTO_SCHEDULER:
        return _steps(scheduled, recorded)
    lines = ["from tvm import transform", "from tvm.relay.backend import te_compiler"]
    remark, context = "TOPI's own schedule, which no search chose", ""
    if recorded is not None:
        line = json.dumps({**recorded.values, "result": [[1.0], 0, 0.0, 0.0]})
        lines = ["from tvm import autotvm, transform", "from tvm.autotvm.record import decode", *lines[1:], "", f"RECORD = {line!r}"]
        remark, context = "the schedule of TOPI's template with the recorded configuration", ", autotvm.apply_history_best([decode(RECORD)])"
    return "\n".join(
        [
            *lines,
            "",
            "",
            "def lower(kernel, target):",
            f'    """A primitive Relay function as a module of TIR: {remark}."""',
            "    compiler = te_compiler.get()",
            "    compiler.clear()",
            f"    with target{context}, transform.PassContext(opt_level=3):",
            f"        return {_WHOLE}",
            "",
        ]
    )


def decisions(scheduled: Scheduled) -> list[dict[str, Any]]:
    """What a schedule decides, in its order, as `workbench.records.knob.Knob` has it but for the name; nothing for the untuned kernel."""
    recorded = scheduled.recorded
    if recorded is None:
        return []
    return _step_decisions(scheduled, recorded) if recorded.system == AUTO_SCHEDULER else _template_decisions(recorded)


def _steps(scheduled: Scheduled, recorded: Recorded) -> str:
    dag = _with_own_names(scheduled.dag)
    steps = dag.print_python_code_from_state(recorded.state)
    return "\n".join(
        [
            "def apply_steps(s):",
            '    """Schedules the kernel; `s` is `te.create_schedule` of the operations of its results."""',
            f"    {', '.join(_variable(operation) for operation in dag.ops)}, = (stage.op.output(0) for stage in s.stages)",
            *(f"    {line}" for line in str(steps).splitlines() if line),
            "",
        ]
    )


def _variable(operation: Any) -> str:
    return _NO_NAME.sub("_", str(operation.name))


def _with_own_names(dag: Any) -> Any:
    """The same computation where each operation has its own name, by which TVM calls the variables that it prints; TOPI calls many ``T_add``."""
    names: dict[str, int] = {}
    made: dict[Any, Any] = {}
    for operation in dag.ops:
        count = names[_variable(operation)] = names.get(_variable(operation), 0) + 1
        if isinstance(operation, te.ComputeOp):
            name = f"{operation.name}_no{count}" if count > 1 else str(operation.name)
            body = [_reading(value, made) for value in operation.body]
            made[operation] = te._ffi_api.ComputeOp(name, operation.tag, operation.attrs, list(operation.axis), body)  # noqa: SLF001 - te.compute
    if max(names.values()) == 1:
        return dag
    return auto_scheduler.ComputeDAG([made[tensor.op].output(tensor.value_index) if tensor.op in made else tensor for tensor in dag.tensors])


def _reading(value: Any, made: dict[Any, Any]) -> Any:
    """An expression that reads what was made in the place of other operations."""

    def renewed(load: Any) -> Any:
        producer = load.producer
        if producer.op not in made:
            return None
        return tvm.tir.ProducerLoad(made[producer.op].output(producer.value_index), load.indices)

    return tvm.tir.stmt_functor.ir_transform(tvm.tir.Evaluate(value), None, renewed, ["tir.ProducerLoad"]).value


def _step_decisions(scheduled: Scheduled, recorded: Recorded) -> list[dict[str, Any]]:
    """Each step is about stages and iterators by number, counted in the state before it: so that state is made for each."""
    task, (_, steps) = recorded.values["i"]
    found = []
    for place, step in enumerate(steps):
        line = {"i": [task, [[], steps[:place]]], "r": [[0.0], 0, 0.0, 0.0], "v": recorded.values["v"]}
        before = load_record_from_string(json.dumps(line))[0].state
        stages = scheduled.dag.infer_bound_from_state(before).stages
        decision = _decision(step, stages, steps)
        if decision is not None:
            found.append({**decision, "instruction": place})
    return found


def _decision(step: list[Any], stages: Any, steps: list[Any]) -> dict[str, Any] | None:
    name, stage = step[0], stages[step[1]]
    block = str(stage.op.name)
    if name in ("SP", "FSP", "FFSP"):
        loop = stage.iters[step[2]]
        return _said("tile", block, str(loop.name), _tile(step, steps, int(loop.range.extent)), sampled=name == "SP")
    if name == "PR":
        key, _, value = str(step[3]).partition("$")
        return _said("unroll" if key == _PRAGMA else key, block, str(stage.iters[step[2]].name), value, sampled=key == _PRAGMA)
    if name == "AN":
        kind = _ANNOTATIONS[step[3]]
        return None if kind == "none" else _said(kind, block, str(stage.iters[step[2]].name), _AXES[step[3]])
    if name == "CA":
        target = stages[step[2]]
        return _said("compute at", block, "", f"{target.op.name}/{target.iters[step[3]].name}", sampled=True)
    if name in ("CI", "CR"):
        return _said("compute at", block, "", "inline" if name == "CI" else "root")
    if name in ("CHR", "CHW"):
        return _said("cache read" if name == "CHR" else "cache write", block, "", f"in {step[2]}")
    if name == "RF":
        return _said("rfactor", block, str(stage.iters[step[2]].name), f"axis {step[3]}")
    if name == "FU":
        return _said("fuse", block, str(stage.iters[step[2][0]].name), f"{len(step[2])} loops")
    return None


def _tile(step: list[Any], steps: list[Any], extent: int) -> str:
    """Factors from the outermost loop to the innermost one."""
    if step[0] == "FFSP":
        inner = 1
        for source in step[3]:
            inner *= int(_lengths(steps[source])[step[4]])
        return f"{-(-extent // inner)} x {inner}"
    lengths = _lengths(step if step[0] == "SP" else steps[step[3]])
    if step[0] == "FSP":  # one of its parts holds all the rest of the split that it follows
        kept = lengths[: step[4] - 1]
        last = 1
        for length in lengths[step[4] - 1 :]:
            last *= length
        lengths = [*kept, last]
    product = 1
    for length in lengths:
        product *= length
    rest = -(-extent // product)
    inner_to_outer = step[5] if step[0] == "SP" else 1
    return " x ".join(map(str, [rest, *lengths] if inner_to_outer else [*lengths, rest]))


def _lengths(step: list[Any]) -> list[int]:
    return [int(length) for length in step[4]]


def _template_decisions(recorded: Recorded) -> list[dict[str, Any]]:
    kinds = {"sp": "tile", "re": "reorder", "an": "annotate", "ot": "choice"}
    found = []
    for place, (name, kind, value) in enumerate(recorded.values["config"]["entity"]):
        shown = " x ".join("rest" if item == -1 else str(item) for item in value) if kind == "sp" else json.dumps(value)
        found.append({**_said(kinds.get(kind, str(kind)), "", str(name), shown, sampled=True), "instruction": place})
    return found


def _said(kind: str, block: str, loop: str, value: str, *, sampled: bool = False) -> dict[str, Any]:
    return {"kind": kind, "block": block, "loop": loop, "value": value, "sampled": sampled}
