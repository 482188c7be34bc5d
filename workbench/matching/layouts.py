"""Shapes of rewritten layouts, undone: ``(1, 4, 56, 56, 16)`` under ``NCHW16c`` is ``(1, 64, 56, 56)``."""

from __future__ import annotations

import math
from collections.abc import Iterator

from workbench.matching.shapes import Shape


def plain_shapes(shape: Shape) -> Iterator[Shape]:
    """The shapes that a tensor may have in the source program, the likeliest first: as it is, unblocked, or channels last."""
    yield shape
    if len(shape) == 5:
        batch, blocks, rows, columns, inner = shape
        yield (batch, blocks * inner, rows, columns)
    if len(shape) == 6:
        batch, blocks, depth, rows, columns, inner = shape
        yield (batch, blocks * inner, depth, rows, columns)
        yield (batch * inner, blocks * columns, depth, rows)  # of a weight: OIHWio
    if len(shape) == 4:
        batch, first, second, last = shape
        yield (batch, last, first, second)
        yield (batch, second, last, first)
    if len(shape) == 3:
        yield (shape[0], shape[1] * shape[2])


def likeness(found: Shape | None, wanted: Shape | None) -> float:
    """How well the shape of a row fits an operator's: 1 for the same, less for one that another layout explains, 0 for none."""
    if found is None or wanted is None:
        return 0.5
    for place, shape in enumerate(plain_shapes(found)):
        if shape == wanted:
            return 1.0 if place == 0 else 0.95
    squeezed = [size for size in found if size != 1]
    if squeezed == [size for size in wanted if size != 1]:
        return 0.9
    return 0.6 if math.prod(found) == math.prod(wanted) else 0.0
