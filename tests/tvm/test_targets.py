"""What users write as a target becomes a complete TVM target; and the self-check runs on this TVM."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from typing import Any

import pytest
from tvm.s_tir import meta_schedule
from tvm.target import Target, TargetKind

from workbench.engines import targets
from workbench.engines.relax import abi_check
from workbench.engines.targets import CUDA_LIMITS, resolve_target, target_tags, to_tvm
from workbench.errors import TargetError
from workbench.legacy.target_string import KIND_OPTIONS
from workbench.records.target import TargetSpec

THREADS = 3
TYPES_IN_TVM = {"str": "str", "Array<str>": "list", "int": "int", "bool": "bool", "target.Target": "target"}

RESOLVED = [
    ("cuda:sm_90", "cuda-sm_90", "cuda sm_90", {"arch": "sm_90", **CUDA_LIMITS}),
    ("nvidia/nvidia-a100", "cuda-sm_80", "cuda sm_80 (nvidia/nvidia-a100)", {"arch": "sm_80", **CUDA_LIMITS}),
    ('{"kind": "cuda", "arch": "sm_86"}', "cuda-sm_86", "cuda sm_86", {"arch": "sm_86", **CUDA_LIMITS}),
    ('{"tag": "nvidia/nvidia-a100", "max_threads_per_block": 512}', "cuda-sm_80", "cuda sm_80 (nvidia/nvidia-a100)", {"max_threads_per_block": 512}),
    (
        "cuda -keys=cuda,gpu -arch=sm_86 -max_num_threads=1024 -thread_warp_size=32",
        "cuda-sm_86",
        "cuda sm_86",
        {"arch": "sm_86", **CUDA_LIMITS},
    ),
    (
        "llvm -keys=cpu -mcpu=skylake-avx512 -num-cores=2",
        "llvm-skylake-avx512",
        "llvm skylake-avx512, 2 threads",
        {"mcpu": "skylake-avx512", "num-cores": 2},
    ),
    ('{"kind": "llvm", "mcpu": "haswell"}', "llvm-haswell", "llvm haswell, 3 threads", {"mcpu": "haswell", "num-cores": THREADS}),
    ("aws/cpu/c5.large", "llvm-skylake-avx512", "llvm skylake-avx512, 1 thread (aws/cpu/c5.large)", {"num-cores": 1}),
    ("opencl", "opencl", "opencl", {}),
    ("c", "c", "c", {}),
]

REFUSED = [
    ("", "There is no target ''"),
    ("cpuu", "Did you mean cpu?"),
    ("nvidia/h100", "nvidia/nvidia-h100"),
    ("cuda:0", "cuda:sm_90"),
    ('{"kind": "cuda"}', "sm_50"),
    ("cuda -libs=cudnn", "sm_50"),
    ('{"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 0}', "max_threads_per_block"),
    ("vulkan", "cannot build"),
    ("composite", "cannot build"),
    ('{"kind": "llvm", "mcpu": "znver9"}', "znver5"),
    ('{"kind": "llvm", "mtriple": "bogus"}', "triple"),
    ('{"kind": "llvm", "mtriple": 5}', "triple"),
    ('{"kind": "llvm", "num-cores": 0}', "num-cores"),
    ('{"kind": "llvm", "num-cores": "2"}', "num-cores"),
    ('{"kind": "llvm", "mattr": ["avx2"]}', "mattr"),
    ('{"kind": "llvm", "mcp": "haswell"}', "Did you mean mcpu"),
    ('{"kind": "llvm", "keys": null}', "TVM refuses"),
    ('{"kind": "cuda", "arch": "sm_90", "host": {"kind": "cuda"}}', "host"),
    ('{"kind": "cuda", "arch": "sm_90", "host": "llvm -mcpu=nonsense"}', "nonsense"),
    ('{"tag": "nvidia/nothing"}', "There is no target"),
    ('{"kind": ["llvm"]}', "cannot build"),
    ('{"arch": "sm_90"}', "neither a kind nor a tag"),
    ('{"kind": "llvm"', "not readable JSON"),
    ('{"a":' + "[" * 3000, "not readable JSON"),
    ("x" * 5000, "at most"),
]


def without_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "cuda_arch", lambda: None)


@pytest.mark.parametrize(("text", "label", "description", "options"), RESOLVED, ids=[text[:40] for text, *_ in RESOLVED])
def test_a_text_becomes_a_complete_target(text: str, label: str, description: str, options: dict[str, Any]) -> None:
    spec = resolve_target(text, threads=THREADS)
    assert (spec.label, spec.description) == (label, description)
    assert options.items() <= spec.options.items()
    assert to_tvm(spec).kind.name == spec.kind
    assert TargetSpec.from_dict(spec.to_dict()) == spec


@pytest.mark.parametrize("text", ["cpu", "llvm", "auto", '{"kind": "llvm"}', '{"kind": "llvm", "num-cores": 3}'])
def test_the_cpu_of_this_machine_is_named_by_llvm_and_has_the_threads(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_device(monkeypatch)
    spec = resolve_target(text, threads=THREADS)
    assert spec.label == "cpu"
    assert spec.options["mcpu"] == targets.host_cpu_config()["mcpu"]
    assert spec.options["num-cores"] == THREADS


def test_cuda_without_a_device_says_how_to_name_an_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    without_device(monkeypatch)
    with pytest.raises(TargetError, match="cuda:sm_90"):
        resolve_target("cuda", threads=THREADS)


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=[text[:40] or "empty" for text, _ in REFUSED])
def test_a_wrong_or_incomplete_target_is_refused_with_a_remedy(text: str, says: str) -> None:
    with pytest.raises(TargetError) as caught:
        resolve_target(text, threads=THREADS)
    assert says in str(caught.value)
    assert caught.value.remedy


def test_no_threads_are_refused() -> None:
    with pytest.raises(TargetError, match="0 threads"):
        resolve_target("cpu", threads=0)


def test_what_an_old_string_lost_is_remarked() -> None:
    spec = resolve_target("llvm -mcpu=haswell --system-lib", threads=THREADS)
    assert len(spec.remarks) == 1
    assert "--system-lib" in spec.remarks[0]


def test_the_config_of_a_resolved_target_resolves_to_itself() -> None:
    for text in ("cpu", "cuda:sm_90", "arm/rasp4b64"):
        spec = resolve_target(text, threads=THREADS)
        assert resolve_target(spec.config, threads=1).config == spec.config


def test_a_cuda_target_has_this_cpu_as_its_host_and_a_given_host_is_kept() -> None:
    assert to_tvm(resolve_target("cuda:sm_90", threads=THREADS)).host.attrs["mcpu"] == targets.host_cpu_config()["mcpu"]
    given = resolve_target('{"kind": "cuda", "arch": "sm_90", "host": {"kind": "llvm", "mcpu": "haswell"}}', threads=THREADS)
    assert to_tvm(given).host.attrs["mcpu"] == "haswell"


def test_a_config_of_another_tvm_is_an_input_error() -> None:
    with pytest.raises(TargetError, match="TVM refuses"):
        to_tvm(TargetSpec("llvm", '{"kind": "llvm", "gone": 1}', "cpu", "llvm"))


def test_the_label_of_a_target_is_safe_as_a_directory_name() -> None:
    spec = resolve_target('{"kind": "opencl", "model": "../../a b"}', threads=THREADS)
    assert "/" not in spec.label
    assert " " not in spec.label


def test_the_parser_of_old_strings_knows_the_options_of_this_tvm() -> None:
    for kind, known in KIND_OPTIONS.items():
        actual = {str(name): TYPES_IN_TVM[str(value)] for name, value in TargetKind.options_from_name(kind).items()}
        assert known.items() <= actual.items(), kind


def test_every_nvidia_tag_resolves_with_all_limits() -> None:
    names = target_tags("cuda")
    assert len(names) > 200
    for name in names:
        assert CUDA_LIMITS.keys() <= resolve_target(name, threads=THREADS).options.keys(), name


def test_the_limits_of_a_named_architecture_are_those_of_tvms_tags() -> None:
    tagged = Target("nvidia/nvidia-h100").attrs
    assert {name: int(tagged[name]) for name in CUDA_LIMITS} == CUDA_LIMITS


def test_a_named_architecture_is_enough_for_metaschedules_cuda_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tvm.s_tir.tensor_intrin", types.ModuleType("tvm.s_tir.tensor_intrin"))
    generator = meta_schedule.space_generator.PostOrderApply(sch_rules="cuda", postprocs="cuda", mutator_probs="cuda")
    context = meta_schedule.TuneContext(
        mod=abi_check.matrix_product(),
        target=to_tvm(resolve_target("cuda:sm_90", threads=THREADS)),
        space_generator=generator,
        search_strategy="replay-trace",
        num_threads=1,
        rand_state=1,
    )
    context.pre_tuning(1, 1, context.generate_design_space())
    assert context.generate_measure_candidates()


def test_the_self_check_passes_on_this_tvm_and_prints_one_json_line() -> None:
    command = [sys.executable, "-m", "workbench.engines.relax.abi_check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["mcpu"] == targets.host_cpu_config()["mcpu"]
    assert {"llvm", "cuda"} <= set(facts["kinds"])
