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

from workbench.analysis.confidence import CLEARLY, is_enough, is_hopeless
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
_TURNS_US = 2.5e5
_SLOW_US = 5e4
_COLD = 2.0
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
        run_us: Time of the run that gave them.
    """

    path: str
    arguments: list[Any]
    before: dict[int, Array]
    after: dict[int, Array]
    guarded: dict[int, Array]
    reduction: int
    run_us: float

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
        run_us=run_s * 1e6,
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
    if not values["check"] and reference.run_us > _SLOW_US and values["path"] == reference.path:
        check, first_us = None, reference.run_us  # it has just run
    else:
        check, first_us = _check(module[_ENTRY], reference, device, compared=values["check"])
    is_right = check is None or check.passed
    times_us: list[float] = []
    runs = 0
    if is_right and values["timed"]:
        times_us, runs = _times(module, reference, device, options=options, best_us=values["best_us"], first_us=first_us)
    # Comparing all inputs takes as long as some runs: a hopeless candidate may go unpunished, since what it spoils shows in the next ones.
    is_spared = bool(times_us) and is_hopeless(min(times_us), best=values["best_us"])
    guarded = () if is_spared else reference.guarded.items()
    overwritten = [place for place, array in guarded if not is_same(reference.arguments[place].numpy(), array)]
    return {
        "times_us": times_us,
        "runs": runs,
        "check": None if check is None else check.to_dict(),
        "overwritten": overwritten,
        "in_doubt": bool(overwritten) or (not is_right and not _is_sound(reference, device)),  # an earlier one may have done it
        "run_s": time.perf_counter() - started,
    }


def _is_sound(reference: _Reference, device: Any) -> bool:
    """False if the untuned kernel itself is wrong by now: an earlier candidate wrote where it should not."""
    check, _ = _check(_load(reference.path)[_ENTRY], reference, device, compared=True)
    return check is not None and check.passed


def _probe_all(values: dict[str, Any]) -> dict[str, Any]:
    """Microseconds of a run of each library, how many runs are to be behind a time, and how many times are to be taken: fewer of a slow one."""
    options = MeasureOptions.from_dict(values["options"])
    reference, device = _references[values["kernel"]], _device(values)
    times_us = []
    for path in values["paths"]:
        module = _load(path)
        first_us = _timed(module[_ENTRY], reference, device)
        is_known = first_us > _SLOW_US and not options.cache_flush
        times_us.append(first_us if is_known else _probe(module, reference, device, options, first_us)[0])
    numbers = [_number(time_us, options) for time_us in times_us]
    affordable = [int(_TURNS_US / (time_us * number)) for time_us, number in zip(times_us, numbers, strict=True)]
    least = [1 if turns < 1 and time_us > CLEARLY * min(times_us) else _LEAST_TURNS for turns, time_us in zip(affordable, times_us, strict=True)]
    rounds = [min(max(turns, fewest), values["rounds"]) for turns, fewest in zip(affordable, least, strict=True)]
    return {"times_us": times_us, "numbers": numbers, "rounds": rounds}


def _compare(values: dict[str, Any]) -> dict[str, Any]:
    """Time several libraries by turns."""
    options = MeasureOptions.from_dict(values["options"])
    reference, device = _references[values["kernel"]], _device(values)
    modules = [_load(path) for path in values["paths"]]
    probed = zip(values["expected_us"], values["numbers"], strict=True)  # what one slow run took is a time too, if times are of one run
    times_us: list[list[float]] = [[time_us] if number == 1 and time_us > _SLOW_US and not options.cache_flush else [] for time_us, number in probed]
    for turn in range(max(values["rounds"])):
        order = range(len(modules)) if turn % 2 == 0 else reversed(range(len(modules)))
        for index in order:
            if len(times_us[index]) >= values["rounds"][index]:
                continue
            expected_us, number = values["expected_us"][index], values["numbers"][index]
            times_us[index].extend(_evaluate(modules[index], reference, device, options, number=number, expected_us=expected_us))
    return {"times_us": times_us}


def _check(kernel: Callable[..., None], reference: _Reference, device: Any, *, compared: bool) -> tuple[Check | None, float]:
    """Run a kernel once on poisoned outputs, which warms it up too; what it wrote beside what it should have, if asked, and the microseconds."""
    for place, array in reference.before.items():
        reference.arguments[place].copyfrom(array)
    time_us = _timed(kernel, reference, device)
    if not compared:
        return None, time_us
    check = worst([difference(reference.arguments[place].numpy(), expected, reference.reduction) for place, expected in reference.after.items()])
    return check, time_us


def _timed(kernel: Callable[..., None], reference: _Reference, device: Any) -> float:
    """Microseconds of one call, which is exact enough for a slow kernel."""
    started = time.perf_counter()
    kernel(*reference.arguments)
    device.sync()
    return (time.perf_counter() - started) * 1e6


def _times(
    module: Any, reference: _Reference, device: Any, *, options: MeasureOptions, best_us: float | None, first_us: float
) -> tuple[list[float], int]:
    """Measured times until they are enough, and the runs behind each.

    Args:
        module: The candidate.
        reference: What it is run on.
        device: Where.
        options: How often.
        best_us: The best time so far.
        first_us: The time of its very first run, with cold caches: enough if it is many times the best.
    """
    tells = first_us > _QUICK_US and not options.cache_flush  # of a quick kernel it measures the cold start
    if tells and best_us is not None and is_hopeless(first_us, best=_COLD * best_us):
        return [first_us], 1
    if first_us > _SLOW_US and not options.cache_flush:
        first, runs = first_us, 1  # a cold start is lost in it
    else:
        first, runs = _probe(module, reference, device, options, first_us)
    if is_hopeless(first, best=best_us):
        return [first], runs
    number = _number(first, options)
    times = [first] if number == runs else []
    allowed_s = min(_TIMING_SHARE * options.timeout_s, _PATIENCE * options.repeat * options.min_repeat_ms / 1e3)
    deadline = time.perf_counter() + allowed_s
    while not is_enough(times, best=best_us, most=options.repeat):
        affordable = int((deadline - time.perf_counter()) * 1e6 / (number * first))
        if times and affordable < 1:
            break
        wanted = min(_TIMES_A_CALL, affordable, options.repeat - len(times)) if times else 1
        times.extend(_evaluate(module, reference, device, options, number=number, repeat=wanted, expected_us=first))
    return times, number


def _probe(module: Any, reference: _Reference, device: Any, options: MeasureOptions, first_us: float) -> tuple[float, int]:
    """A first time and its runs: one, or what a millisecond holds, since one run of a quick kernel measures the clock and the call too."""
    time_us = _evaluate(module, reference, device, options, expected_us=first_us)[0]
    runs = min(_number(time_us, options), math.ceil(_QUICK_US / max(time_us, _CLOCK_US)))
    return (time_us, 1) if runs == 1 else (_evaluate(module, reference, device, options, number=runs)[0], runs)


def _evaluate(
    module: Any, reference: _Reference, device: Any, options: MeasureOptions, *, number: int = 1, repeat: int = 1, expected_us: float = 0.0
) -> list[float]:
    """Microseconds of each of `repeat` times; TVM runs the kernel once more before, uncounted, which is left out where it takes long."""
    if number == 1 and expected_us > _SLOW_US and not options.cache_flush:
        return [_timed(module[_ENTRY], reference, device) for _ in range(repeat)]
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
