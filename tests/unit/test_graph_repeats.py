"""Repeated blocks: those that are planted are found, cut where a person would cut them; what only looks alike is not taken for one."""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest

from workbench.graphs import Repeat, find_repeats


class Model:
    """Boxes, added one by one; each gives its place."""

    def __init__(self) -> None:
        self.labels: list[Hashable] = []
        self.reads: list[list[int]] = []

    def add(self, label: Hashable, *reads: int) -> int:
        self.labels.append(label)
        self.reads.append(list(reads))
        return len(self.labels) - 1

    def repeats(self) -> tuple[Repeat, ...]:
        return find_repeats(self.labels, self.reads)

    def bottleneck(self, x: int) -> int:
        inner = self.add("relu", self.add("conv3", self.add("relu", self.add("conv1", x))))
        return self.add("relu", self.add("add", self.add("conv1", inner), x))

    def layer(self, x: int, mask: int, *, heads: int = 1) -> int:
        norm = self.add("norm", x)
        parts = []
        for _ in range(heads):
            scores = self.add("softmax", self.add("add", self.add("matmul", self.add("q", norm), self.add("k", norm)), mask))
            parts.append(self.add("matmul", scores, self.add("v", norm)))
        attended = self.add("add", self.add("concat", *parts), x)
        return self.add("add", self.add("dense", self.add("gelu", self.add("dense", self.add("norm", attended)))), attended)


def spans(repeats: tuple[Repeat, ...]) -> list[tuple[int, int, int]]:
    return [(repeat.start, repeat.size, repeat.copies) for repeat in repeats]


def test_the_layers_of_a_transformer_are_one_block() -> None:
    model = Model()
    mask = model.add("input mask")
    x = model.add("embed", model.add("input ids"))
    for _ in range(12):
        x = model.layer(x, mask)
    model.add("output", model.add("pool", x))
    size = (len(model.labels) - 5) // 12
    assert spans(model.repeats()) == [(3, size, 12)]


def test_the_heads_in_each_layer_are_blocks_in_the_block() -> None:
    model = Model()
    mask = model.add("input mask")
    x = model.add("embed", model.add("input ids"))
    for _ in range(4):
        x = model.layer(x, mask, heads=6)
    (layers,) = model.repeats()
    assert (layers.start, layers.copies) == (3, 4)
    assert spans(layers.inner) == [(1, 7, 6)]


def test_the_stages_of_a_resnet_are_cut_between_the_bottlenecks_not_inside_of_them() -> None:
    model = Model()
    x = model.add("pool", model.add("relu", model.add("conv7", model.add("input"))))
    starts = []
    for stage, copies in enumerate((2, 3, 5, 2)):
        x = model.add("relu", model.add("add", model.add("conv1", model.add("conv3", x)), model.add(f"project{stage}", x)))
        starts.append(len(model.labels))
        for _ in range(copies):
            x = model.bottleneck(x)
    model.add("dense", model.add("mean", x))
    assert spans(model.repeats()) == [(start, 7, copies) for start, copies in zip(starts, (2, 3, 5, 2), strict=True)]


def test_a_chain_of_one_operator_is_a_block_of_one() -> None:
    model = Model()
    x = model.add("input")
    for _ in range(9):
        x = model.add("matmul", x)
    model.add("output", x)
    assert spans(model.repeats()) == [(1, 1, 9)]


def test_blocks_that_only_look_alike_are_none() -> None:
    model = Model()
    x = model.add("input")
    for skip in (1, 2, 3, 1, 2):  # the same labels, but the add reads another box each time
        parts = [x, model.add("a", x)]
        parts.append(model.add("b", parts[-1]))
        parts.append(model.add("c", parts[-1]))
        x = model.add("add", parts[3], parts[3 - skip])
    for repeat in model.repeats():
        assert repeat.copies == 2


def test_a_pair_of_boxes_is_too_little_to_hide() -> None:
    model = Model()
    model.add("relu", model.add("relu", model.add("input")))
    assert model.repeats() == ()


def test_an_empty_graph_has_no_repeats() -> None:
    assert find_repeats([], []) == ()


@pytest.mark.parametrize("seed", range(12))
def test_planted_blocks_are_found_and_cover_what_was_planted(seed: int) -> None:
    draw = random.Random(seed)
    size, copies = draw.randint(3, 20), draw.randint(2, 9)
    labels = [f"op{draw.randrange(6)}" for _ in range(size)]
    offsets = [[draw.randint(1, place + 1) for _ in range(draw.randint(1, 2))] for place in range(size)]
    model = Model()
    x = model.add("input")
    for number in range(draw.randint(0, 10)):
        x = model.add(f"before {number}", x)
    start = len(model.labels)
    for _ in range(copies):
        base = len(model.labels)
        for label, own in zip(labels, offsets, strict=True):
            here = len(model.labels)
            model.add(label, *(max(here - offset, base - 1) for offset in own))
    for number in range(draw.randint(0, 10)):
        model.add(f"behind {number}", len(model.labels) - 1)
    found = model.repeats()
    covered = sum(repeat.size * repeat.copies for repeat in found)
    assert covered >= size * (copies - 1)
    assert all(start - size <= repeat.start and repeat.end <= start + size * copies + size for repeat in found)
    shown = len(model.labels) - sum(repeat.size * (repeat.copies - 1) for repeat in found)
    assert shown <= len(model.labels) - size * (copies - 2)


@pytest.mark.parametrize("seed", range(10))
def test_repeats_never_overlap_and_lie_in_the_graph(seed: int) -> None:
    draw = random.Random(seed)
    labels = [draw.choice("ab") for _ in range(300)]
    reads = [[place - 1] if place else [] for place in range(300)]
    end = 0
    for repeat in find_repeats(labels, reads):
        assert repeat.start >= end
        assert repeat.copies >= 2
        end = repeat.end
        block = labels[repeat.start : repeat.start + repeat.size]
        assert labels[repeat.start : repeat.end] == block * repeat.copies
        for inner in repeat.inner:
            assert inner.start >= 0
            assert inner.end <= repeat.size
    assert end <= 300


def test_boxes_that_look_alike_and_hang_together_at_random_do_not_repeat() -> None:
    draw = random.Random(0)
    reads = [sorted({draw.randrange(place) for _ in range(2)}) if place > 2 else [] for place in range(2000)]
    found = find_repeats(["add"] * 2000, reads)
    assert sum(repeat.size * (repeat.copies - 1) for repeat in found) < 1000
