"""Origins of Relax bindings: kept in the names of the bound variables until fusion.

Importers ask an `OriginTable` for a name hint for every operator they emit. The name (``o<index>_``) survives the passes of the lowering;
a binding that a pass adds keeps no such name and belongs to the next named one (see `workbench.engines.relax.naming`).
"""

from __future__ import annotations

import re

from workbench.records.origin import Origin

_NAME = re.compile(r"^o(\d+)_")


class OriginTable:
    """A growing list of source operators, and the names that refer to them."""

    def __init__(self, origins: list[Origin] | None = None) -> None:
        self.origins: list[Origin] = list(origins or [])
        self._aliases: dict[str, int] = {}

    def add(self, op: str, name: str, location: str = "") -> str:
        """Remember a source operator; return the name hint for the bindings that come from it."""
        self.origins.append(Origin(op=op, name=name, location=location))
        return self.name_hint(len(self.origins) - 1)

    def alias(self, binding_name: str, op: str, name: str, location: str = "") -> None:
        """Remember a source operator whose binding already has a name that cannot be changed."""
        self.add(op, name, location)
        self._aliases[binding_name] = len(self.origins) - 1

    @staticmethod
    def name_hint(index: int) -> str:
        """The name hint that refers to an origin; the block builder may append digits to it."""
        return f"o{index}_"

    def index(self, binding_name: str) -> int | None:
        """Index of the origin that a binding's name refers to; None for a name of a pass's own making."""
        match = _NAME.match(binding_name)
        if match is None:
            return self._aliases.get(binding_name)
        index = int(match.group(1))
        return index if index < len(self.origins) else None

    def lookup(self, binding_name: str) -> Origin | None:
        """The origin that a binding's name refers to; None for a name of a pass's own making."""
        index = self.index(binding_name)
        return None if index is None else self.origins[index]
