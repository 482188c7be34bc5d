"""Candidates are built and measured in processes of their own: right ones get times, and whatever a wrong one does costs that one alone."""

from __future__ import annotations

import math
import os
import shutil
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import psutil
import pytest
import tvm
from tvm import te, topi

from workbench.engines import timing
from workbench.engines.arrays import difference, poisoned, telling, worst
from workbench.engines.reference import KernelFacts, Reference
from workbench.engines.relax.build import with_default_schedules
from workbench.engines.relax.search import build_job, measure_job
from workbench.engines.relax.search.evaluator import RelaxEvaluator
from workbench.engines.search_protocol import Artifact, Candidate, Failed, Measured
from workbench.engines.targets import resolve_target, to_tvm
from workbench.errors import Interrupted
from workbench.isolation import Message
from workbench.records.trial import (
    BUILD_ERROR,
    BUILD_TIMEOUT,
    RUN_ERROR,
    RUN_TIMEOUT,
    WRONG_RESULT,
    Check,
    MeasureOptions,
)

CPU = resolve_target("cpu", threads=2)
QUICK = MeasureOptions(min_repeat_ms=1.0, repeat=5, timeout_s=4.0)
SIZE = 256
SLEEP_US = 120_000
pytestmark = pytest.mark.tvm

PLUS_ONE = "b[i] = a[i] + T.float32(1)"


def kernel(*lines: str, tensors: Sequence[tuple[Sequence[int], str]] = (((SIZE,), "float32"), ((SIZE,), "float32"))) -> Any:
    """A kernel in TVMScript; its arguments are a, b, and so on."""
    arguments = ", ".join(f'{"abcdef"[place]}: T.Buffer({tuple(shape)}, "{dtype}")' for place, (shape, dtype) in enumerate(tensors))
    body = "\n".join(f"        {line}" for line in lines)
    source = f"""
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main({arguments}):
        T.func_attr({{"tirx.noalias": True}})
{body}
"""
    return tvm.script.from_source(source)


def each(*lines: str, size: int = SIZE) -> list[str]:
    return [f"for i in range({size}):", *(f"    {line}" for line in lines)]


def te_kernel(*tensors: Any) -> Any:
    return tvm.IRModule({"main": te.create_prim_func(tensors).with_attr("global_symbol", "main")})


def program(module: Any) -> bytes:
    return str(tvm.ir.save_json(module)).encode()


def candidate(module: Any, *, reference: Any = None) -> Candidate:
    return Candidate("", "0", "search", program(module), cpu_program=b"" if reference is None else program(reference))


class Lab:
    """An evaluator and what its tests share."""

    def __init__(self, folder: Path, **options: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.facts: dict[str, KernelFacts] = {}
        defaults = {"options": QUICK, "builders": 1, "seed": 0, "unmeasurable": "", "host": CPU}
        self.evaluator = RelaxEvaluator(options.pop("target", CPU), lambda name: self.facts[name], scratch=folder, **{**defaults, **options})

    def build(self, *modules: Any, reference: Any = None) -> list[Artifact | Failed]:
        built = dict(self.evaluator.build([candidate(module, reference=reference) for module in modules], stop=lambda: False))
        return [built[place] for place in range(len(modules))]

    def built(self, module: Any, *, reference: Any = None) -> Artifact:
        (artifact,) = self.build(module, reference=reference)
        assert isinstance(artifact, Artifact), artifact
        return artifact

    def set_reference(self, module: Any, *, name: str = "kernel", results: int = 1, reduction: int = 1) -> Artifact:
        parameters = module["main"].params
        tensors = tuple((tuple(int(size) for size in parameter.ty.shape), str(parameter.ty.dtype)) for parameter in parameters)
        self.facts[name] = KernelFacts(tensors, results=results, reduction=reduction)
        artifact = self.built(module, reference=module)
        self.evaluator.set_reference(name, artifact)
        return artifact

    def measure(self, module: Any, *, name: str = "kernel", best_us: float | None = None, **more: Any) -> Measured | Failed:
        return self.evaluator.measure(name, self.built(module), best_us=best_us, **{"check": True, **more})

    def check(self, module: Any, **more: Any) -> Check:
        measured = self.measure(module, timed=False, **more)
        assert isinstance(measured, Measured), measured
        assert measured.check is not None
        return measured.check

    def failure(self, module: Any, *, name: str = "kernel") -> Failed:
        failed = self.measure(module, name=name)
        assert isinstance(failed, Failed), failed
        return failed

    @property
    def processes(self) -> list[psutil.Process]:
        nursery = self.evaluator._nursery.pid  # noqa: SLF001 - what faults do to processes is what is tested
        return [] if nursery is None else [process for process in psutil.Process(nursery).children(recursive=True) if process.is_running()]

    @property
    def measurer(self) -> int:
        process = self.evaluator._process  # noqa: SLF001 - see above
        assert process is not None
        return process.pid

    @property
    def builders(self) -> list[psutil.Process]:
        measuring = self.evaluator._process  # noqa: SLF001 - see above
        return [process for process in self.processes if measuring is None or process.pid != measuring.pid]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("shared"))
    yield made
    family = made.processes
    made.evaluator.close()
    assert not any(is_alive(process) for process in family)


@pytest.fixture
def lab(shared: Lab) -> Lab:
    """The evaluator with the kernel that adds 1."""
    shared.set_reference(kernel(*each(PLUS_ONE)))
    return shared


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    made: list[Lab] = []

    def make(**options: Any) -> Lab:
        made.append(Lab(tmp_path / str(len(made)), **options))
        return made[-1]

    yield make
    for one in made:
        family = one.processes
        one.evaluator.close()
        assert not any(is_alive(process) for process in family)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def assert_fine(lab: Lab) -> None:
    measured = lab.measure(kernel(*each(PLUS_ONE)))
    assert isinstance(measured, Measured), measured
    assert measured.check is not None
    assert measured.check.passed
    assert measured.times_us


