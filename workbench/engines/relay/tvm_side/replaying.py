"""A recorded schedule put on one kernel by TVM's own TE compiler, which says itself that it took it; nothing is linked by guessing.

A trace is one JSON object in the form of the stock logs, without the times: auto_scheduler's ``{"i", "v"}`` or AutoTVM's
``{"input", "config", "version"}``. It may be anybody's: it is read as JSON first, and what stands in it can be nothing but names and numbers.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import auto_scheduler, autotvm, te
from tvm.auto_scheduler.measure_record import load_record_from_string
from tvm.auto_scheduler.relay_integration import traverse_to_get_io_tensors
from tvm.autotvm.record import decode
from tvm.relay.backend import te_compiler
from tvm.relay.op.op import OpStrategy

from .failing import INPUT, Refusal
from .held import Kernel

AUTO_SCHEDULER, AUTOTVM = "auto_scheduler", "autotvm"

_WORD = re.compile(r"[\w$.]*", re.ASCII)
_PARAMETER = re.compile(r"p(\d+)")
_NO_TIMES = {"r": [[0.0], 0, 0.0, 0.0], "result": [[0.0], 0, 0.0, 0.0]}
_AGAIN = "Search the task again."


@dataclass
class Recorded:
    """A trace as TVM reads it.

    Attributes:
        system: `AUTO_SCHEDULER` or `AUTOTVM`.
        values: The trace.
        state: auto_scheduler's steps, as a state of which nothing else is known; None for AutoTVM.
        config: AutoTVM's configuration; None for auto_scheduler.
        workload: What it is a schedule of: auto_scheduler's workload key, or AutoTVM's task and arguments.
    """

    system: str
    values: Any
    state: Any
    config: Any
    workload: Any


@dataclass
class Scheduled:
    """A kernel as TVM lowered it.

    Attributes:
        kernel: Which.
        recorded: The schedule that it has; None for TOPI's own.
        function: The lowered `tir.PrimFunc`, called as in the model.
        schedule: The TE schedule behind it.
        tensors: The TE tensors of its parameters and results, in the order of the call.
        dag: auto_scheduler's view of what it computes; None if that has none.
    """

    kernel: Kernel
    recorded: Recorded | None
    function: Any
    schedule: Any
    tensors: list[Any]
    dag: Any = None

    @property
    def fingerprint(self) -> str:
        """Structural hash of the lowered function, whatever it is called."""
        return fingerprint(self.function)


def fingerprint(function: Any) -> str:
    """Structural hash of a lowered function, whatever it is called."""
    for name in ("global_symbol", "hash"):
        function = function.without_attr(name)
    return format(tvm.ir.structural_hash(function) & (2**64 - 1), "016x")


def read(trace: str) -> Recorded | None:
    """Read a trace; an empty one is the untuned kernel's.

    Raises:
        Refusal: It is damaged, or holds what no log of TVM's holds.
    """
    if not trace:
        return None
    try:
        values = json.loads(trace)
        return _auto_scheduler(values) if "i" in values else _autotvm(values)
    except Exception as error:  # whatever TVM's readers raise on something that they did not write
        raise _unfit(f"is damaged: {_last_line(error)}") from error


def lowered(kernel: Kernel, target: Any, trace: str, *, expected: str = "") -> Scheduled:
    """Lower a kernel with a recorded schedule.

    Args:
        kernel: The kernel.
        target: What it is for.
        trace: The schedule; empty for the untuned kernel.
        expected: Fingerprint that has to come out; empty takes any.

    Raises:
        Refusal: The trace is damaged, is another kernel's, or gives another function than the expected one.
    """
    recorded = read(trace)
    watch = _Watch(recorded)
    try:
        function = _compiled(kernel, target, watch, by_auto_scheduler=recorded is not None and recorded.system == AUTO_SCHEDULER)
    except Refusal:
        raise
    except Exception as error:  # a schedule from anywhere may make TVM raise anything
        if recorded is None:
            raise
        raise _unfit(f"does not fit the kernel: {_last_line(error)}") from error
    if recorded is not None and not watch.taken:
        raise _unfit(f"is another kernel's: it is of {_shown(recorded.workload)}, and TVM asked for {_shown(watch.asked_for)}")
    found = Scheduled(kernel, recorded, function, watch.schedule, _in_order(watch.tensors), watch.dag)
    if expected and found.fingerprint != expected:
        raise _unfit("is not the one that was measured: its trace gives another kernel")
    return found


class _Watch:
    """Sees what the TE compiler asks for while it lowers one kernel, gives it the recorded schedule, and keeps what it makes.

    Attributes:
        taken: True if it asked for just that schedule.
        asked_for: The workloads that it asked for.
        schedule: The TE schedule.
        tensors: Its inputs and outputs.
        dag: auto_scheduler's view of the computation, if it asked for one.
    """

    def __init__(self, recorded: Recorded | None) -> None:
        self._recorded = recorded
        self.taken = False
        self.asked_for: list[Any] = []
        self.schedule: Any = None
        self.tensors: list[Any] = []
        self.dag: Any = None

    def of_auto_scheduler(self, key: str, dag: Any) -> Any:
        """The state for a workload; None for any but the recorded one."""
        self.asked_for.append(key)
        self.dag = dag
        recorded = self._recorded
        if recorded is None or recorded.system != AUTO_SCHEDULER or key != recorded.workload:
            return None
        self.taken = True
        self.schedule, tensors = dag.apply_steps_from_state(recorded.state)
        self.tensors = list(tensors)
        return recorded.state

    def of_autotvm(self, workload: Any) -> Any:
        """The configuration for a workload; None for any but the recorded one."""
        self.asked_for.append(workload)
        recorded = self._recorded
        if recorded is None or recorded.system != AUTOTVM or workload != recorded.workload:
            return None
        return recorded.config

    def of_topi(self, schedule: Any, outputs: Any) -> None:
        """TOPI made a schedule, with the recorded configuration if it was asked for."""
        recorded = self._recorded
        self.taken = self.taken or (recorded is not None and recorded.system == AUTOTVM and recorded.workload in self.asked_for)
        self.schedule, self.tensors = schedule, list(traverse_to_get_io_tensors(list(outputs))[0])


class _States(auto_scheduler.DispatchContext):  # type: ignore[misc]
    """Answers auto_scheduler's question for a state, which names the function that is being lowered."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def query(self, *asked: Any) -> Any:
        """The state for a workload: asked for with the target, the workload's key, whether it has a sum, its DAG, and the function's name."""
        return self._watch.of_auto_scheduler(str(asked[1]), asked[3])


