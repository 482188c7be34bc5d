"""Runs in the measuring process of a device: checks outputs of built candidates and times them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

from workbench.analysis.confidence import is_hopeless
from workbench.engines.arrays import Array, is_same
from workbench.engines.reference import KernelFacts, Reference, initial_contents, take_reference
from workbench.engines.timing import SLOW_US, Turns, by_turns, planned, times
from workbench.isolation import Message
from workbench.records.trial import Check, MeasureOptions

_ENTRY = "main"
_FLUSH = {"cpu": "cache_flush_cpu_non_first_arg", "cuda": "l2_cache_flush_cuda"}
_MOST_REFERENCES = 8
_MOST_BYTES = 2**30


@dataclass(frozen=True)
class _Kept:
    """A kernel's reference in this process.

    Attributes:
        path: The untuned kernel's library.
        arguments: On the device.
        reference: What candidates are compared with.
    """

    path: str
    arguments: list[Any]
    reference: Reference


@dataclass(frozen=True)
class _Runner:
    """Implements `workbench.engines.timing.Runner`.

    Attributes:
        module: The library.
        arguments: What it is run on.
        device: Where.
        cache_flush: True runs with cold caches.
    """

    module: Any
    arguments: list[Any]
    device: Any
    cache_flush: bool = False

    def once(self) -> float:
        """Microseconds of one call."""
        kernel = self.module[_ENTRY]
        started = time.perf_counter()
        kernel(*self.arguments)
        self.device.sync()
        return (time.perf_counter() - started) * 1e6

    def evaluate(self, *, number: int, repeat: int) -> list[float]:
        """Microseconds of each of `repeat` times, as TVM takes them."""
        flush = _FLUSH.get(str(self.device).partition(":")[0], "") if self.cache_flush else ""
        evaluator = self.module.time_evaluator(_ENTRY, self.device, number=number, repeat=repeat, f_preproc=flush)
        return [seconds * 1e6 for seconds in evaluator(*self.arguments).results]


_references: dict[str, _Kept] = {}


def serve(request: Message) -> Message:
    """Answer one request, by its ``do``: ``reference``, ``measure``, ``probe`` or ``compare``."""
    values = dict(request.values)
    answer: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "reference": _set_reference,
        "measure": _measure,
        "probe": _probe_all,
        "compare": _compare,
    }
    return Message(answer[values.pop("do")](values))


def _set_reference(values: dict[str, Any]) -> dict[str, Any]:
    """Run the untuned kernel on random inputs and keep its outputs; forget the oldest kernels if there are too many."""
    device = _device(values)
    tensors = tuple((tuple(item["shape"]), item["dtype"]) for item in values["tensors"])
    facts = KernelFacts(tensors, results=values["results"], reduction=values["reduction"])
    contents = initial_contents(facts, seed=values["seed"])
    arguments = [tvm.runtime.tensor(array, device) for array in contents]
    kernel = _load(values["path"])[_ENTRY]
    reference = take_reference(lambda held: _run(kernel, arguments, held, device), facts, contents)
    _references.pop(values["kernel"], None)
    forgotten = []
    while _references and (
        len(_references) >= _MOST_REFERENCES or sum(other.reference.size_bytes for other in _references.values()) + reference.size_bytes > _MOST_BYTES
    ):
        forgotten.append(next(iter(_references)))
        del _references[forgotten[-1]]
    _references[values["kernel"]] = _Kept(values["path"], arguments, reference)
    return {"run_s": reference.run_us / 1e6, "forgotten": forgotten}


def _run(kernel: Callable[..., None], arguments: list[Any], contents: Sequence[Array], device: Any) -> tuple[list[Array], float]:
    """What the arguments hold after a run, and the seconds it took."""
    for argument, content in zip(arguments, contents, strict=True):
        argument.copyfrom(content)
    started = time.perf_counter()
    kernel(*arguments)
    device.sync()
    run_s = time.perf_counter() - started
    return [argument.numpy() for argument in arguments], run_s


def _measure(values: dict[str, Any]) -> dict[str, Any]:
    """Check a candidate, then time it."""
    started = time.perf_counter()
    options = MeasureOptions.from_dict(values["options"])
    if options.cooldown_ms > 0:
        time.sleep(options.cooldown_ms / 1e3)
    kept, device = _references[values["kernel"]], _device(values)
    reference = kept.reference
    runner = _Runner(_load(values["path"]), kept.arguments, device, options.cache_flush)
    if not values["check"] and reference.run_us > SLOW_US and values["path"] == kept.path:
        check, first_us = None, reference.run_us  # it has just run
    else:
        check, first_us = _check(runner, reference, compared=values["check"])
    is_right = check is None or check.passed
    times_us: list[float] = []
    runs = 0
    if is_right and values["timed"]:
        times_us, runs = times(runner, options=options, best_us=values["best_us"], first_us=first_us)
    # Comparing all inputs takes as long as some runs: a hopeless candidate may go unpunished, since what it spoils shows in the next ones.
    is_spared = bool(times_us) and is_hopeless(min(times_us), best=values["best_us"])
    guarded = () if is_spared else reference.guarded.items()
    overwritten = [place for place, array in guarded if not is_same(kept.arguments[place].numpy(), array)]
    return {
        "times_us": times_us,
        "runs": runs,
        "check": None if check is None else check.to_dict(),
        "overwritten": overwritten,
        "in_doubt": bool(overwritten) or (not is_right and not _is_sound(kept, device)),  # an earlier one may have done it
        "run_s": time.perf_counter() - started,
    }


def _is_sound(kept: _Kept, device: Any) -> bool:
    """False if the untuned kernel itself is wrong by now: an earlier candidate wrote where it should not."""
    check, _ = _check(_Runner(_load(kept.path), kept.arguments, device), kept.reference, compared=True)
    return check is not None and check.passed


def _probe_all(values: dict[str, Any]) -> dict[str, Any]:
    """Microseconds of a run of each library, how many runs are to be behind a time, and how many times are to be taken: fewer of a slow one."""
    options = MeasureOptions.from_dict(values["options"])
    turns = planned(_runners(values, options), options=options, rounds=values["rounds"])
    return {"times_us": list(turns.times_us), "numbers": list(turns.numbers), "rounds": list(turns.rounds)}


def _compare(values: dict[str, Any]) -> dict[str, Any]:
    """Time several libraries by turns."""
    options = MeasureOptions.from_dict(values["options"])
    turns = Turns(tuple(values["expected_us"]), tuple(values["numbers"]), tuple(values["rounds"]))
    return {"times_us": by_turns(_runners(values, options), turns, options=options)}


def _runners(values: dict[str, Any], options: MeasureOptions) -> list[_Runner]:
    arguments, device = _references[values["kernel"]].arguments, _device(values)
    return [_Runner(_load(path), arguments, device, options.cache_flush) for path in values["paths"]]


def _check(runner: _Runner, reference: Reference, *, compared: bool) -> tuple[Check | None, float]:
    """Run a kernel once on poisoned outputs, which warms it up too; what it wrote beside what it should have, if asked, and the microseconds."""
    for place, array in reference.before.items():
        runner.arguments[place].copyfrom(array)
    time_us = runner.once()
    if not compared:
        return None, time_us
    return reference.check({place: runner.arguments[place].numpy() for place in reference.after}), time_us


def _load(path: str) -> Any:
    """A library, unloaded again with the last of its functions: thousands of them go through this process."""
    return tvm_ffi.load_module(path, keep_module_alive=False)


def _device(values: dict[str, Any]) -> Any:
    return tvm.device(values["device_kind"], values["device"])
