"""A search space has a name, keeps the layouts of the arguments, and loads no intrinsics that it does not need; a user's function is one too."""

from __future__ import annotations

import sys
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, topi
from tvm.s_tir import meta_schedule
from tvm.target import codegen

from workbench.cli.tune import _SCHEDULE_FUNCTION
from workbench.engines.relax import bundled_workloads, space
from workbench.engines.relax.build import unbound_kernels
from workbench.engines.relax.search.task_search import RelaxTaskSearch
from workbench.engines.relax.search_spaces import SearchSpace, make_space, space_names, user_space
from workbench.engines.relax.space import design_size, space_size, tilings
from workbench.engines.targets import resolve_target, to_tvm
from workbench.errors import ModelError, TargetError
from workbench.records.tuning import SPACES_OF
from workbench.workloads import load_schedule

INT8 = ("uint8", "int8", "int32")
DOT_PRODUCT = "vpdpbusd"


def cpu(mcpu: str = "x86-64", **options: Any) -> Any:
    return tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "num-cores": 2, **options})


def cuda(arch: str) -> Any:
    return to_tvm(resolve_target(f"cuda:{arch}", threads=2))


def module_of(*tensors: Any) -> Any:
    return tvm.IRModule({"main": te.create_prim_func(tensors).with_attr("global_symbol", "main")})


def matmul(dtypes: tuple[str, str, str] = ("float32", "float32", "float32"), size: int = 64, *, transposed: bool = True) -> Any:
    a, b = (te.placeholder((size, size), dtype, name=name) for name, dtype in zip("ab", dtypes[:2], strict=True))
    k = te.reduce_axis((0, size), name="k")

    def product(i: Any, j: Any) -> Any:
        return te.sum(a[i, k].astype(dtypes[2]) * (b[j, k] if transposed else b[k, j]).astype(dtypes[2]), axis=k)

    return module_of(a, b, te.compute((size, size), product, name="c"))


def sketches(search_space: SearchSpace, module: Any, target: Any) -> list[Any]:
    context = meta_schedule.TuneContext(module, target=target, space_generator=search_space.generator, num_threads=1, rand_state=1)
    return list(context.generate_design_space())


def postprocessed(search_space: SearchSpace, module: Any, target: Any) -> list[Any]:
    schedules = sketches(search_space, module, target)
    return [schedule for schedule in schedules if all(postproc.apply(schedule) for postproc in search_space.generator.postprocs)]


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (cpu(), ("default",)),
        (cpu("haswell"), ("default",)),
        (cpu("skylake-avx512"), ("default",)),
        (cpu("cascadelake"), ("default", "plain")),
        (cpu("sapphirerapids"), ("default", "plain")),
        (cpu("znver4"), ("default", "plain")),
        (cpu("alderlake"), ("default",)),
        (cpu("neoverse-n1", mtriple="aarch64-linux-gnu"), ("default",)),
        (cpu("sifive-x280", mtriple="riscv64-linux-gnu"), ("default",)),
        (cuda("sm_61"), ("default",)),
        (cuda("sm_70"), ("default", "tensorcore")),
        (cuda("sm_90a"), ("default", "tensorcore")),
        (cuda("sm_120"), ("default", "tensorcore")),
    ],
    ids=str,
)
def test_a_target_offers_the_spaces_that_it_has_instructions_for(target: Any, names: tuple[str, ...]) -> None:
    assert space_names(target) == names


def test_an_unknown_space_is_refused_with_the_names_that_there_are() -> None:
    for name, target, known in (("tensorcore", cuda("sm_61"), "default"), ("vnni", cuda("sm_80"), "default or tensorcore")):
        with pytest.raises(TargetError, match=f"no search space '{name}' for cuda") as caught:
            make_space(name, target)
        assert caught.value.remedy == f"Give {known}."


def test_every_space_that_a_target_offers_is_one_that_users_are_told_of() -> None:
    offered = {name for target in (cpu(), cpu("cascadelake"), cuda("sm_61"), cuda("sm_90")) for name in space_names(target)}
    assert offered == set(SPACES_OF["relax"])


def test_a_kind_without_rules_is_refused() -> None:
    with pytest.raises(TargetError, match="no search space for the kind c"):
        space_names(tvm.target.Target({"kind": "c"}))