class _Configurations(autotvm.task.DispatchContext):  # type: ignore[misc]
    """Answers AutoTVM's question for a configuration."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def _query_inside(self, *asked: Any) -> Any:
        return self._watch.of_autotvm(asked[1])

    def update(self, *told: Any) -> None:
        """Templates may tell of other workloads, which is of no use here."""


class _TopiSchedules:
    """Has the schedule function that TVM chooses for a kernel tell what it made.

    TVM keeps its own pointer to the function that it calls, so that it can only be watched inside of it.
    """

    def __init__(self, watch: _Watch) -> None:
        self._watch = watch
        self._select = te_compiler.select_implementation

    def __enter__(self) -> None:
        te_compiler.select_implementation = self._selected

    def __exit__(self, *error: object) -> None:
        te_compiler.select_implementation = self._select

    def _selected(self, *arguments: Any, **named: Any) -> Any:
        chosen, outputs = self._select(*arguments, **named)

        def schedule(attributes: Any, results: Any, target: Any) -> Any:
            made = chosen.schedule(attributes, results, target)
            self._watch.of_topi(made, results)
            return made

        strategy = OpStrategy()
        strategy.add_implementation(chosen.compute, schedule, name=str(chosen.name), plevel=int(chosen.plevel))
        return strategy.specializations[0].implementations[0], outputs


def _compiled(kernel: Kernel, target: Any, watch: _Watch, *, by_auto_scheduler: bool) -> Any:
    """The kernel as the TE compiler lowers it, called as in the model."""
    compiler = te_compiler.get()
    compiler.clear()  # it keeps what it has lowered, whatever the schedule
    config = {"relay.backend.use_auto_scheduler": True} if by_auto_scheduler else {}
    with target, _States(watch), _Configurations(watch), _TopiSchedules(watch), tvm.transform.PassContext(opt_level=3, config=config):
        module = compiler.lower(kernel.function, target).funcs
    functions = [item for item in module.functions.values() if isinstance(item, tvm.tir.PrimFunc)]
    if len(functions) != 1:
        raise _unfit(f"cannot be put on {kernel.name}, which TVM lowers to {len(functions)} functions")
    return functions[0].with_attr("global_symbol", kernel.symbol)


def dag_of(kernel: Kernel, target: Any) -> Any:
    """auto_scheduler's view of what a kernel computes; None if it has none, as of kernels with dynamic shapes."""
    watch = _Watch(None)
    _compiled(kernel, target, watch, by_auto_scheduler=True)
    return watch.dag


def unscheduled(scheduled: Scheduled) -> Any:
    """A kernel's computation as plain loops, before any schedule, as a module."""
    tensors = scheduled.tensors
    results = [tensor.op for tensor in tensors if not isinstance(tensor.op, te.PlaceholderOp)]
    return tvm.lower(te.create_schedule(results), tensors, name=scheduled.kernel.name, simple_mode=True)


def _auto_scheduler(values: Any) -> Recorded:
    task, (_, steps) = values["i"]
    for word in _texts(steps):
        if not _WORD.fullmatch(word):
            raise ValueError("a step holds something that is no word")
    if not all(isinstance(part, (str, int, list)) for part in task) or not isinstance(values["v"], str):
        raise ValueError("it lacks its task or its version")
    line = json.dumps({"i": values["i"], "r": _NO_TIMES["r"], "v": values["v"]})
    measured, _ = load_record_from_string(line)
    return Recorded(AUTO_SCHEDULER, values, measured.state, None, str(measured.task.workload_key))


def _autotvm(values: Any) -> Recorded:
    if values["version"] != 0.2:  # what came before holds pickles
        raise ValueError("it is no log of version 0.2")
    row = {"input": values["input"], "config": values["config"], "result": _NO_TIMES["result"], "version": 0.2}
    decoded = decode(json.dumps(row))
    if decoded is None:
        raise ValueError("AutoTVM does not read it")
    measured = decoded[0]
    return Recorded(AUTOTVM, values, None, measured.config, measured.task.workload)


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _in_order(tensors: list[Any]) -> list[Any]:
    """Parameters by their number, then results."""
    numbered = [(_PARAMETER.fullmatch(tensor.op.name), tensor) for tensor in tensors if isinstance(tensor.op, te.PlaceholderOp)]
    inputs = [tensor for _, tensor in numbered]
    if all(match is not None for match, _ in numbered):
        inputs = [tensor for _, tensor in sorted(numbered, key=lambda pair: int(pair[0][1]) if pair[0] else 0)]
    return inputs + [tensor for tensor in tensors if not isinstance(tensor.op, te.PlaceholderOp)]


def _unfit(what: str) -> Refusal:
    return Refusal(INPUT, f"The recorded schedule {what}.", _AGAIN)


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300].rstrip(".") if lines else type(error).__name__


def _shown(workload: Any) -> str:
    return str(workload)[:200] or "nothing"
