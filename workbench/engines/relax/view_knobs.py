"""The decisions of a recorded schedule by block and loop: the trace is replayed, and each instruction asked what it is about at that point."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir.schedule import Trace

from workbench.analysis.knob_list import named_knobs
from workbench.engines.relax.workload_module import as_main
from workbench.records.knob import Knob

_ROOT_BLOCK = "root"
_MOST_BLOCKS = 2
_PLACES = {-1: "root", -2: "inline"}
_USES = {"meta_schedule.unroll_explicit": "unroll", "meta_schedule.unroll_implicit": "unroll"}
_LOOP_KINDS = {"Parallel": "parallel", "Vectorize": "vectorize", "Unroll": "unroll"}


def knobs_of(function: tvm.tirx.PrimFunc, trace: str) -> tuple[Knob, ...]:
    """The decisions of a trace that fits the kernel, in the order of its instructions; none for an empty trace.

    Raises:
        Exception: Whatever a trace raises that does not fit.
    """
    if not trace:
        return ()
    own = tvm.ir.load_json(tvm.ir.save_json(as_main(function)))
    first = tvm.s_tir.Schedule(own, seed=1, debug_mask=0, error_render_level="none")
    Trace.apply_json_to_schedule(json.loads(trace), first)
    recorded = first.trace
    again = tvm.s_tir.Schedule(tvm.ir.load_json(tvm.ir.save_json(as_main(function))), seed=1, debug_mask=0, error_render_level="none")
    reader = _Reader(again, list(recorded.insts))
    recorded.apply_to_schedule(again, remove_postproc=False, decision_provider=reader.read)
    return named_knobs(reader.knobs)


class _Reader:
    """Reads each instruction just before it is applied.

    Args:
        schedule: What the instructions are applied to.
        instructions: All of them.
    """

    def __init__(self, schedule: Any, instructions: Sequence[Any]) -> None:
        self._schedule = schedule
        self._place = -1
        self._sampled_places = [out for item in instructions if item.kind.name == "SampleComputeLocation" for out in item.outputs]
        self._uses = [(item.inputs[1], str(item.attrs[0])) for item in instructions if item.kind.name == "Annotate" and len(item.inputs) > 1]
        self._waiting: list[tuple[Any, Knob]] = []
        self._how: dict[str, Callable[[Any, Any, Any, Any], None]] = {
            "SamplePerfectTile": self._tile,
            "SamplePartitionedTile": self._tile,
            "SampleCategorical": self._choice,
            "SampleComputeLocation": self._location,
            "Annotate": self._annotate,
            "Split": self._split,
            "Fuse": self._fuse,
            "Bind": self._bind,
            "ComputeAt": self._compute_at,
            "ReverseComputeAt": self._compute_at,
            "ComputeInline": self._inline,
            "ReverseComputeInline": self._inline,
            "CacheRead": self._cache,
            "CacheWrite": self._cache,
            "RFactor": self._rfactor,
            "Tensorize": self._tensorize,
            "DecomposeReduction": self._decompose,
            **dict.fromkeys(_LOOP_KINDS, self._loop_kind),
        }
        self.knobs: list[Knob] = []

    def read(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> Any:
        """Note what an instruction decides; the decision itself stays."""
        self._place += 1
        note = self._how.get(str(instruction.kind.name))
        if note is not None:
            note(instruction, inputs, attributes, decision)
        return decision

    def _add(self, kind: str, *, block: str = "", loop: str = "", value: str = "", sampled: bool = False) -> None:
        self.knobs.append(Knob("", kind, block, loop, value, sampled, self._place))

    # sampled decisions

    def _tile(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del instruction, attributes
        loop = self._schedule.get(inputs[0])
        self._add(
            "tile", block=_blocks_in(loop), loop=str(loop.loop_var.name), value=" x ".join(str(int(factor)) for factor in decision), sampled=True
        )

    def _choice(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        """A number that another instruction uses later: only that one tells what for."""
        del inputs
        candidates = attributes[0]
        use = next((key for variable, key in self._uses if _is(variable, instruction.outputs[0])), "")
        kind = _USES.get(use, use.removeprefix("meta_schedule.").replace("_", " ") or "choice")
        self._add(kind, value=_number(candidates[int(decision)]), sampled=True)
        self._waiting.append((instruction.outputs[0], self.knobs[-1]))

    def _location(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del instruction, attributes
        block = self._schedule.get(inputs[0])
        self._add("compute at", block=str(block.name_hint), value=self._place_of(inputs[0], int(decision)), sampled=True)

    def _place_of(self, block: Any, decision: int) -> str:
        """Where a sampled location is: a loop of the consumer."""
        if decision in _PLACES:
            return _PLACES[decision]
        consumers = self._schedule.get_consumers(block)
        loops = self._schedule.get_loops(consumers[0]) if consumers else []
        if decision >= len(loops):
            return f"loop {decision}"
        return f"{self._schedule.get(consumers[0]).name_hint}/{self._schedule.get(loops[decision]).loop_var.name}"

    # what follows

    def _use(self, variable: Any, *, block: str, loop: str = "", kind: str = "") -> bool:
        """Tell a choice what it is for; False if the variable is none."""
        for place, (output, knob) in enumerate(self._waiting):
            if _is(output, variable):
                known = Knob("", kind or knob.kind, block, loop, knob.value, knob.sampled, knob.instruction)
                self.knobs[self.knobs.index(knob)] = known
                self._waiting[place] = (output, known)
                return True
        return False

    def _annotate(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del decision
        block, loop = self._about(inputs[0])
        key = str(attributes[0])
        used = len(instruction.inputs) > 1 and self._use(instruction.inputs[1], block=block, loop=loop)
        if not used and key.startswith("pragma_"):
            self._add(key.removeprefix("pragma_").replace("_", " "), block=block, loop=loop, value=_number(inputs[1]))

    def _split(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del attributes, decision
        loop = self._schedule.get(inputs[0])
        block, name = _blocks_in(loop), str(loop.loop_var.name)
        factors = list(instruction.inputs[1:])
        if any(self._use(factor, block=block, loop=name, kind="split") for factor in factors if isinstance(factor, tvm.ir.Expr)):
            return
        if any(isinstance(factor, tvm.tirx.Var) for factor in factors):  # those of a tiling, which is noted already
            return
        self._add("split", block=block, loop=name, value=" x ".join("rest" if factor is None else _number(factor) for factor in inputs[1:]))

    def _fuse(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del instruction, attributes, decision
        loops = [self._schedule.get(loop) for loop in inputs if loop is not None]
        if len(loops) > 1:
            self._add("fuse", block=_blocks_in(loops[-1]), value=", ".join(str(loop.loop_var.name) for loop in loops))

    def _bind(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del instruction, decision
        block, loop = self._about(inputs[0])
        self._add("bind", block=block, loop=loop, value=f"{attributes[0]} ({self._schedule.get(inputs[0]).extent})")

    def _loop_kind(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del attributes, decision
        block, loop = self._about(inputs[0])
        self._add(_LOOP_KINDS[str(instruction.kind.name)], block=block, loop=loop, value=str(self._schedule.get(inputs[0]).extent))

    def _compute_at(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del attributes, decision
        if any(_is(instruction.inputs[1], place) for place in self._sampled_places):
            return
        loop = self._schedule.get(inputs[1])
        value = f"{_blocks_in(loop)}/{loop.loop_var.name}" if isinstance(loop, tvm.tirx.For) else _ROOT_BLOCK
        kind = "compute at" if instruction.kind.name == "ComputeAt" else "reverse compute at"
        self._add(kind, block=str(self._schedule.get(inputs[0]).name_hint), value=value)

    def _inline(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del attributes, decision
        into = "its consumers" if instruction.kind.name == "ComputeInline" else "its producer"
        self._add("inline", block=str(self._schedule.get(inputs[0]).name_hint), value=f"into {into}")

    def _cache(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del decision
        block = self._schedule.get(inputs[0])
        is_read = instruction.kind.name == "CacheRead"
        regions = block.reads if is_read else block.writes
        index = int(attributes[0])
        name = str(regions[index].source.name) if 0 <= index < len(regions) else f"buffer {index}"
        self._add("cache read" if is_read else "cache write", block=str(block.name_hint), value=f"{name} in {attributes[1]}")

    def _rfactor(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del instruction, decision
        block, loop = self._about(inputs[0])
        self._add("rfactor", block=block, loop=loop, value=f"axis {attributes[0]}")

    def _tensorize(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del instruction, decision
        block, loop = self._about(inputs[0])
        self._add("tensorize", block=block, loop=loop, value=str(attributes[0]))

    def _decompose(self, instruction: Any, inputs: Any, attributes: Any, decision: Any) -> None:
        del instruction, attributes, decision
        loop = self._schedule.get(inputs[1])
        self._add("initialise at", block=str(self._schedule.get(inputs[0]).name_hint), loop=str(loop.loop_var.name))

    def _about(self, variable: Any) -> tuple[str, str]:
        """Block and loop of a random variable that is one of them."""
        found = self._schedule.get(variable)
        if isinstance(found, tvm.tirx.For):
            return _blocks_in(found), str(found.loop_var.name)
        return str(found.name_hint), ""


def _blocks_in(loop: Any) -> str:
    """The blocks that a loop runs, shortened if they are many."""
    found: list[str] = []
    tvm_ffi.structural_walk(loop, ((tvm.s_tir.SBlock, lambda block: found.append(str(block.name_hint))),))
    names = [name for name in dict.fromkeys(found) if name != _ROOT_BLOCK]
    return ", ".join(names[:_MOST_BLOCKS]) + (f" +{len(names) - _MOST_BLOCKS}" if len(names) > _MOST_BLOCKS else "")


def _is(one: Any, other: Any) -> bool:
    return hasattr(one, "same_as") and hasattr(other, "same_as") and bool(one.same_as(other))


def _number(value: Any) -> str:
    value = getattr(value, "value", value)
    return f"{value:g}" if isinstance(value, float) else str(value)