# right candidates


def test_a_right_candidate_is_checked_and_has_plausible_times(lab: Lab) -> None:
    measured = lab.measure(kernel("for i in T.vectorized(256):", "    b[i] = a[i] + T.float32(1)"))
    assert isinstance(measured, Measured)
    assert measured.check == Check(0.0, 0.0, 0, SIZE, measured.check.abs_tolerance, measured.check.rel_tolerance)
    assert measured.check.abs_tolerance > 0
    assert 1 <= len(measured.times_us) <= QUICK.repeat
    assert min(measured.times_us) > 0.001
    assert statistics.median(measured.times_us) < 1000
    assert measured.runs > 1
    assert 0 < measured.run_s < 5


def test_the_baseline_is_timed_without_a_check(lab: Lab) -> None:
    measured = lab.evaluator.measure("kernel", lab.set_reference(kernel(*each(PLUS_ONE))), best_us=None, check=False)
    assert isinstance(measured, Measured)
    assert measured.check is None
    assert len(measured.times_us) >= 3


def test_a_candidate_can_be_checked_without_being_timed(lab: Lab) -> None:
    measured = lab.measure(kernel(*each(PLUS_ONE)), timed=False)
    assert isinstance(measured, Measured)
    assert measured.times_us == ()
    assert measured.check is not None


DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool"]


def copying(dtype: str, *, size: int = SIZE) -> list[str]:
    return each("b[i] = a[i]", size=size)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_right_candidate_passes_and_one_that_writes_nothing_fails_in_every_type(shared: Lab, dtype: str) -> None:
    tensors = (((SIZE,), dtype), ((SIZE,), dtype))
    shared.set_reference(kernel(*copying(dtype), tensors=tensors), name=dtype)
    assert shared.check(kernel(*copying(dtype), tensors=tensors), name=dtype).passed
    check = shared.check(kernel("T.evaluate(0)", tensors=tensors), name=dtype)
    assert (check.mismatches, check.elements) == (SIZE, SIZE)
    one_less = shared.check(kernel(*copying(dtype, size=SIZE - 1), tensors=tensors), name=dtype)
    assert one_less.mismatches == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_arithmetic_in_16_bits_runs_also_for_a_processor_without_its_instructions(make_lab: Callable[..., Lab], dtype: str) -> None:
    plain = resolve_target('{"kind": "llvm", "mcpu": "x86-64", "num-cores": 2}', threads=2)
    lab = make_lab(target=plain)
    data = te.placeholder((SIZE,), dtype, name="data")
    module = te_kernel(data, te.compute((SIZE,), lambda i: te.exp(data[i]) + data[i] * data[i], name="out"))
    lab.set_reference(module)
    assert lab.check(module).passed


@pytest.mark.parametrize("function", ["exp", "tanh", "erf", "sin", "log", "sqrt", "sigmoid", "atan2", "pow", "floor"])
def test_functions_of_the_mathematical_library_are_found_when_the_kernel_is_loaded(shared: Lab, function: str) -> None:
    data = te.placeholder((64,), name="data")
    two = {"pow": lambda x: te.power(x, x), "atan2": lambda x: tvm.tirx.atan2(x, x + 1.0)}
    call = two.get(function) or getattr(te, function, None) or getattr(tvm.tirx, function)
    module = te_kernel(data, te.compute((64,), lambda i: call(data[i]), name="out"))
    shared.set_reference(module, name=function)
    assert shared.check(module, name=function).passed


@pytest.mark.parametrize(
    ("tensors", "lines", "results"),
    [
        ((((), "float32"), ((), "float32")), ["b[()] = a[()] + T.float32(1)"], 1),
        ((((0,), "float32"), ((0,), "float32")), ["T.evaluate(0)"], 1),
        ((((3, 0, 2), "int64"), ((4,), "int64")), each("b[i] = T.int64(7)", size=4), 1),
        ((((8,), "float32"),), each("a[i] = T.float32(2)", size=8), 1),
        ((((8,), "float32"), ((8,), "int32"), ((), "bool")), [*each("b[i] = T.int32(2)", size=8), "c[()] = a[0] < T.float32(100)"], 2),
        ((((8,), "float32"), ((8,), "float32")), each("a[i] = T.float32(2)", "b[i] = T.float32(3)", size=8), 2),
    ],
    ids=["no dimensions", "no elements", "no elements to read", "no inputs", "several outputs", "several outputs and no inputs"],
)
def test_kernels_of_unusual_arguments_are_checked_and_timed(shared: Lab, tensors: Any, lines: list[str], results: int) -> None:
    module = kernel(*lines, tensors=tensors)
    shared.set_reference(module, name="unusual", results=results)
    measured = shared.measure(module, name="unusual")
    assert isinstance(measured, Measured), measured
    assert measured.check is not None
    assert measured.check.passed
    assert measured.check.elements == sum(math.prod(shape) for shape, _ in tensors[-results:])
    assert measured.times_us


def test_of_several_outputs_each_is_compared(shared: Lab) -> None:
    tensors = (((8,), "float32"), ((8,), "int32"), ((8,), "float32"))
    shared.set_reference(kernel(*each("b[i] = 2", "c[i] = a[i]", size=8), tensors=tensors), name="two", results=2)
    for line, wrong in (("b[i] = 3", 8), ("c[i] = a[i] + T.float32(1)", 8), ("b[i] = T.if_then_else(i == 5, 1, 2)", 1)):
        other = "c[i] = a[i]" if line.startswith("b") else "b[i] = 2"
        assert shared.check(kernel(*each(line, other, size=8), tensors=tensors), name="two").mismatches == wrong


