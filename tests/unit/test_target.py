"""The target record survives JSON and can be compared."""

from __future__ import annotations

import json

from workbench.records.target import TargetSpec

SPEC = TargetSpec(
    kind="llvm",
    config='{"kind": "llvm", "mcpu": "znver5", "num-cores": 2}',
    label="cpu",
    description="llvm znver5, 2 threads",
    remarks=("--system-lib was left out",),
)


def test_a_target_comes_back_from_json_as_it_was() -> None:
    assert TargetSpec.from_dict(json.loads(json.dumps(SPEC.to_dict()))) == SPEC


def test_its_json_holds_the_config_as_an_object() -> None:
    assert SPEC.to_dict()["config"] == {"kind": "llvm", "mcpu": "znver5", "num-cores": 2}


def test_a_target_can_be_a_dictionary_key() -> None:
    assert {SPEC: 1}[TargetSpec.from_dict(SPEC.to_dict())] == 1


def test_a_target_without_remarks_reads_as_one_with_none() -> None:
    values = SPEC.to_dict()
    del values["remarks"]
    assert TargetSpec.from_dict(values).remarks == ()
