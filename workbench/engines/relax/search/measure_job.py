"""Runs in the measuring process of a device: checks outputs of built candidates and times them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import tvm

from workbench.analysis.confidence import is_enough, is_hopeless
from workbench.analysis.tolerance import tolerance
from workbench.isolation import Message
from workbench.records.trial import Check, MeasureOptions

_ENTRY = "main"
_FLUSH = {"cpu": "cache_flush_cpu_non_first_arg", "cuda": "l2_cache_flush_cuda"}
_MOST_REFERENCES = 8
_POISON = 0xA5
_TIMES_A_CALL = 3
_TIMING_SHARE = 0.3  # of a trial's timeout: then a slow kernel has been timed often enough


@dataclass(frozen=True)
class _Reference:
    """What the candidates of one kernel are run on and compared with."""

    arguments: list[Any]  # on the device; the last `len(outputs)` are written by the kernel
    outputs: list[np.ndarray[Any, Any]]
    reduction: int


_references: dict[str, _Reference] = {}


def serve(request: Message) -> Message:
    """Answer one request, by its ``do``: ``reference``, ``measure`` or ``compare``."""
    values = dict(request.values)
    answer: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"reference": _set_reference, "measure": _measure, "compare": _compare}
    return Message(answer[values.pop("do")](values))


def _set_reference(values: dict[str, Any]) -> dict[str, Any]:
    """Run the untuned kernel on random inputs and keep its outputs."""
    device = _device(values)
    generator = np.random.default_rng(values["seed"])
    tensors = values["tensors"]
    count = len(tensors) - values["results"]
    arrays = [_random(generator, item["shape"], item["dtype"]) for item in tensors[:count]]
    blanks = [_poisoned(item["shape"], item["dtype"]) for item in tensors[count:]]
    arguments = [tvm.runtime.tensor(array, device) for array in [*arrays, *blanks]]
    kernel = tvm.runtime.load_module(values["path"])[_ENTRY]
    started = time.perf_counter()
    kernel(*arguments)
    device.sync()
    run_s = time.perf_counter() - started
    forgotten = [] if values["kernel"] in _references else list(_references)[: max(len(_references) + 1 - _MOST_REFERENCES, 0)]
    for kernel_name in forgotten:
        del _references[kernel_name]
    _references[values["kernel"]] = _Reference(arguments, [argument.numpy() for argument in arguments[count:]], values["reduction"])
    return {"run_s": run_s, "forgotten": forgotten}


def _measure(values: dict[str, Any]) -> dict[str, Any]:
    """Check a candidate, then time it."""
    started = time.perf_counter()
    options = MeasureOptions.from_dict(values["options"])
    if options.cooldown_ms > 0:
        time.sleep(options.cooldown_ms / 1e3)
    reference, device = _references[values["kernel"]], _device(values)
    module = tvm.runtime.load_module(values["path"])
    check = _check(module[_ENTRY], reference, device, compared=values["check"])
    times_us: list[float] = []
    runs = 0
    if (check is None or check.passed) and values["timed"]:
        times_us, runs = _times(module, reference, device, options=options, best_us=values["best_us"])
    return {
        "times_us": times_us,
        "runs": runs,
        "check": None if check is None else check.to_dict(),
        "run_s": time.perf_counter() - started,
    }


def _compare(values: dict[str, Any]) -> dict[str, Any]:
    """Time several libraries by turns."""
    options = MeasureOptions.from_dict(values["options"])
    reference, device = _references[values["kernel"]], _device(values)
    modules = [tvm.runtime.load_module(path) for path in values["paths"]]
    for module in modules:
        module[_ENTRY](*reference.arguments)
    device.sync()
    numbers = [_number(_evaluate(module, reference, device, options)[0], options) for module in modules]
    times_us: list[list[float]] = [[] for _ in modules]
    for turn in range(values["rounds"]):
        order = range(len(modules)) if turn % 2 == 0 else reversed(range(len(modules)))
        for index in order:
            times_us[index].extend(_evaluate(modules[index], reference, device, options, number=numbers[index]))
    return {"times_us": times_us}


def _check(kernel: Callable[..., None], reference: _Reference, device: Any, *, compared: bool) -> Check | None:
    """Run a kernel once on poisoned outputs, which warms it up too; compare what it wrote if asked."""
    outputs = reference.arguments[len(reference.arguments) - len(reference.outputs) :]
    if compared:
        for output, expected in zip(outputs, reference.outputs, strict=True):
            output.copyfrom(_poisoned(expected.shape, str(output.dtype)))
    kernel(*reference.arguments)
    device.sync()
    if not compared:
        return None
    return worst([_difference(output.numpy(), expected, reference.reduction) for output, expected in zip(outputs, reference.outputs, strict=True)])


def _times(module: Any, reference: _Reference, device: Any, *, options: MeasureOptions, best_us: float | None) -> tuple[list[float], int]:
    """Measured times until they are enough, and the runs behind each."""
    first = _evaluate(module, reference, device, options)[0]
    if is_hopeless(first, best=best_us):
        return [first], 1
    number = _number(first, options)
    times = [first] if number == 1 else []
    deadline = time.perf_counter() + _TIMING_SHARE * options.timeout_s
    while not is_enough(times, best=best_us, most=options.repeat) and (not times or time.perf_counter() < deadline):
        wanted = min(_TIMES_A_CALL, options.repeat - len(times))
        times.extend(_evaluate(module, reference, device, options, number=number, repeat=wanted))
    return times, number


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
    return max(1, min(round(options.min_repeat_ms * 1e3 / max(time_us, 0.01)), 1_000_000))


def _device(values: dict[str, Any]) -> Any:
    return tvm.device(values["device_kind"], values["device"])


def _difference(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], reduction: int) -> Check:
    """Compare one output; equal infinities and NaN at the same places agree."""
    allowed = tolerance(str(expected.dtype), reduction)
    wide = np.float64 if expected.dtype.kind in "fV" or "float" in str(expected.dtype) else None
    if wide is None:
        unequal = int(np.count_nonzero(found != expected))
        distance = np.abs(found.astype(np.float64) - expected.astype(np.float64))
        largest = float(distance.max(initial=0.0))
        relative = float((distance / np.maximum(np.abs(expected.astype(np.float64)), 1.0)).max(initial=0.0))
        return Check(largest, relative, unequal, expected.size, 0.0, 0.0)
    got, want = found.astype(np.float64), expected.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    finite = np.isfinite(want)
    scale = float(np.abs(want[finite]).max(initial=0.0))
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.where(same, 0.0, np.abs(got - want))
        right = same | (distance <= allowed.scaled * scale + allowed.relative * np.abs(want))
        relative_distance = np.where(same, 0.0, distance / np.maximum(np.abs(want), np.finfo(np.float64).tiny))
    largest = float(distance.max(initial=0.0))
    largest_relative = float(relative_distance.max(initial=0.0))
    return Check(
        max_abs=largest if np.isfinite(largest) else None,
        max_rel=largest_relative if np.isfinite(largest_relative) else None,
        mismatches=int(np.count_nonzero(~right)),
        elements=expected.size,
        abs_tolerance=allowed.scaled * scale,
        rel_tolerance=allowed.relative,
    )


def worst(checks: list[Check]) -> Check:
    """One check for all outputs of a kernel."""
    absolute = [check.max_abs for check in checks]
    relative = [check.max_rel for check in checks]
    return Check(
        max_abs=None if None in absolute else max((value for value in absolute if value is not None), default=0.0),
        max_rel=None if None in relative else max((value for value in relative if value is not None), default=0.0),
        mismatches=sum(check.mismatches for check in checks),
        elements=sum(check.elements for check in checks),
        abs_tolerance=max((check.abs_tolerance for check in checks), default=0.0),
        rel_tolerance=max((check.rel_tolerance for check in checks), default=0.0),
    )


def _random(generator: np.random.Generator, shape: list[int], dtype: str) -> np.ndarray[Any, Any]:
    """Random values; integers of 32 and 64 bits, which may be indices or divisors, are 1."""
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype in ("int8", "uint8", "int16", "uint16"):
        return generator.integers(1, 8, shape).astype(dtype)
    if dtype.startswith(("int", "uint")):
        return np.ones(shape, dtype)
    return generator.standard_normal(shape, dtype=np.float32).astype(_numpy_dtype(dtype))


def _poisoned(shape: Any, dtype: str) -> np.ndarray[Any, Any]:
    """What an output holds before a kernel runs: a value that no kernel writes by chance, so that what it leaves out shows."""
    wide = _numpy_dtype(dtype)
    raw = np.full(int(np.prod(shape)) * wide.itemsize, _POISON, np.uint8)
    return raw.view(np.uint8).view(wide).reshape(tuple(shape)) if wide != np.bool_ else np.zeros(tuple(shape), np.bool_)


def _numpy_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))