def test_a_kernel_that_works_in_place_starts_from_the_same_contents_each_time(shared: Lab) -> None:
    tensors = (((8,), "float32"), ((8,), "float32"))
    module = kernel(*each("b[i] = a[i] * T.float32(3)", "a[i] = a[i] + T.float32(1)", size=8), tensors=tensors)
    shared.set_reference(module, name="in place")
    for _ in range(2):
        measured = shared.measure(module, name="in place")
        assert isinstance(measured, Measured), measured
        assert measured.check is not None
        assert (measured.check.mismatches, measured.check.elements) == (0, 16)
    half = kernel(*each("b[i] = a[i] * T.float32(3)", size=8), tensors=tensors)
    assert shared.check(half, name="in place").mismatches == 8


def test_indices_and_divisors_stay_in_their_range(shared: Lab) -> None:
    tensors = (((2, 4), "float32"), ((8,), "int32"), ((8,), "int64"), ((8,), "float32"))
    module = kernel(*each("d[i] = a[b[i], 3] + T.Cast('float32', T.int64(12) // c[i])", size=8), tensors=tensors)
    shared.set_reference(module, name="gather")
    assert shared.check(module, name="gather").passed


def test_kernels_of_positive_numbers_get_positive_inputs(shared: Lab) -> None:
    data = te.placeholder((64, 8), name="data")
    k = te.reduce_axis((0, 8), name="k")
    root = te.compute((64, 8), lambda i, j: te.sqrt(data[i, j]), name="root")
    module = te_kernel(data, te.compute((64,), lambda i: te.sum(root[i, k], axis=k), name="out"))
    shared.set_reference(module, name="root")
    check = shared.check(te_kernel(data, te.compute((64,), lambda i: data[i, 0] - data[i, 0], name="zero")), name="root")
    assert check.mismatches == 64
    assert check.max_abs is not None


# what is compared, and how


def test_differences_are_given_as_they_are(lab: Lab) -> None:
    check = lab.check(kernel(*each("b[i] = a[i] + T.if_then_else(i % 2 == 0, T.float32(1), T.float32(3))")))
    assert check.mismatches == SIZE // 2
    assert check.max_abs == pytest.approx(2.0, rel=1e-5)
    random = np.random.default_rng(0).standard_normal(SIZE, dtype=np.float32)[1::2]
    assert check.max_rel == pytest.approx(float((2.0 / np.abs(random + 1)).max()), rel=1e-3)
    assert not check.passed


def test_a_wrong_candidate_is_not_timed_and_the_next_one_is_fine(lab: Lab) -> None:
    assert_fine(lab)
    measurer = lab.measurer
    measured = lab.measure(kernel(*each("b[i] = a[i]")))
    assert isinstance(measured, Measured)
    assert measured.times_us == ()
    assert measured.check is not None
    assert not measured.check.passed
    assert_fine(lab)
    assert lab.measurer == measurer


def test_a_candidate_that_writes_nan_fails(lab: Lab) -> None:
    check = lab.check(kernel(*each("b[i] = T.if_then_else(i == 7, T.float32('nan'), a[i] + T.float32(1))")))
    assert (check.mismatches, check.max_abs, check.max_rel) == (1, None, None)
    assert_fine(lab)


F32 = np.float32


@pytest.mark.parametrize(
    ("found", "expected", "mismatches", "max_abs", "max_rel"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0, 0.0, 0.0),
        ([1.0, 3.0], [1.0, 2.0], 1, 1.0, 0.5),
        ([5.0, 2.0], [np.inf, 2.0], 1, None, None),
        ([-np.inf, 2.0], [np.inf, 2.0], 1, None, None),
        ([np.inf, np.nan], [np.inf, np.nan], 0, 0.0, 0.0),
        ([np.inf, 2.0], [1.0, 2.0], 1, None, None),
        ([np.nan, 2.0], [1.0, 2.0], 1, None, None),
        ([1.0, 2.0], [np.nan, 2.0], 1, None, None),
        ([1.0, 4.0], [0.0, 2.0], 2, 2.0, 1.0),
        ([1e-9, 1.0], [0.0, 1.0], 0, pytest.approx(1e-9), 0.0),
        ([0.0, -0.0], [-0.0, 0.0], 0, 0.0, 0.0),
        ([], [], 0, 0.0, 0.0),
    ],
)
def test_numbers_are_compared_with_a_tolerance(found: Any, expected: Any, mismatches: int, max_abs: Any, max_rel: Any) -> None:
    check = difference(np.array(found, F32), np.array(expected, F32), 1)
    assert (check.mismatches, check.max_abs, check.max_rel, check.elements) == (mismatches, max_abs, max_rel, len(expected))


