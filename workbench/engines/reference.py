"""What the candidates of a kernel are run on and compared with; runs none itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.engines.arrays import Array, count_of_no_numbers, difference, is_same, poisoned, random_array, telling, worst
from workbench.records.trial import Check

_MOST_GUARDED_BYTES = 2**26

Run = Callable[[Sequence[Array]], tuple[list[Array], float]]
"""Runs the untuned kernel on what its arguments are to hold; returns what they hold afterwards, and the seconds that it took."""


@dataclass(frozen=True)
class KernelFacts:
    """What measuring needs to know of a kernel.

    Attributes:
        tensors: Shape and dtype of each argument.
        results: How many of the last ones it writes.
        reduction: Terms of its longest sum.
    """

    tensors: tuple[tuple[tuple[int, ...], str], ...]
    results: int
    reduction: int


@dataclass(frozen=True)
class Reference:
    """The contents of a kernel's arguments before and after its untuned form.

    Attributes:
        before: What those that the kernel writes hold before each check, by place: an output a value that the kernel does not write.
        after: What they hold after the untuned kernel.
        guarded: What those hold that it only reads, by place; very large ones are left out.
        reduction: Terms of its longest sum.
        run_us: Time of the run that gave them.
    """

    before: Mapping[int, Array]
    after: Mapping[int, Array]
    guarded: Mapping[int, Array]
    reduction: int
    run_us: float

    @property
    def size_bytes(self) -> int:
        """What keeping it, and the arguments beside it, takes."""
        kept = sum(array.nbytes for arrays in (self.before, self.after, self.guarded) for array in arrays.values())
        return kept + sum(array.nbytes for array in (*self.before.values(), *self.guarded.values()))

    def check(self, found: Mapping[int, Array]) -> Check:
        """What a candidate wrote beside what it should have, by place."""
        return worst([difference(found[place], expected, self.reduction) for place, expected in self.after.items()])


def initial_contents(facts: KernelFacts, *, seed: int) -> list[Array]:
    """What the arguments of a kernel hold before its first run: random inputs, and outputs with values that it does not write."""
    count = len(facts.tensors) - facts.results
    generator = np.random.default_rng(seed)
    inputs = [random_array(generator, list(shape), dtype) for shape, dtype in facts.tensors[:count]]
    return [*inputs, *(poisoned(shape, dtype) for shape, dtype in facts.tensors[count:])]


def take_reference(run: Run, facts: KernelFacts, contents: Sequence[Array]) -> Reference:
    """Run the untuned kernel on random inputs; where it has no numbers for those, on positive ones if it has more for them."""
    count = len(facts.tensors) - facts.results
    inputs, outputs = list(contents[:count]), list(contents[count:])
    found, run_s = run([*inputs, *outputs])
    if (lost := count_of_no_numbers(found[count:])) > 0:  # square roots and logarithms of negative numbers: nothing to compare
        positive = [np.abs(array) if array.dtype.kind in "fV" else array for array in inputs]
        better, run_s = run([*positive, *outputs])
        if count_of_no_numbers(better[count:]) < lost:
            inputs, found = positive, better
        else:
            found, run_s = run([*inputs, *outputs])
    written = [place for place in range(len(contents)) if place >= count or not is_same(found[place], inputs[place])]
    return Reference(
        before={place: telling(outputs[place - count], found[place]) if place >= count else inputs[place] for place in written},
        after={place: found[place] for place in written},
        guarded={place: array for place, array in enumerate(inputs) if place not in written and array.nbytes <= _MOST_GUARDED_BYTES},
        reduction=facts.reduction,
        run_us=run_s * 1e6,
    )
