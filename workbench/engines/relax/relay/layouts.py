"""Layout strings such as ``NCHW``, ``NCHW16c`` or ``OIHW16i16o``: what is a split axis, and how to go to the plain order and back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

_AXIS = re.compile(r"(\d+)?([A-Za-z])")


@dataclass(frozen=True)
class Layout:
    """The axes of a tensor in order.

    Attributes:
        axes: Letter and split factor of each axis; an upper-case letter is a primal axis (factor 0), a lower-case one a part of it
            (factor 0 if the text gives none, as in ``NCHWc``).
    """

    axes: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, text: str) -> Layout:
        """The layout that a text names.

        Raises:
            ValueError: The text names no layout.
        """
        if re.fullmatch(r"(?:(?:\d+)?[A-Za-z])+", text) is None or len(text) > 40:
            raise ValueError(f"{text!r} is no layout")
        axes = tuple((letter, int(factor or 0)) for factor, letter in _AXIS.findall(text))
        letters = [letter for letter, _ in axes]
        primal = [letter for letter in letters if letter.isupper()]
        split = [letter.upper() for letter in letters if letter.islower()]
        has_factor = any(factor and letter.isupper() for letter, factor in axes)
        if has_factor or len(set(primal)) < len(primal) or not set(split) <= set(primal):
            raise ValueError(f"{text!r} is no layout")
        return cls(axes)

    @property
    def plain(self) -> str:
        """The primal axes alone: ``NCHW`` of ``NCHW16c``."""
        return "".join(letter for letter, _ in self.axes if letter.isupper())

    @property
    def is_blocked(self) -> bool:
        """Whether an axis is split."""
        return len(self.plain) < len(self.axes)

    def _groups(self) -> list[list[int]]:
        """For each primal axis the positions of it and of its parts, outermost first."""
        return [[index for index, (other, _) in enumerate(self.axes) if other.upper() == letter] for letter in self.plain]

    def resolve(self, shape: tuple[int, ...]) -> Layout:
        """This layout with every split factor taken from the shape of a tensor that has it.

        Raises:
            ValueError: The shape has another rank or other factors.
        """
        if len(shape) != len(self.axes):
            raise ValueError(f"a tensor of shape {shape} cannot have layout {self}")
        axes = []
        for (letter, factor), dim in zip(self.axes, shape, strict=True):
            if letter.islower() and factor not in (0, dim):
                raise ValueError(f"a tensor of shape {shape} cannot have layout {self}")
            axes.append((letter, dim if letter.islower() else 0))
        return Layout(tuple(axes))

    def unpack(self, shape: tuple[int, ...]) -> tuple[list[int], tuple[int, ...]]:
        """The permutation, then the shape, that bring a tensor of this layout into the plain one."""
        groups = self._groups()
        return [index for group in groups for index in group], tuple(prod(shape[index] for index in group) for group in groups)

    def pack(self, plain_shape: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        """The shape, then the permutation, that bring a tensor of the plain layout into this one.

        Raises:
            ValueError: A split factor is unknown or does not divide its axis.
        """
        groups = self._groups()
        split: list[int] = []
        for group, dim in zip(groups, plain_shape, strict=True):
            factors = [self.axes[index][1] for index in group[1:]]
            block = prod(factors)
            if block == 0 or dim % block:
                raise ValueError(f"shape {plain_shape} cannot be split into layout {self}")
            split += [dim // block, *factors]
        order = [index for group in groups for index in group]
        return tuple(split), [order.index(index) for index in range(len(order))]

    def packed_shape(self, plain_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in this layout of a tensor that has `plain_shape` in the plain one."""
        split, permutation = self.pack(plain_shape)
        return tuple(split[index] for index in permutation)

    def broadcasts(self, shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
        """Whether a tensor of this layout broadcasts against another in the plain form as it does in the blocked one.

        That is so if each split axis is the same in both, or has one element in `shape`.
        """
        if len(shape) != len(self.axes):
            return False
        split = [group for group in self._groups() if len(group) > 1]
        return all(all(shape[index] == other[index] for index in group) or all(shape[index] == 1 for index in group) for group in split)

    def __str__(self) -> str:
        return "".join(f"{factor or ''}{letter}" for letter, factor in self.axes)


def permutation(source: str, target: str) -> list[int]:
    """The axes of `source` in the order of `target`.

    Raises:
        ValueError: The two have different axes.
    """
    if sorted(source) != sorted(target):
        raise ValueError(f"layout {source!r} has other axes than {target!r}")
    return [source.index(letter) for letter in target]