def test_integers_have_to_be_equal() -> None:
    check = difference(np.array([2**53 + 1, 5, -4], np.int64), np.array([2**53, 5, 4], np.int64), 1)
    assert (check.mismatches, check.max_abs, check.max_rel) == (2, 8.0, 2.0)
    assert (check.abs_tolerance, check.rel_tolerance) == (0.0, 0.0)
    small = difference(np.array([200], np.uint8), np.array([100], np.uint8), 1)
    assert (small.max_abs, small.max_rel) == (100.0, 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_poison_is_never_within_the_tolerance_of_zeros_or_large_numbers(dtype: str) -> None:
    wide = np.dtype(getattr(ml_dtypes, dtype, dtype))
    for value in (0, 1, 100):
        expected = np.full(4, value, np.float32).astype(wide)
        assert difference(telling(poisoned((4,), dtype), expected), expected, 10**6).mismatches == 4


def test_poison_shows_where_a_nan_is_expected_and_is_right_where_nothing_is_written() -> None:
    expected = np.array([1.0, np.nan, 0.0], np.float32)
    expected[2:] = poisoned((1,), "float32")
    assert difference(telling(poisoned((3,), "float32"), expected), expected, 1).mismatches == 2


def test_one_check_stands_for_all_outputs() -> None:
    checks = [Check(1.0, None, 1, 10, 0.1, 0.2), Check(3.0, 2.0, 0, 5, 0.3, 0.1)]
    assert worst(checks) == Check(3.0, None, 1, 15, 0.3, 0.2)
    assert worst([]) == Check(0.0, 0.0, 0, 0, 0.0, 0.0)


# planted faults

FAULTS = {
    "abort": (["T.evaluate(T.call_extern('int32', 'abort'))"], RUN_ERROR, "The measuring process died with SIGABRT."),
    "wild address": (["T.evaluate(T.call_extern('int32', 'strlen', T.int64(64)))"], RUN_ERROR, "The measuring process died with SIGSEGV."),
    "exit": (["T.evaluate(T.call_extern('int32', 'exit', 3))"], RUN_ERROR, "The measuring process ended with exit code 3."),
    "stopped": (["T.evaluate(T.call_extern('int32', 'raise', 9))"], RUN_ERROR, "The measuring process was killed (out of memory?)."),
    "unknown function": (["T.evaluate(T.call_extern('int32', 'no_such_function'))"], RUN_ERROR, "undefined symbol: no_such_function"),
    "unknown packed function": (["T.evaluate(T.call_packed('no.such.function'))"], RUN_ERROR, "no.such.function"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_candidate_that_crashes_costs_one_trial(lab: Lab, name: str) -> None:
    lines, status, text = FAULTS[name]
    (built,) = lab.build(kernel(*lines, *each(PLUS_ONE)))
    failed = built if isinstance(built, Failed) else lab.evaluator.measure("kernel", built, best_us=None, check=True)
    assert isinstance(failed, Failed), failed
    assert failed.status == status or name == "unknown function"
    assert text in failed.error
    assert failed.seconds > 0
    assert_fine(lab)
    assert len(lab.processes) == 2


def test_a_candidate_that_writes_to_its_input_is_wrong_and_spoils_nothing(lab: Lab) -> None:
    failed = lab.failure(kernel(*each(PLUS_ONE, "a[i] = T.float32(0)")))
    assert (failed.status, failed.error) == (WRONG_RESULT, "The kernel writes to what it should only read: argument 0.")
    assert_fine(lab)


def test_a_candidate_that_writes_to_its_input_is_found_out_unless_it_is_hopeless(lab: Lab) -> None:
    artifact = lab.built(kernel(f"T.evaluate(T.call_extern('int32', 'usleep', {SLEEP_US}))", *each(PLUS_ONE, "a[i] = T.float32(0)")))
    failed = lab.evaluator.measure("kernel", artifact, best_us=SLEEP_US / 1.15, check=True)
    assert isinstance(failed, Failed), failed
    assert failed.status == WRONG_RESULT
    hopeless = lab.evaluator.measure("kernel", artifact, best_us=SLEEP_US / 2, check=True)
    assert isinstance(hopeless, Measured), hopeless
    assert_fine(lab)


def test_the_measurer_is_ended_by_nobody_while_another_one_uses_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    end, lock = lab.evaluator._end_process, lab.evaluator._measuring  # noqa: SLF001 - what threads do to each other shows nowhere else
    was_free: list[bool] = []

    def look() -> None:
        was_free.append(lock.acquire(blocking=False))
        if was_free[-1]:
            lock.release()

    def look_and_end() -> None:
        other = threading.Thread(target=look)
        other.start()
        other.join()
        end()

    monkeypatch.setattr(lab.evaluator, "_end_process", look_and_end)
    assert lab.failure(kernel(*each(PLUS_ONE, "a[i] = T.float32(0)"))).status == WRONG_RESULT
    assert was_free == [False, False]  # a candidate is blamed for what it does in a new process only


def test_a_right_candidate_is_not_blamed_for_what_an_earlier_one_spoilt(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_fine(lab)
    path = lab.built(kernel(*each(PLUS_ONE))).path
    facts = lab.facts["kernel"]
    # Inputs as large as not to be guarded: another reference under the same name stands for what an earlier candidate did to them.
    other = {"do": "reference", "kernel": "kernel", "path": str(path), "results": facts.results, "reduction": 1, "seed": 1}
    tensors = [{"shape": list(shape), "dtype": dtype} for shape, dtype in facts.tensors]
    spoil = lab.built(kernel(*each("b[i] = a[i]")))
    assert lab.evaluator._process is not None  # noqa: SLF001 - only a fault inside of the process can spoil it
    values = {**other, "path": str(spoil.path), "tensors": tensors, "device_kind": "cpu", "device": 0}
    lab.evaluator._process.call(Message(values), 5.0)  # noqa: SLF001 - see above
    measurer = lab.measurer
    other_path = spoil.path.with_suffix(".copy")
    shutil.copy(path, other_path)
    other_path.replace(spoil.path)  # the untuned kernel is still what it was
    assert_fine(lab)
    assert lab.measurer != measurer


def test_a_candidate_that_hangs_is_ended_in_time(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(options=MeasureOptions(timeout_s=0.5, min_repeat_ms=1.0, repeat=3))
    lab.set_reference(kernel(*each(PLUS_ONE)))
    started = time.monotonic()
    failed = lab.failure(kernel("T.evaluate(T.call_extern('int32', 'pause'))", *each(PLUS_ONE)))
    assert failed.status == RUN_TIMEOUT
    assert failed.error == "The kernel did not end within 0.5 s."
    assert 0.5 <= failed.seconds < 5
    assert time.monotonic() - started < 15
    assert_fine(lab)
    assert len(lab.processes) <= 2


def test_a_candidate_that_takes_all_memory_costs_one_trial(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(memory_bytes=3 * 2**29)
    lab.set_reference(kernel(*each(PLUS_ONE)))
    size = 2**26
    fresh = f"T.call_extern('handle', 'mmap', T.int64(0), T.int64({size}), 3, 0x22, -1, T.int64(0))"
    greedy = kernel("for j in range(100000):", f"    T.evaluate(T.call_extern('int32', 'memset', {fresh}, 1, T.int64(1)))", *each(PLUS_ONE))
    assert lab.failure(greedy).error.startswith("The measuring process died with SIGSEGV.")
    step = 2**22
    huge = f"c = T.alloc_buffer(({step * SIZE},), 'float32')"
    workspace = kernel(huge, *each(f"c[i * {step}] = a[i]"), *each(f"b[i] = c[i * {step}] + T.float32(1)"))
    assert lab.failure(workspace).status == RUN_ERROR
    assert_fine(lab)


def test_a_killed_measurer_costs_at_most_the_trial_that_runs(lab: Lab) -> None:
    assert_fine(lab)
    for _ in range(2):
        measurer = lab.measurer
        os.kill(measurer, signal.SIGKILL)
        assert_fine(lab)
        assert lab.measurer != measurer


def test_a_measurer_that_is_killed_during_a_trial_is_replaced(lab: Lab, tmp_path: Path) -> None:
    assert_fine(lab)
    # The kernel makes a file, so that the killer knows that it runs, and waits for its end.
    mark = tmp_path / "runs"
    slow = lab.built(kernel(f"T.evaluate(T.call_extern('int32', 'creat', '{mark}', 448))", "T.evaluate(T.call_extern('int32', 'pause'))"))
    measurer = lab.measurer

    def kill() -> None:
        while not mark.exists():
            time.sleep(0.002)
        os.kill(measurer, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    failed = lab.evaluator.measure("kernel", slow, best_us=None, check=True)
    killer.join()
    assert isinstance(failed, Failed)
    assert (failed.status, failed.error) == (RUN_ERROR, "The measuring process was killed (out of memory?).")
    assert_fine(lab)


def test_a_baseline_that_crashes_says_so_for_every_candidate(shared: Lab) -> None:
    shared.set_reference(kernel("T.evaluate(T.call_extern('int32', 'abort'))"), name="crash")
    for _ in range(2):
        failed = shared.failure(kernel(*each(PLUS_ONE)), name="crash")
        assert failed.status == RUN_ERROR
        assert failed.error.startswith("The untuned kernel does not run: The measuring process died with SIGABRT.")
    shared.set_reference(kernel(*each(PLUS_ONE)))
    assert_fine(shared)


# building


def test_a_build_that_raises_costs_one_candidate(lab: Lab) -> None:
    good = kernel(*each(PLUS_ONE))
    broken = kernel(*each("b[i] = T.fmod(a[i], T.float32(2))"))  # TVM has no code for it
    first, failed, last = lab.build(good, broken, good)
    assert isinstance(first, Artifact)
    assert isinstance(last, Artifact)
    assert isinstance(failed, Failed)
    assert failed.status == BUILD_ERROR
    assert "Traceback" in failed.error
    assert failed.seconds > 0
    garbage = Candidate("", "0", "search", b"nonsense")
    ((_, outcome),) = lab.evaluator.build([garbage], stop=lambda: False)
    assert isinstance(outcome, Failed)
    assert outcome.status == BUILD_ERROR
    assert sorted(path.suffix for path in lab.folder.iterdir() if path.suffix != ".so") == []


def endless() -> Any:
    """A kernel that takes minutes to compile."""
    return kernel("for j in T.unroll(1000000):", *(f"    {line}" for line in each("b[i] = b[i] * a[i] + a[j % 256]", size=2)))


def test_a_build_that_takes_too_long_is_ended(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(options=MeasureOptions(build_timeout_s=0.7, min_repeat_ms=1.0, repeat=3))
    lab.set_reference(kernel(*each(PLUS_ONE)))
    failed, good = lab.build(endless(), kernel(*each(PLUS_ONE)))
    assert isinstance(failed, Failed)
    assert (failed.status, failed.error) == (BUILD_TIMEOUT, "Building took more than 0.7 s.")
    assert isinstance(good, Artifact)
    assert_fine(lab)


def test_a_build_that_takes_all_memory_costs_one_candidate(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(memory_bytes=3 * 2**27)
    lab.set_reference(kernel(*each(PLUS_ONE)))
    failed, good = lab.build(endless(), kernel(*each(PLUS_ONE)))
    assert isinstance(failed, Failed)
    assert failed.status == BUILD_ERROR
    assert "memory" in failed.error or "bad_alloc" in failed.error, failed.error
    assert isinstance(good, Artifact)
    assert_fine(lab)


def test_a_killed_builder_costs_one_candidate(lab: Lab) -> None:
    asked = 0
    killed: list[int] = []

    def kill() -> bool:
        """Asked once before the first candidate is being built, and again and again while it is."""
        nonlocal asked
        asked += 1
        if asked > 1 and not killed and lab.builders:
            killed.extend(process.pid for process in lab.builders)
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
        return False

    candidates = [candidate(endless()), candidate(kernel(*each(PLUS_ONE)))]
    built = dict(lab.evaluator.build(candidates, stop=kill))
    assert isinstance(built[0], Failed)
    assert (built[0].status, built[0].error) == (BUILD_ERROR, "The building process was killed (out of memory?).")
    assert isinstance(built[1], Artifact)
    assert_fine(lab)


def test_building_ends_when_it_is_told_to_stop(lab: Lab) -> None:
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    started = time.monotonic()
    assert list(lab.evaluator.build([candidate(endless())] * 3, stop=stop)) == []
    assert time.monotonic() - started < 10
    assert_fine(lab)


@pytest.mark.parametrize("linker", ["ld", None])
def test_libraries_are_linked_with_and_without_the_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, linker: str | None) -> None:
    monkeypatch.setattr(build_job, "_LINKER", shutil.which(linker) if linker else None)
    data = te.placeholder((8,), name="data")
    module = te_kernel(data, te.compute((8,), lambda i: te.tanh(data[i]), name="out"))
    path = tmp_path / "kernel.so"
    build_job.serve(Message({"target": CPU.to_dict(), "path": str(path), "for_cpu": False}, (program(module),)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["kernel.so"]
    out = tvm.runtime.tensor(np.zeros(8, np.float32))
    tvm.runtime.load_module(str(path))["main"](tvm.runtime.tensor(np.ones(8, np.float32)), out)
    np.testing.assert_allclose(out.numpy(), np.tanh(np.ones(8)), rtol=1e-5)


def test_a_linker_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "ld"
    script.write_text("#!/bin/sh\necho 'final link failed: No space left on device' >&2\nexit 1\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(build_job, "_LINKER", str(script))
    message = Message({"target": CPU.to_dict(), "path": str(tmp_path / "kernel.so"), "for_cpu": False}, (program(kernel(*each(PLUS_ONE))),))
    with pytest.raises(RuntimeError, match="ld failed: final link failed: No space left on device"):
        build_job.serve(message)
    assert [entry.name for entry in tmp_path.iterdir()] == ["ld"]


# how often, and how long


class Clock:
    """Stands for a library and TVM's evaluator of it: notes what it is asked, and answers with a time; called directly, it takes none."""

    def __init__(self, time_us: Callable[[int], float]) -> None:
        self.asked: list[tuple[int, int, str]] = []
        self.calls = 0
        self._time_us = time_us

    def __getitem__(self, name: str) -> Callable[..., None]:
        return self._call

    def _call(self, *arguments: Any) -> None:
        self.calls += 1

    def time_evaluator(self, name: str, device: Any, *, number: int, repeat: int, f_preproc: str) -> Callable[..., Any]:
        self.asked.append((number, repeat, f_preproc))
        results = [self._time_us(number) / 1e6 for _ in range(repeat)]
        return lambda *arguments: SimpleNamespace(results=results)


def times(clock: Clock, *, best_us: float | None = None, first_us: float = 900.0, **options: Any) -> tuple[list[float], int]:
    """What is measured after a first run that took `first_us`; that of a quick kernel tells nothing."""
    asked = MeasureOptions(**options)
    runner = measure_job._Runner(clock, [], tvm.cpu(), asked.cache_flush)  # noqa: SLF001 - the policy of measuring, without its noise
    return timing.times(runner, options=asked, best_us=best_us, first_us=first_us)


def test_a_steady_kernel_gets_few_times_and_a_hopeless_one_a_single_one() -> None:
    assert times(Clock(lambda number: 2000.0), min_repeat_ms=10) == ([pytest.approx(2000.0)] * 4, 5)
    assert times(Clock(lambda number: 2000.0), best_us=1000.0) == ([pytest.approx(2000.0)], 1)
    assert len(times(Clock(lambda number: 2000.0), best_us=1700.0)[0]) == 4


def test_a_first_run_that_takes_many_times_the_best_is_the_only_one() -> None:
    clock = Clock(lambda number: 2000.0)
    assert times(clock, best_us=2000.0, first_us=5001.0) == ([5001.0], 1)
    assert times(clock, best_us=2000.0, first_us=5001.0, number=7) == ([5001.0], 1)
    assert (clock.asked, clock.calls) == ([], 0)
    assert times(clock, best_us=2000.0, first_us=4999.0) == ([pytest.approx(2000.0)] * 4, 5)  # perhaps a cold start


@pytest.mark.parametrize("options", [{}, {"number": 7}, {"cache_flush": True}])
def test_the_cold_start_of_a_quick_kernel_does_not_make_it_hopeless(options: dict[str, Any]) -> None:
    measured, runs = times(Clock(lambda number: 2.0), best_us=2.1, first_us=999.0, min_repeat_ms=10, **options)
    assert len(measured) >= 3
    assert measured == [pytest.approx(2.0)] * len(measured)
    assert runs == (1 if "cache_flush" in options else options.get("number", 5000))


def test_a_slow_kernel_is_called_directly_and_its_first_run_counts() -> None:
    clock = Clock(lambda number: 60_000.0)
    measured, runs = times(clock, first_us=60_000.0, repeat=4, min_repeat_ms=50, timeout_s=60)
    assert (measured[0], len(measured), runs) == (60_000.0, 4, 1)
    assert (clock.asked, clock.calls) == ([], 3)
    assert times(clock, first_us=60_000.0, best_us=47_000.0) == ([60_000.0], 1)


def test_of_a_slow_kernel_the_number_of_runs_and_cold_caches_are_honoured_too() -> None:
    clock = Clock(lambda number: 60_000.0)
    assert times(clock, first_us=60_000.0, number=7, repeat=2, min_repeat_ms=500, timeout_s=60) == ([pytest.approx(60_000.0)] * 2, 7)
    assert {number for number, _, _ in clock.asked} == {7}
    cold = Clock(lambda number: 60_000.0)
    measured, runs = times(cold, first_us=90_000.0, best_us=30_000.0, cache_flush=True)
    assert (measured, runs) == ([pytest.approx(60_000.0)], 1)
    assert {(number, flush) for number, _, flush in cold.asked} == {(1, "cache_flush_cpu_non_first_arg")}
    assert (clock.calls, cold.calls) == (0, 0)


def test_a_contender_with_noise_gets_as_many_times_as_are_allowed() -> None:
    noise = iter(np.tile([2000.0, 2400.0, 1700.0, 2200.0, 1900.0], 20))
    assert len(times(Clock(lambda number: float(next(noise))), best_us=2000.0, repeat=10)[0]) >= 6


def test_a_quick_kernel_is_not_given_up_for_what_the_clock_and_the_call_take() -> None:
    clock = Clock(lambda number: 20.0 if number == 1 else 2.0)
    measured, runs = times(clock, best_us=2.1, min_repeat_ms=10)
    assert measured == [pytest.approx(2.0)] * 4
    assert runs == 5000
    assert clock.asked[1][0] == 50
    assert len(times(Clock(lambda number: 20.0), best_us=2.1)[0]) == 1


def test_the_number_of_runs_is_the_users_if_given() -> None:
    clock = Clock(lambda number: 5.0)
    assert times(clock, number=7)[1] == 7
    assert {number for number, _, _ in clock.asked} == {1, 7}
    assert times(Clock(lambda number: 5000.0), number=1) == ([pytest.approx(5000.0)] * 4, 1)


def test_repeat_and_the_least_duration_are_honoured() -> None:
    assert len(times(Clock(lambda number: 2000.0), repeat=1)[0]) == 1
    assert len(times(Clock(lambda number: 2000.0), repeat=2)[0]) == 2
    assert times(Clock(lambda number: 100.0), min_repeat_ms=50)[1] == 500


def test_with_cold_caches_each_time_is_one_run_after_a_flush() -> None:
    clock = Clock(lambda number: 5.0)
    measured, runs = times(clock, cache_flush=True, number=50)
    assert runs == 1
    assert len(measured) >= 3
    assert {(number, flush) for number, _, flush in clock.asked} == {(1, "cache_flush_cpu_non_first_arg")}


def test_options_reach_the_measurer(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(options=MeasureOptions(number=3, repeat=2, cooldown_ms=150.0, cache_flush=False))
    lab.set_reference(kernel(*each(PLUS_ONE)))
    measured = lab.measure(kernel(*each(PLUS_ONE)))
    assert isinstance(measured, Measured)
    assert (len(measured.times_us), measured.runs) == (2, 3)
    assert measured.run_s >= 0.15
    flushed = make_lab(options=MeasureOptions(cache_flush=True, repeat=3))
    flushed.set_reference(kernel(*each(PLUS_ONE)))
    cold = flushed.measure(kernel(*each(PLUS_ONE)))
    assert isinstance(cold, Measured)
    assert (len(cold.times_us), cold.runs) == (3, 1)


def slow(time_us: int = SLEEP_US) -> Any:
    return kernel(f"T.evaluate(T.call_extern('int32', 'usleep', {time_us}))", *each(PLUS_ONE))


def test_the_limit_grows_with_the_time_of_the_untuned_kernel(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(options=MeasureOptions(timeout_s=0.2, repeat=3))
    baseline = lab.set_reference(slow())
    measured = lab.evaluator.measure("kernel", baseline, best_us=None, check=False)
    assert isinstance(measured, Measured), measured
    assert measured.runs == 1
    assert statistics.median(measured.times_us) == pytest.approx(SLEEP_US, rel=0.2)
    compared = lab.evaluator.compare("kernel", [baseline, lab.built(slow(SLEEP_US // 2))], rounds=5)
    assert not isinstance(compared, Failed), compared
    assert len(compared[0]) == 3  # slow ones get fewer rounds
    assert 3 <= len(compared[1]) <= 4
    hopeless = lab.evaluator.compare("kernel", [lab.built(slow(3 * SLEEP_US)), lab.built(kernel(*each(PLUS_ONE)))], rounds=2)
    assert not isinstance(hopeless, Failed), hopeless
    assert [len(row) for row in hopeless] == [1, 2]


@pytest.mark.parametrize(("options", "runs"), [({"number": 3}, 3), ({"cache_flush": True}, 1)])
def test_slow_kernels_are_compared_as_the_options_say(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], runs: int) -> None:
    clock = Clock(lambda number: 60_000.0)
    kept = measure_job._Kept("", [], Reference({}, {}, {}, 1, 0.0))  # noqa: SLF001 - what is known of a kernel
    monkeypatch.setattr(measure_job, "_references", {"kernel": kept})
    monkeypatch.setattr(measure_job, "_load", lambda path: clock)
    monkeypatch.setattr(measure_job._Runner, "once", lambda self: 90_000.0)  # noqa: SLF001 - see above
    values = {"kernel": "kernel", "paths": ["a"], "options": MeasureOptions(**options).to_dict(), "device_kind": "cpu", "device": 0, "rounds": 5}
    probe = measure_job.serve(Message({**values, "do": "probe"})).values
    clock.asked.clear()
    question = {**values, "do": "compare", "rounds": probe["rounds"], "numbers": probe["numbers"], "expected_us": probe["times_us"]}
    (row,) = measure_job.serve(Message(question)).values["times_us"]
    assert row == [pytest.approx(60_000.0)] * probe["rounds"][0]
    flush = "cache_flush_cpu_non_first_arg" if "cache_flush" in options else ""
    assert clock.asked == [(runs, 1, flush)] * len(row)


def test_artifacts_are_compared_by_turns(lab: Lab) -> None:
    fast, slower = lab.built(kernel(*each(PLUS_ONE))), lab.built(slow(2000))
    compared = lab.evaluator.compare("kernel", [fast, slower, fast], rounds=4)
    assert not isinstance(compared, Failed), compared
    assert [len(row) for row in compared] == [4, 4, 4]
    assert all(time_us >= 2000 for time_us in compared[1])
    assert max(compared[0] + compared[2]) < 2000
    crash = lab.built(kernel("T.evaluate(T.call_extern('int32', 'abort'))"))
    failed = lab.evaluator.compare("kernel", [fast, crash], rounds=2)
    assert isinstance(failed, Failed)
    assert failed.status == RUN_ERROR
    assert_fine(lab)


def test_more_tasks_than_the_measurer_remembers_can_take_turns(shared: Lab) -> None:
    count = measure_job._MOST_REFERENCES + 2  # noqa: SLF001 - the bound is what is tested
    modules = [kernel(*each(f"b[i] = a[i] + T.float32({index})")) for index in range(count)]
    for index, module in enumerate(modules):
        shared.set_reference(module, name=f"task {index}")
    for _ in range(2):
        for index, module in enumerate(modules):
            assert shared.check(module, name=f"task {index}").passed
            assert shared.check(modules[index - 1], name=f"task {index}").mismatches == SIZE


def test_the_measurer_keeps_no_library_that_it_is_done_with(lab: Lab) -> None:
    for _ in range(3):
        assert_fine(lab)
    assert_fine(lab)
    failed = lab.evaluator.compare("kernel", [Artifact(lab.folder / "none.so", 0.0)], rounds=1)
    assert isinstance(failed, Failed)
    maps = Path(f"/proc/{lab.measurer}/maps").read_text(encoding="utf-8")
    assert str(lab.folder) not in maps


def test_the_measurer_forgets_kernels_that_take_too_much_memory(shared: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = str(shared.built(kernel(*each(PLUS_ONE))).path)
    monkeypatch.setattr(measure_job, "_MOST_BYTES", 10 * SIZE * 4)
    monkeypatch.setattr(measure_job, "_references", {})
    tensors = [{"shape": [SIZE], "dtype": "float32"}] * 2
    values = {"do": "reference", "path": path, "tensors": tensors, "results": 1, "reduction": 1, "seed": 0, "device_kind": "cpu", "device": 0}
    forgotten = [measure_job.serve(Message({**values, "kernel": name})).values["forgotten"] for name in ("a", "b", "a", "c")]
    assert forgotten == [[], [], [], ["b"]]


# ends


def test_closing_from_another_thread_ends_what_is_measured_and_what_is_built(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(options=MeasureOptions(timeout_s=60.0))
    lab.set_reference(kernel(*each(PLUS_ONE)))
    assert_fine(lab)
    hang = lab.built(kernel("T.evaluate(T.call_extern('int32', 'pause'))"))
    outcomes: dict[str, Any] = {}

    def work(name: str, call: Callable[[], Any]) -> threading.Thread:
        def run() -> None:
            try:
                outcomes[name] = call()
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test looks at it
                outcomes[name] = error

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    asked = threading.Event()

    def stop() -> bool:
        asked.set()
        return False

    threads = [
        work("measure", lambda: lab.evaluator.measure("kernel", hang, best_us=None, check=True)),
        work("build", lambda: list(lab.evaluator.build([candidate(endless())], stop=stop))),
    ]
    assert asked.wait(10)
    family = lab.processes
    started = time.monotonic()
    lab.evaluator.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert time.monotonic() - started < 5
    assert not any(is_alive(process) for process in family)
    assert outcomes["build"] == []
    assert isinstance(outcomes["measure"], Interrupted)
    lab.evaluator.close()
    assert list(lab.evaluator.build([candidate(kernel(*each(PLUS_ONE)))], stop=lambda: False)) == []
    with pytest.raises(Interrupted):
        lab.evaluator.measure("kernel", hang, best_us=None, check=True)


def test_nothing_but_the_built_libraries_is_left_in_the_folder(lab: Lab) -> None:
    lab.build(kernel(*each(PLUS_ONE)))
    assert all(path.suffix == ".so" for path in lab.folder.iterdir())


# CUDA without a GPU

CUDA = resolve_target("cuda:sm_90", threads=2)


def scheduled_for_cuda(make: Callable[[Any], Any] | None = None) -> tuple[Any, Any]:
    """A product of matrices, and its default schedule for CUDA with a change."""
    a, b = te.placeholder((24, 32), name="a"), te.placeholder((32, 40), name="b")
    module = te_kernel(a, b, topi.matmul(a, b))
    scheduled = with_default_schedules(module, to_tvm(CUDA))
    return module, scheduled if make is None else make(scheduled)


@pytest.fixture(scope="module")
def gpu_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("cuda"), target=CUDA, unmeasurable="no CUDA device here")
    yield made
    made.evaluator.close()


def test_without_a_gpu_candidates_for_it_are_built_and_checked_on_the_processor(gpu_lab: Lab) -> None:
    module, scheduled = scheduled_for_cuda()
    assert gpu_lab.evaluator.unmeasurable == "no CUDA device here"
    assert gpu_lab.evaluator.exclusive
    gpu_lab.facts["kernel"] = KernelFacts((((24, 32), "float32"), ((32, 40), "float32"), ((24, 40), "float32")), results=1, reduction=32)
    ((_, baseline),) = gpu_lab.evaluator.build([candidate(scheduled, reference=module)], stop=lambda: False)
    assert isinstance(baseline, Artifact), baseline
    gpu_lab.evaluator.set_reference("kernel", baseline)
    check = gpu_lab.check(scheduled)
    assert check.passed
    assert check.elements == 24 * 40
    wrong = tvm.script.from_source(scheduled.script().replace("T.float32(0.0)", "T.float32(0.25)"))
    assert program(wrong) != program(scheduled)
    check = gpu_lab.check(wrong)
    assert check.mismatches == check.elements
    assert check.max_abs == pytest.approx(0.25, rel=1e-3)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
def test_what_ptxas_refuses_is_a_build_error_with_its_text(gpu_lab: Lab) -> None:
    size = 30000
    module = kernel(
        "for x in T.thread_binding(1, thread='blockIdx.x'):",
        "    for t in T.thread_binding(256, thread='threadIdx.x'):",
        "        with T.sblock('all'):",
        "            v = T.axis.spatial(256, t)",
        "            T.reads(a[v])",
        "            T.writes(b[v])",
        f"            s = T.alloc_buffer(({size},), 'float32', scope='shared')",
        f"            s[v * {size // 256}] = a[v]",
        f"            b[v] = s[v * {size // 256}] + T.float32(1)",
    )
    (failed,) = gpu_lab.build(module)
    assert isinstance(failed, Failed)
    assert failed.status == BUILD_ERROR
    assert "uses too much shared data" in failed.error


def test_a_gpu_schedule_without_threads_is_a_build_error(gpu_lab: Lab) -> None:
    (failed,) = gpu_lab.build(scheduled_for_cuda()[0])
    assert isinstance(failed, Failed)
    assert "no GPU schedule: main" in failed.error


def test_candidates_for_a_foreign_processor_are_checked_on_this_one(make_lab: Callable[..., Lab]) -> None:
    arm = resolve_target('{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 2}', threads=2)
    lab = make_lab(target=arm, unmeasurable="no aarch64 processor here")
    lab.set_reference(kernel(*each(PLUS_ONE)))
    assert lab.check(kernel(*each(PLUS_ONE))).passed
    assert lab.check(kernel(*each("b[i] = a[i]"))).mismatches == SIZE