def test_the_intrinsics_of_tensor_cores_are_loaded_on_demand_only(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(space.importlib, "import_module", loaded.append)
    make_space("default", cuda("sm_90"))
    user_space(lambda schedule: None, cuda("sm_90"))
    assert not loaded
    assert "tvm.s_tir.tensor_intrin" in sys.modules
    assert not hasattr(sys.modules["tvm.s_tir.tensor_intrin"], "__file__")
    space.prepare_intrinsics(cuda("sm_90"), tensor_cores=True)
    space.prepare_intrinsics(cpu(mtriple="riscv64-linux-gnu"))
    assert [name.rpartition(".")[2] for name in loaded] == ["cuda", "riscv_cpu"]


@pytest.mark.parametrize("dtypes", [("float32", "float32", "float32"), INT8])
@pytest.mark.parametrize("target", [cpu(), cpu("cascadelake"), cpu("skylake-avx512"), cuda("sm_75")], ids=str)
def test_the_default_space_is_the_one_whose_size_the_profile_shows(target: Any, dtypes: tuple[str, str, str]) -> None:
    module = matmul(dtypes)
    assert design_size(sketches(make_space("default", target), module, target), module) == space_size(module["main"], target)


@pytest.mark.parametrize("name", ["default", "plain"])
def test_no_space_changes_or_copies_the_weights_into_another_layout(name: str) -> None:
    target = cpu("cascadelake")
    data, weight = te.placeholder((1, 14, 14, 16), name="data"), te.placeholder((3, 3, 16, 32), name="weight")
    module = module_of(data, weight, topi.nn.conv2d_nhwc(data, weight, 1, 1, 1))
    assert list(module["main"].attrs["layout_free_buffers"]) == [1]
    schedules = postprocessed(make_space(name, target), module, target)
    assert schedules
    for schedule in schedules:
        assert [list(parameter.ty.shape) for parameter in schedule.mod["main"].params] == [[1, 14, 14, 16], [3, 3, 16, 32], [1, 14, 14, 32]]
        assert "layout_rewrite" not in schedule.mod.script()


def candidates_of(space_name: str, module: Any, target: Any, count: int) -> list[Any]:
    """Scheduled modules of one search, with random decisions."""
    task = RelaxTaskSearch(module["main"], target, lambda: make_space(space_name, target), seed=1)
    return [tvm.ir.load_json(candidate.program.decode()) for candidate in task.propose(count)]


def test_the_plain_space_leaves_the_instructions_for_dot_products_out() -> None:
    target = cpu("cascadelake")
    for name, expected in (("default", True), ("plain", False)):
        assert {DOT_PRODUCT in candidate.script() for candidate in candidates_of(name, matmul(INT8), target, 4)} == {expected}


@pytest.mark.parametrize("make", [lambda: matmul(INT8, transposed=False), lambda: matmul(("int8", "int8", "int32")), lambda: matmul(INT8, 30)])
def test_an_integer_kernel_that_the_instruction_does_not_fit_has_the_plain_space(make: Callable[[], Any]) -> None:
    target, module = cpu("cascadelake"), make()
    sizes = [design_size(sketches(make_space(name, target), module, target), module) for name in ("default", "plain")]
    assert sizes[0] == sizes[1]
    for candidate in candidates_of("default", module, target, 2):
        assert DOT_PRODUCT not in candidate.script()
        tvm.compile(candidate, target=target)


@pytest.mark.parametrize(
    "target",
    [
        cpu("skylake-avx512"),
        cpu("cascadelake"),
        cpu("alderlake"),
        cpu("neoverse-n1", mtriple="aarch64-linux-gnu"),
        cpu("sifive-x280", mtriple="riscv64-linux-gnu"),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtypes", [INT8, ("int8", "int8", "int32")])
def test_every_candidate_of_the_default_space_builds(target: Any, dtypes: tuple[str, str, str]) -> None:
    for candidate in candidates_of("default", matmul(dtypes), target, 3):
        tvm.compile(candidate, target=target)


def packed_convolution() -> Any:
    data, weight = te.placeholder((1, 1, 6, 6, 16), "uint8", name="data"), te.placeholder((2, 1, 3, 3, 4, 16, 4), "int8", name="weight")
    return module_of(data, weight, topi.nn.conv2d_NCHWc_int8(data, weight, 1, 1, 1, "NCHW16c", "NCHW16c", "int32"))


def padded_batch() -> Any:
    a, b = te.placeholder((2, 17, 32), "uint8", name="a"), te.placeholder((2, 48, 32), "int8", name="b")
    k = te.reduce_axis((0, 32), name="k")
    return module_of(a, b, te.compute((2, 17, 48), lambda n, i, j: te.sum(a[n, i, k].astype("int32") * b[n, j, k].astype("int32"), axis=k), name="c"))


@pytest.mark.skipif(not codegen.target_has_features("avx512vnni", to_tvm(resolve_target("cpu", threads=2))), reason="this CPU has no AVX-512 VNNI")
@pytest.mark.parametrize("make", [lambda: matmul(INT8), padded_batch, packed_convolution])
def test_dot_products_of_the_extremes_of_their_types_are_right(make: Callable[[], Any]) -> None:
    target, module, random = cpu("cascadelake"), make(), np.random.default_rng(0)
    shapes = [[int(size) for size in parameter.ty.shape] for parameter in module["main"].params]
    data, weight = random.choice([0, 1, 254, 255], shapes[0]).astype("uint8"), random.choice([-128, -127, 1, 127], shapes[1]).astype("int8")

    def run(scheduled: Any) -> Any:
        out = tvm.runtime.empty(shapes[2], "int32")
        tvm.compile(scheduled, target=target)["main"](tvm.runtime.tensor(data), tvm.runtime.tensor(weight), out)
        return out.numpy()

    expected = run(module)
    if expected.ndim < 5:
        np.testing.assert_array_equal(expected, data.astype("int32") @ weight.astype("int32").swapaxes(-1, -2))
    candidates = candidates_of("default", module, target, 6)
    assert any(DOT_PRODUCT in candidate.script() for candidate in candidates)  # a convolution that computes its padding in place cannot
    for candidate in candidates:
        np.testing.assert_array_equal(run(candidate), expected)


@pytest.mark.slow
def test_the_tensor_core_space_uses_tensor_cores_where_a_kernel_can() -> None:
    for arch in ("sm_70", "sm_90"):
        target = cuda(arch)
        for dtype, expected in (("float16", True), ("float32", False)):
            module = matmul((dtype, dtype, "float32"))
            schedules = postprocessed(make_space("tensorcore", target), module, target)
            assert schedules
            assert {"tvm_mma_sync" in schedule.mod.script() for schedule in schedules} == {expected}
    assert len(make_space("tensorcore", cuda("sm_70")).generator.sch_rules) == len(make_space("tensorcore", cuda("sm_75")).generator.sch_rules) - 1


def tiled(schedule: Any) -> None:
    block = schedule.get_sblock("c")
    i, j, k = schedule.get_loops(block)
    i_outer, i_inner = schedule.split(i, schedule.sample_perfect_tile(i, n=2, max_innermost_factor=16))
    j_outer, j_inner = schedule.split(j, schedule.sample_perfect_tile(j, n=2, max_innermost_factor=8))
    schedule.reorder(i_outer, j_outer, k, i_inner, j_inner)


def returned(schedule: Any) -> Any:
    tiled(schedule)
    return schedule


def several(schedule: Any) -> list[Any]:
    other = schedule.copy()
    tiled(schedule)
    return [schedule, other]


@pytest.mark.parametrize(("function", "size"), [(tiled, 5 * 4), (returned, 5 * 4), (several, 5 * 4 + 1)])
def test_a_function_of_the_user_is_a_space(function: Callable[[Any], Any], size: int) -> None:
    module, target = matmul(), cpu()
    assert tilings(64, 2, 16) * tilings(64, 2, 8) == 5 * 4
    search_space = user_space(function, target)
    assert search_space.name == function.__name__
    assert design_size(sketches(search_space, module, target), module) == size


def test_a_search_draws_from_a_function_of_the_user() -> None:
    module, target = matmul(), to_tvm(resolve_target("cpu", threads=2))
    strategy = meta_schedule.search_strategy.EvolutionarySearch(population_size=16, genetic_num_iters=1)
    generator = user_space(tiled, target).generator
    context = meta_schedule.TuneContext(
        module, target=target, space_generator=generator, search_strategy=strategy, task_name="main", num_threads=1, rand_state=1
    )
    model, database = meta_schedule.cost_model.RandomModel(), meta_schedule.database.MemoryDatabase()
    context.pre_tuning(8, 4, context.generate_design_space(), database, model)
    candidates = context.generate_measure_candidates()
    context.post_tuning()
    assert len({str(candidate.sch.trace) for candidate in candidates}) > 1
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((64, 64), np.float32) for _ in range(2))
    for candidate in candidates:
        out = tvm.runtime.empty((64, 64), "float32")
        tvm.compile(candidate.sch.mod, target=target)["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
        np.testing.assert_allclose(out.numpy(), a @ b.T, rtol=1e-4, atol=1e-4)


def test_blocks_that_a_function_of_the_user_leaves_unbound_get_threads_on_a_gpu() -> None:
    target, module = cuda("sm_75"), matmul()
    (schedule,) = postprocessed(user_space(lambda schedule: None, target), module, target)
    assert not unbound_kernels(schedule.mod)


def test_what_a_function_of_the_user_raises_comes_out() -> None:
    def fails(schedule: Any) -> None:
        raise KeyError("mine")

    target = cpu()
    search_space = user_space(fails, target)
    assert search_space.failure is None
    with pytest.raises(KeyError, match="mine"):
        sketches(search_space, matmul(), target)
    assert search_space.failure is not None
    line = fails.__code__.co_firstlineno + 1
    assert search_space.failure.message == f"The schedule function fails failed in {__file__}, line {line}: KeyError: 'mine'."


def write_function(folder: Path, body: str) -> Callable[[Any], Any]:
    """A schedule function in a file of the user's own, with a helper in another one."""
    (folder / "user_helper.py").write_text("def block(sch):\n    return sch.get_sblock('no_such_block')\n")
    (folder / "user_schedule.py").write_text(f"import user_helper\n\n\ndef tile(sch):\n    # the second line\n{textwrap.indent(body, '    ')}\n")
    function: Callable[[Any], Any] = load_schedule("user_schedule:tile")
    return function


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sch.get_sblock('no_such_block')", "line 6: ScheduleError: .*no_such_block"),
        ("user_helper.block(sch)", "line 6: ScheduleError: .*no_such_block"),
        ("x = 3\nreturn sch.no_such_method(x)", "line 7: AttributeError: .*no_such_method"),
        ("raise SystemExit(3)", "line 6: SystemExit: 3"),
        ("assert False", "line 6: AssertionError"),
    ],
)
def test_an_error_of_the_users_function_names_the_line_in_the_users_file(
    body: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    try:
        function, module = write_function(tmp_path, body), matmul()
        with pytest.raises(ModelError, match=rf"schedule function tile failed in .*/user_schedule\.py, {words}") as caught:
            RelaxTaskSearch(module["main"], cpu(), lambda: user_space(function, cpu()), seed=0)
        assert len(str(caught.value)) < 700
        assert str(caught.value).isprintable()
        assert 'user_schedule.py", line ' in "".join(traceback.format_exception(caught.value))
    finally:
        for name in set(sys.modules) - before:
            if name.startswith("user_"):
                del sys.modules[name]


@pytest.mark.parametrize("result", [3, "schedule", [None], (1,)])
def test_a_function_that_returns_no_schedule_is_refused_with_what_it_may_return(result: Any) -> None:
    def strange(schedule: Any) -> Any:
        return result

    with pytest.raises(ModelError, match=r"schedule function strange returned a (int|str|NoneType)") as caught:
        RelaxTaskSearch(matmul()["main"], cpu(), lambda: user_space(strange, cpu()), seed=0)
    assert caught.value.remedy == "Let it return nothing, a tvm.s_tir.Schedule, or a list of them."


def test_the_example_of_the_help_is_a_space_of_tilings() -> None:
    example = "".join(line for line in _SCHEDULE_FUNCTION.splitlines(keepends=True) if line.startswith("    "))
    names: dict[str, Any] = {}
    exec(textwrap.dedent(example), names)  # noqa: S102 - it is ours
    module = tvm.IRModule({"main": te.create_prim_func(bundled_workloads.matmul(64, 64, 64))})
    task = RelaxTaskSearch(module["main"], cpu(), lambda: user_space(names["tile"], cpu()), seed=0)
    assert task.space_size == tilings(64, 2, 16) * tilings(64, 2, 64)
    candidates = task.propose(4)
    assert {candidate.origin for candidate in candidates} == {"user"}
    for candidate in candidates:
        tvm.compile(tvm.ir.load_json(candidate.program.decode()), target=cpu())
