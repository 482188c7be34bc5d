"""Runs in the measuring process of a device: checks outputs of built candidates and times them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from workbench.analysis.confidence import CONTENDER, is_enough, is_hopeless
from workbench.engines.relax.search.arrays import Array, count_of_no_numbers, difference, is_same, poisoned, random_array, telling, worst
from workbench.isolation import Message
from workbench.records.trial import Check, MeasureOptions

_ENTRY = "main"
_FLUSH = {"cpu": "cache_flush_cpu_non_first_arg", "cuda": "l2_cache_flush_cuda"}
_MOST_REFERENCES = 8
_MOST_BYTES = 2**30
_MOST_GUARDED_BYTES = 2**26
_TIMES_A_CALL = 3
_PATIENCE = 4.0  # a slow kernel may take so many times what the options ask for
_TURNS_US = 5e5
_LEAST_TURNS = 3
_TIMING_SHARE = 0.3  # of a trial's timeout: then a slow kernel has been timed often enough
_QUICK_US = 1000.0
_CLOCK_US = 0.01


@dataclass(frozen=True)
class _Reference:
    """What the candidates of one kernel are run on and compared with.

    Attributes:
        path: The untuned kernel's library.
        arguments: On the device.
        before: What those that the kernel writes hold before each check, by place: an output a value that the kernel does not write.
        after: What they hold after the untuned kernel.
        guarded: What those hold that it only reads, by place; very large ones are left out.
        reduction: Terms of its longest sum.
    """

    path: str
    arguments: list[Any]
    before: dict[int, Array]
    after: dict[int, Array]
    guarded: dict[int, Array]
    reduction: int

    @property
    def size_bytes(self) -> int:
        """What keeping it takes."""
        kept = sum(array.nbytes for arrays in (self.before, self.after, self.guarded) for array in arrays.values())
        return kept + sum(array.nbytes for array in (*self.before.values(), *self.guarded.values()))


_references: dict[str, _Reference] = {}


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
    tensors = values["tensors"]
    count = len(tensors) - values["results"]
    generator = np.random.default_rng(values["seed"])
    inputs = [random_array(generator, item["shape"], item["dtype"]) for item in tensors[:count]]
    outputs = [poisoned(item["shape"], item["dtype"]) for item in tensors[count:]]
    arguments = [tvm.runtime.tensor(array, device) for array in (*inputs, *outputs)]
    kernel = _load(values["path"])[_ENTRY]
    found, run_s = _run(kernel, arguments, [*inputs, *outputs], device)
    if (lost := count_of_no_numbers(found[count:])) > 0:  # square roots and logarithms of negative numbers: nothing to compare
        positive = [np.abs(array) if array.dtype.kind in "fV" else array for array in inputs]
        better, run_s = _run(kernel, arguments, [*positive, *outputs], device)
        if count_of_no_numbers(better[count:]) < lost:
            inputs, found = positive, better
        else:
            found, run_s = _run(kernel, arguments, [*inputs, *outputs], device)
    written = [place for place in range(len(tensors)) if place >= count or not is_same(found[place], inputs[place])]
    reference = _Reference(
        path=values["path"],
        arguments=arguments,
        before={place: telling(outputs[place - count], found[place]) if place >= count else inputs[place] for place in written},
        after={place: found[place] for place in written},
        guarded={place: array for place, array in enumerate(inputs) if place not in written and array.nbytes <= _MOST_GUARDED_BYTES},
        reduction=values["reduction"],
    )
    _references.pop(values["kernel"], None)
    forgotten = []
    while _references and (
        len(_references) >= _MOST_REFERENCES or sum(other.size_bytes for other in _references.values()) + reference.size_bytes > _MOST_BYTES
    ):
        forgotten.append(next(iter(_references)))
        del _references[forgotten[-1]]
    _references[values["kernel"]] = reference
    return {"run_s": run_s, "forgotten": forgotten}


def _run(kernel: Callable[..., None], arguments: list[Any], contents: list[Array], device: Any) -> tuple[list[Array], float]:
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
    reference, device = _references[values["kernel"]], _device(values)
    module = _load(values["path"])
    check = _check(module[_ENTRY], reference, device, compared=values["check"])
    is_right = check is None or check.passed
    times_us: list[float] = []
    runs = 0
    if is_right and values["timed"]:
        times_us, runs = _times(module, reference, device, options=options, best_us=values["best_us"])
    # Comparing all inputs takes as long as some runs: a candidate that will not win may go unpunished, since what it spoils shows in the next ones.
    may_win = not times_us or values["best_us"] is None or min(times_us) <= CONTENDER * values["best_us"]
    guarded = reference.guarded.items() if may_win else ()
    overwritten = [place for place, array in guarded if not is_same(reference.arguments[place].numpy(), array)]
    is_right = is_right and not overwritten
    return {
        "times_us": times_us,
        "runs": runs,
        "check": None if check is None else check.to_dict(),
        "overwritten": overwritten,
        "in_doubt": not is_right and not overwritten and not _is_sound(reference, device),
        "run_s": time.perf_counter() - started,
    }


def _is_sound(reference: _Reference, device: Any) -> bool:
    """False if the untuned kernel itself is wrong by now: an earlier candidate wrote where it should not."""
    check = _check(_load(reference.path)[_ENTRY], reference, device, compared=True)
    return check is not None and check.passed


def _probe_all(values: dict[str, Any]) -> dict[str, Any]:
    """Microseconds of a run of each library, how many runs are to be behind a time, and how many times are to be taken: fewer of a slow one."""
    options = MeasureOptions.from_dict(values["options"])
    reference, device = _references[values["kernel"]], _device(values)
    times_us = []
    for path in values["paths"]:
        module = _load(path)
        module[_ENTRY](*reference.arguments)
        device.sync()
        times_us.append(_probe(module, reference, device, options)[0])
    numbers = [_number(time_us, options) for time_us in times_us]
    affordable = [_TURNS_US / (time_us * (number + 1)) for time_us, number in zip(times_us, numbers, strict=True)]
    return {"times_us": times_us, "numbers": numbers, "rounds": [max(min(int(turns), values["rounds"]), _LEAST_TURNS) for turns in affordable]}


def _compare(values: dict[str, Any]) -> dict[str, Any]:
    """Time several libraries by turns."""
    options = MeasureOptions.from_dict(values["options"])
    reference, device = _references[values["kernel"]], _device(values)
    modules = [_load(path) for path in values["paths"]]
    times_us: list[list[float]] = [[] for _ in modules]
    for turn in range(max(values["rounds"])):
        order = range(len(modules)) if turn % 2 == 0 else reversed(range(len(modules)))
        for index in order:
            if turn >= values["rounds"][index]:
                continue
            times_us[index].extend(_evaluate(modules[index], reference, device, options, number=values["numbers"][index]))
    return {"times_us": times_us}


def _check(kernel: Callable[..., None], reference: _Reference, device: Any, *, compared: bool) -> Check | None:
    """Run a kernel once on poisoned outputs, which warms it up too; compare what it wrote if asked."""
    for place, array in reference.before.items():
        reference.arguments[place].copyfrom(array)
    kernel(*reference.arguments)
    device.sync()
    if not compared:
        return None
    return worst([difference(reference.arguments[place].numpy(), expected, reference.reduction) for place, expected in reference.after.items()])


def _times(module: Any, reference: _Reference, device: Any, *, options: MeasureOptions, best_us: float | None) -> tuple[list[float], int]:
    """Measured times until they are enough, and the runs behind each."""
    first, runs = _probe(module, reference, device, options)
    if is_hopeless(first, best=best_us):
        return [first], runs
    number = _number(first, options)
    times = [first] if number == runs else []
    allowed_s = min(_TIMING_SHARE * options.timeout_s, _PATIENCE * options.repeat * options.min_repeat_ms / 1e3)
    deadline = time.perf_counter() + allowed_s
    while not is_enough(times, best=best_us, most=options.repeat) and (not times or time.perf_counter() < deadline):
        affordable = max(int((deadline - time.perf_counter()) * 1e6 / (number * first)), 1)
        wanted = min(_TIMES_A_CALL, affordable, options.repeat - len(times))
        times.extend(_evaluate(module, reference, device, options, number=number, repeat=wanted))
    return times, number


def _probe(module: Any, reference: _Reference, device: Any, options: MeasureOptions) -> tuple[float, int]:
    """A first time and its runs: one, or what a millisecond holds, since one run of a quick kernel measures the clock and the call too."""
    time_us = _evaluate(module, reference, device, options)[0]
    runs = min(_number(time_us, options), math.ceil(_QUICK_US / max(time_us, _CLOCK_US)))
    return (time_us, 1) if runs == 1 else (_evaluate(module, reference, device, options, number=runs)[0], runs)


def _evaluate(module: Any, reference: _Reference, device: Any, options: MeasureOptions, *, number: int = 1, repeat: int = 1) -> list[float]:
    """Microseconds of each of `repeat` times; TVM runs the kernel once more before, uncounted."""
    flush = _FLUSH.get(str(device).partition(":")[0], "") if options.cache_flush else ""
    evaluator = module.time_evaluator(_ENTRY, device, number=number, repeat=repeat, f_preproc=flush)
    return [seconds * 1e6 for seconds in evaluator(*reference.arguments).results]


def _number(time_us: float, options: MeasureOptions) -> int:
    """Runs behind one measured time."""
    if options.cache_flush:
        return 1
    if options.number is not None:
        return options.number
    return max(1, min(round(options.min_repeat_ms * 1e3 / max(time_us, _CLOCK_US)), 1_000_000))


def _load(path: str) -> Any:
    """A library, unloaded again with the last of its functions: thousands of them go through this process."""
    return tvm_ffi.load_module(path, keep_module_alive=False)


def _device(values: dict[str, Any]) -> Any:
    return tvm.device(values["device_kind"], values["device"])
