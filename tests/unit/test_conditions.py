"""What makes times comparable: digests that stay the same, and differences in words."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from workbench.records.conditions import Conditions, KnownConditions
from workbench.records.decode import DecodeError
from workbench.records.trial import MeasureOptions

CPU = Conditions("relax", {"tvm": "0.27", "llvm": "20"}, '{"kind": "llvm"}', "llvm", 2, ("Zen 5",), 0, cold=False)
GPU = replace(CPU, target='{"kind": "cuda"}', kind="cuda", devices=("H200", "H200"), device=1)


@pytest.mark.parametrize(("conditions", "devices"), [(CPU, "Zen 5"), (GPU, ["H200", "H200"])])
def test_the_digest_is_the_one_that_the_trials_of_older_sessions_have(conditions: Conditions, devices: Any) -> None:
    facts = ["relax", {"llvm": "20", "tvm": "0.27"}, conditions.target, 2, devices, conditions.device, False]
    assert conditions.digest == hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"threads": 1}, "1 thread instead of 2"),
    ({"cold": True}, "cold caches instead of warm ones"),
    ({"device": 3}, "device 3 instead of 0"),
    ({"devices": ("Zen 4",)}, "Zen 4 instead of Zen 5"),
    ({"devices": ()}, "no device instead of Zen 5"),
    ({"versions": {"tvm": "0.26", "llvm": "20"}}, "tvm 0.26 instead of 0.27"),
    ({"versions": {"tvm": "0.27"}}, "llvm unknown instead of 20"),
    ({"engine": "relay"}, "engine relay instead of relax"),
    ({"target": '{"kind": "llvm", "mcpu": "x"}'}, "another target"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_each_difference_has_its_words_and_another_digest(change: dict[str, Any], words: str) -> None:
    other = replace(CPU, **change)
    assert CPU.differences(other) == (words,)
    assert other.digest != CPU.digest


def test_equal_conditions_differ_in_nothing_and_come_back_from_their_json() -> None:
    for conditions in (CPU, GPU):
        again = Conditions.from_dict(json.loads(json.dumps(conditions.to_dict())))
        assert (again, again.digest) == (conditions, conditions.digest)
        assert conditions.differences(again) == ()


@pytest.mark.parametrize("values", [{}, [], None, {**CPU.to_dict(), "threads": "2"}, {**CPU.to_dict(), "versions": {"tvm": 1}}])
def test_what_are_no_conditions_are_refused(values: Any) -> None:
    with pytest.raises(DecodeError):
        Conditions.from_dict(values)


def test_of_conditions_that_nobody_noted_only_what_the_options_say_is_known() -> None:
    other = replace(CPU, threads=1, cold=True)
    known = KnownConditions(CPU, {other.digest: other})
    assert known.differences(other.digest, MeasureOptions()) == ("cold caches instead of warm ones", "1 thread instead of 2")
    assert known.differences("unknown", MeasureOptions(cache_flush=True, device=2)) == ("cold caches instead of warm ones", "device 2 instead of 0")
    assert known.differences("unknown", MeasureOptions()) == ()


def test_what_a_stranger_wrote_into_the_conditions_is_shown_escaped_and_short() -> None:
    hostile = "\x1b[31m" + "x" * 500
    words = CPU.differences(replace(CPU, engine=hostile, versions={hostile: hostile}, devices=(hostile,)))
    assert all(word.isprintable() and len(word) < 300 for word in words)
