"""Old target strings become target dicts, and nonsense is refused with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.errors import TargetError
from workbench.legacy.target_string import parse_target_string

READABLE: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("llvm", {"kind": "llvm"}, ()),
    (
        "llvm -keys=cpu -mcpu=skylake-avx512 -num-cores=2",
        {"kind": "llvm", "keys": ["cpu"], "mcpu": "skylake-avx512", "num-cores": 2},
        (),
    ),
    (
        "cuda -keys=cuda,gpu -arch=sm_86 -max_num_threads=1024 -thread_warp_size=32",
        {"kind": "cuda", "keys": ["cuda", "gpu"], "arch": "sm_86", "max_num_threads": 1024, "thread_warp_size": 32},
        (),
    ),
    ("llvm -mattr=+avx2,+fma", {"kind": "llvm", "mattr": ["+avx2", "+fma"]}, ()),
    ("llvm -mattr='+avx2, +fma'", {"kind": "llvm", "mattr": ["+avx2", "+fma"]}, ()),
    ("cuda -libs=cudnn,cublas", {"kind": "cuda", "libs": ["cudnn", "cublas"]}, ()),
    ('llvm -model="Intel Xeon 8124M"', {"kind": "llvm", "model": "Intel Xeon 8124M"}, ()),
    ("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu", {"kind": "llvm", "device": "arm_cpu", "mtriple": "aarch64-linux-gnu"}, ()),
    ("llvm -target=x86_64-linux-gnu", {"kind": "llvm", "mtriple": "x86_64-linux-gnu"}, ()),
    ("llvm --mcpu znver4 -num_cores 8", {"kind": "llvm", "mcpu": "znver4", "num-cores": 8}, ()),
    ("llvm -fast-math -opt-level=0", {"kind": "llvm", "fast-math": True, "opt-level": 0}, ()),
    ("llvm -fast-math=0", {"kind": "llvm", "fast-math": False}, ()),
    ("cuda -shared_memory_per_block=49152", {"kind": "cuda", "max_shared_memory_per_block": 49152}, ()),
    (
        'cuda -arch=sm_80 --host="llvm -mcpu=znver3 --system-lib"',
        {"kind": "cuda", "arch": "sm_80", "host": {"kind": "llvm", "mcpu": "znver3"}},
        ("host: --system-lib",),
    ),
    (
        "llvm --system-lib --runtime=c -link-params 1 -mcpu=haswell",
        {"kind": "llvm", "mcpu": "haswell"},
        ("--system-lib", "--runtime=c", "-link-params 1"),
    ),
    ("llvm -num-cores=-1 -keys=", {"kind": "llvm"}, ("-num-cores=-1", "-keys=")),
    ("cuda -arch=sm_70 -mattr=+x", {"kind": "cuda", "arch": "sm_70"}, ("-mattr=+x",)),
]

REFUSED = [
    ("", "empty"),
    ("   ", "empty"),
    ("-mcpu=znver4", "starts with the option"),
    ("lvm -mcpu=znver4", "Did you mean 'llvm'?"),
    ("sdaccel", "Known kinds"),
    ("llvm mcpu=znver4", "not an option"),
    ("llvm -", "not an option"),
    ("llvm -=3", "no name"),
    ("llvm -mcpu", "no value"),
    ("llvm -mcpu= -num-cores=2", "no value"),
    ("llvm -mcpu=a -mcpu=b", "twice"),
    ("llvm -num-cores=two", "whole number"),
    ("llvm -num-cores=99999999999", "out of range"),
    ("llvm -fast-math=maybe", "true or false"),
    ("llvm -model='open", "quote"),
    ("llvm -model=a\x1b[2Jb", "control characters"),
    ("cuda --host=sdaccel", "no target kind"),
    ("cuda --host=", "empty"),
    ("llvm " + "-a=b " * 1000, "at most"),
]


@pytest.mark.parametrize(("text", "options", "ignored"), READABLE, ids=[text for text, _, _ in READABLE])
def test_an_old_string_becomes_the_dict_and_reports_what_it_left_out(text: str, options: dict[str, Any], ignored: tuple[str, ...]) -> None:
    target = parse_target_string(text)
    assert target.options == options
    assert target.ignored == ignored


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=[text[:30] or "empty" for text, _ in REFUSED])
def test_nonsense_is_refused_with_a_reason_and_a_remedy(text: str, says: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target_string(text)
    assert says in str(caught.value)
    assert caught.value.remedy


def test_changing_the_returned_dict_does_not_change_the_record() -> None:
    target = parse_target_string("llvm -mcpu=znver4")
    target.options["mcpu"] = "other"
    assert target.options["mcpu"] == "znver4"
