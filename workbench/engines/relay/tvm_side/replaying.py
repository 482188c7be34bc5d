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
from tvm import auto_scheduler, te
from tvm.auto_scheduler.measure_record import load_record_from_string
from tvm.auto_scheduler.relay_integration import traverse_to_get_io_tensors
from tvm.autotvm.record import decode
from tvm.relay.backend import te_compiler
from tvm.relay.op.op import OpStrategy

from .failing import INPUT, Refusal
from .held import Kernel
from .kernel_code import lower
from .templates import Chosen

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
    for name in ("global_symbol", "hash", "target"):
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


def lowered(kernel: Kernel, target: Any, trace: str) -> Scheduled:
    """Lower a kernel with a recorded schedule.

    Args:
        kernel: The kernel.
        target: What it is for.
        trace: The schedule; empty for the untuned kernel.

    Raises:
        Refusal: The trace is damaged, or is another kernel's.
    """
    recorded = read(trace)
    watch = _Watch(recorded)
    try:
        if recorded is not None and recorded.system == AUTOTVM:
            with Chosen(recorded.workload, recorded.config) as chosen:
                function = _lower(kernel, target, watch, by_auto_scheduler=False)
            watch.taken = chosen.asked
        else:
            function = _lower(kernel, target, watch, by_auto_scheduler=recorded is not None)
    except Exception as error:  # a schedule from anywhere may make TVM raise anything
        if recorded is None:
            raise
        raise _unfit(f"does not fit the kernel: {_last_line(error)}") from error
    if recorded is not None and not watch.taken:
        raise _unfit(f"is another kernel's: it is of {_shown(recorded.workload)}")
    return Scheduled(kernel, recorded, function, watch.schedule, _in_order(watch.tensors), watch.dag)


class _Watch:
    """Sees what TVM asks for while it lowers one kernel, gives it the recorded schedule, and keeps what it makes.

    Attributes:
        taken: True if it asked for just that schedule.
        asked_for: The workload of auto_scheduler that it asked for; empty if it asked for none.
        schedule: The TE schedule.
        tensors: Its inputs and outputs.
        dag: auto_scheduler's view of the computation, if it asked for one.
    """

    def __init__(self, recorded: Recorded | None) -> None:
        self._recorded = recorded
        self.taken = False
        self.asked_for = ""
        self.schedule: Any = None
        self.tensors: list[Any] = []
        self.dag: Any = None

    def of_auto_scheduler(self, outputs: Any) -> Any:
        """The schedule for a computation; None, which leaves it to TOPI, for any but the recorded one."""
        tensors = traverse_to_get_io_tensors(list(outputs))[0]
        if not tensors:
            return None
        self.dag = auto_scheduler.ComputeDAG(tensors)
        self.asked_for = str(self.dag.workload_key())
        if self._recorded is None or self.asked_for != self._recorded.workload:
            return None
        self.taken = True
        self.schedule, made = self.dag.apply_steps_from_state(self._recorded.state)
        self.tensors = list(made)
        return self.schedule

    def of_topi(self, schedule: Any, outputs: Any) -> None:
        """TOPI made a schedule."""
        self.schedule, self.tensors = schedule, list(traverse_to_get_io_tensors(list(outputs))[0])


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


def _lower(kernel: Kernel, target: Any, watch: _Watch, *, by_auto_scheduler: bool) -> Any:
    """The kernel as TVM lowers it, called as in the model."""
    schedule = watch.of_auto_scheduler if by_auto_scheduler else None
    with _TopiSchedules(watch):
        symbol, lowered = lower(kernel.function, target, schedule=schedule)
    parts = [lowered] if isinstance(lowered, tvm.IRModule) else [part for _, part in lowered.items()]
    functions = {name.name_hint: function for part in parts for name, function in part.functions.items()}
    return functions[symbol].with_attr("global_symbol", kernel.symbol)


def dag_of(kernel: Kernel, target: Any) -> Any:
    """auto_scheduler's view of what a kernel computes; None if it has none, as of kernels with dynamic shapes."""
    watch = _Watch(None)
    _lower(kernel, target, watch, by_auto_scheduler=True)
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
