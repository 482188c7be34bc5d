"""Times every call of one run of a Relax VM, through the instrument that the VM calls before and after each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import relax

_RUN = 0
_SKIP = 1
_BUILTIN = "vm.builtin."

Skip = Callable[[str], bool]
AfterCall = Callable[[int, str, tuple[Any, ...]], None]


@dataclass
class Trace:
    """What one instrumented run recorded.

    Attributes:
        symbols: Symbol of each kernel call, skipped ones included.
        calls_ns: Time of each kernel call that ran.
        arguments: Number of arguments of each kernel call that ran.
        builtins_ns: Time of each call of a VM builtin.
        builtins: Number of calls of each builtin.
        result: What ``main`` returned.
    """

    symbols: list[str] = field(default_factory=list)
    calls_ns: list[int] = field(default_factory=list)
    arguments: list[int] = field(default_factory=list)
    builtins_ns: list[int] = field(default_factory=list)
    builtins: Counter[str] = field(default_factory=Counter)
    result: Any = None

    @property
    def seconds(self) -> float:
        """Sum of all calls."""
        return (sum(self.calls_ns) + sum(self.builtins_ns)) / 1e9


def skip_nothing(symbol: str) -> bool:
    """Run every kernel."""
    del symbol
    return False


def skip_repeated() -> Skip:
    """Run the first call of each kernel only: enough to warm code, threads and memory up, in a fraction of the time."""
    seen: set[str] = set()

    def skip(symbol: str) -> bool:
        if symbol in seen:
            return True
        seen.add(symbol)
        return False

    return skip


def ignore_call(index: int, symbol: str, arguments: tuple[Any, ...]) -> None:
    """Do nothing after a call."""
    del index, symbol, arguments


def run_instrumented(
    machine: relax.VirtualMachine,
    arguments: Sequence[Any],
    *,
    synchronise: Callable[[], None],
    skip: Skip = skip_nothing,
    after_call: AfterCall = ignore_call,
) -> Trace:
    """Run ``main`` and time its calls.

    Args:
        machine: The VM.
        arguments: Arguments of ``main``.
        synchronise: Waits for the device, so that a call's time is that of its work and not of its launch.
        skip: Decides by symbol whether a kernel is left out.
        after_call: Gets index, symbol and arguments (outputs last) of every kernel call, outside the timed interval; it may raise to end the
            run.
    """
    hook = _Hook(synchronise, skip, after_call)
    machine.set_instrument(hook.guarded)
    try:
        hook.trace.result = machine["main"](*arguments)
    except BaseException:
        if hook.raised is not None:
            raise hook.raised from None  # on its way through the VM an error of ours becomes a RuntimeError
        raise
    return hook.trace


def tensors_in(result: Any) -> list[Any]:
    """All tensors of what ``main`` returned, in order."""
    return [result] if hasattr(result, "numpy") else [tensor for item in result for tensor in tensors_in(item)]


class _Hook:
    """What the VM calls before and after every call of a run."""

    def __init__(self, synchronise: Callable[[], None], skip: Skip, after_call: AfterCall) -> None:
        self.trace = Trace()
        self.raised: BaseException | None = None
        self._synchronise = synchronise
        self._skip = skip
        self._after_call = after_call
        self._started_ns = 0

    def guarded(self, function: Any, symbol: str, before: bool, result: Any, *values: Any) -> int:  # noqa: FBT001 - the VM calls it by position
        del function, result
        try:
            return self._before(symbol) if before else self._after(symbol, values)
        except BaseException as error:
            self.raised = error
            raise

    def _before(self, symbol: str) -> int:
        if not symbol.startswith(_BUILTIN):
            self.trace.symbols.append(symbol)
            if self._skip(symbol):
                return _SKIP
        self._synchronise()
        self._started_ns = time.perf_counter_ns()
        return _RUN

    def _after(self, symbol: str, values: tuple[Any, ...]) -> int:
        self._synchronise()
        elapsed_ns = time.perf_counter_ns() - self._started_ns
        if symbol.startswith(_BUILTIN):
            self.trace.builtins_ns.append(elapsed_ns)
            self.trace.builtins[symbol] += 1
        else:
            self.trace.calls_ns.append(elapsed_ns)
            self.trace.arguments.append(len(values))
            self._after_call(len(self.trace.symbols) - 1, symbol, values)
        return _RUN
