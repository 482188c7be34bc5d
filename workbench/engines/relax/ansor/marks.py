"""Annotations and pragmas of the auto-scheduler as what TensorIR does to a loop."""

from __future__ import annotations

from typing import Any

import tvm

from workbench.engines.relax.ansor.stages import Mark, Untranslatable

_UNROLL = "auto_unroll_max_step"
_LOOP_MARKS = {"unroll": "unroll", "vectorize": "vectorize", "parallel": "parallel"}


def mark_loop(schedule: tvm.s_tir.Schedule, loop: Any, mark: Mark) -> None:
    """Do what a mark says; raises Untranslatable where there is no such thing here."""
    if mark.pragma:
        name, _, value = mark.pragma.partition("$")
        if name != _UNROLL or not value.isdecimal():
            raise Untranslatable(f"there is no pragma {mark.pragma[:40]!r} here")
        schedule.annotate(loop, f"pragma_{_UNROLL}", int(value))
        schedule.annotate(loop, "pragma_unroll_explicit", 1)
    elif mark.annotation in _LOOP_MARKS:
        getattr(schedule, _LOOP_MARKS[mark.annotation])(loop)
    elif mark.annotation == "vthread":
        schedule.bind(loop, "vthread.x")
    elif mark.annotation.startswith(("blockIdx.", "threadIdx.")):
        schedule.bind(loop, mark.annotation)
    elif mark.annotation != "none":
        raise Untranslatable(f"iterators are marked {mark.annotation!r}")
