"""How many threads a GPU schedule would launch, from its decisions alone: most random ones are refused for that, after a costly replay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TILINGS = ("SamplePerfectTile", "SamplePartitionedTile")
_LEAST, _MOST = "meta_schedule.thread_extent_low_inclusive", "meta_schedule.thread_extent_high_inclusive"
_THREADS, _VIRTUAL = "threadIdx.", "vthread"
_MOST_VIRTUAL = 8
"""Virtual threads that ``VerifyGPUCode`` allows."""


@dataclass(frozen=True)
class ThreadExtent:
    """A loop that is bound to threads.

    Attributes:
        factors: What its extent is the product of: the place of an instruction, and of a factor of its decision.
        least: Its least extent.
        most: Its largest one.
    """

    factors: tuple[tuple[int, int], ...]
    least: int
    most: int

    def allows(self, decisions: Mapping[int, Sequence[int]]) -> bool:
        """True if the extent that decisions, by the places of their instructions, give is within its limits."""
        return self.least <= math.prod(decisions[place][part] for place, part in self.factors) <= self.most


def thread_extents(instructions: Sequence[Any], *, most_threads: int) -> tuple[ThreadExtent, ...]:
    """The bound loops of a trace whose extents follow from its tilings.

    Args:
        instructions: As TVM's JSON has them: name, inputs, attributes, outputs.
        most_threads: Threads that a block may have.
    """
    factors: dict[str, tuple[tuple[int, int], ...]] = {}  # of variables and loops, as far as they are known
    annotated = {str(attributes[0]): inputs[1] for name, inputs, attributes, _ in instructions if name == "Annotate"}
    least, most = (int(annotated.get(key, value)) for key, value in ((_LEAST, 1), (_MOST, most_threads)))
    found = []
    for place, (name, inputs, attributes, outputs) in enumerate(instructions):
        if name in _TILINGS:
            factors.update({output: ((place, part),) for part, output in enumerate(outputs)})
        elif name == "Split":
            factors.update({loop: factors[variable] for loop, variable in zip(outputs, inputs[1:], strict=True) if variable in factors})
        elif name == "Fuse" and all(loop in factors for loop in inputs):
            factors[outputs[0]] = tuple(factor for loop in inputs for factor in factors[loop])
        elif name == "Bind" and inputs[0] in factors:
            tag = str(attributes[0])
            if tag.startswith(_THREADS):
                found.append(ThreadExtent(factors[inputs[0]], least, min(most, most_threads)))
            elif tag.startswith(_VIRTUAL):
                found.append(ThreadExtent(factors[inputs[0]], 1, _MOST_VIRTUAL))
    return tuple(found)
