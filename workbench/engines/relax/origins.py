"""Origins of Relax bindings: kept in the names of the bound variables until fusion.

Importers ask an `OriginTable` for a name hint for every operator they emit. The name (``o<index>_``) survives the passes of the lowering;
a binding that a pass adds keeps no such name and belongs to the next named one (see `workbench.engines.relax.naming`). A binding that
already is a whole kernel, as a TE workload's, comes from several operators: its name refers to the group of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from workbench.records.origin import Origin

_NAME = re.compile(r"^o(\d+)_")


class OriginTable:
    """A growing list of source operators, and the names that refer to them."""

    def __init__(self) -> None:
        self._operators: list[Origin] = []
        self._groups: list[tuple[int, ...]] = []
        self._aliases: dict[str, int] = {}

    @property
    def operators(self) -> list[Origin]:
        """All source operators by their numbers; one that the model uses several times (a function's) is there several times."""
        return list(self._operators)

    @property
    def origins(self) -> list[Origin]:
        """All source operators, in the order in which they were added, each once."""
        return list(dict.fromkeys(self._operators))

    def add(self, op: str, name: str, location: str = "") -> str:
        """Remember a source operator; return the name hint for the bindings that come from it."""
        return self.add_group([Origin(op=op, name=name, location=location)])

    def add_group(self, origins: Sequence[Origin]) -> str:
        """Remember the source operators behind one binding; return the name hint for that binding."""
        first = len(self._operators)
        self._operators.extend(origins)
        return self._hint(range(first, len(self._operators)))

    def join(self, *binding_names: str) -> str:
        """The name hint for a binding in which a pass computes what several bindings computed before."""
        indices = (self.index(name) for name in binding_names)
        return self._hint(dict.fromkeys(number for index in indices if index is not None for number in self._groups[index]))

    def _hint(self, numbers: Iterable[int]) -> str:
        self._groups.append(tuple(numbers))
        return self.name_hint(len(self._groups) - 1)

    def alias(self, binding_name: str, hint: str) -> None:
        """Let a binding that already has a name, which cannot be changed, have the origin of a name hint."""
        index = self.index(hint)
        if index is None:
            raise ValueError(f"{hint} is no name hint of this table")
        self._aliases[binding_name] = index

    @staticmethod
    def name_hint(index: int) -> str:
        """The name hint that refers to an index; the block builder may append digits to it."""
        return f"o{index}_"

    def index(self, binding_name: str) -> int | None:
        """The index that a binding's name refers to; None for a name of a pass's own making."""
        match = _NAME.match(binding_name)
        if match is None:
            return self._aliases.get(binding_name)
        index = int(match.group(1))
        return index if index < len(self._groups) else None

    def numbers_at(self, index: int) -> tuple[int, ...]:
        """Numbers of the source operators that an index refers to."""
        return self._groups[index]

    def at(self, index: int) -> tuple[Origin, ...]:
        """The source operators that an index refers to: one, or a group."""
        return tuple(dict.fromkeys(self._operators[number] for number in self._groups[index]))

    def lookup(self, binding_name: str) -> tuple[Origin, ...]:
        """The source operators that a binding's name refers to; none for a name of a pass's own making."""
        index = self.index(binding_name)
        return () if index is None else self.at(index)

    def numbers(self, binding_name: str) -> tuple[int, ...]:
        """Numbers of the source operators that a binding's name refers to."""
        index = self.index(binding_name)
        return () if index is None else self._groups[index]
