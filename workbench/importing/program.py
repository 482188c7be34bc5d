"""What an imported Relay program says: its fused functions, and the operators behind each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.legacy.relay import parse_relay
from workbench.matching.fusion import FusedCall, fused_calls
from workbench.matching.simplify import Simplified, simplified
from workbench.matching.source import SourceGraph, source_graph
from workbench.matching.structure import Structure, structures
from workbench.records.origin import Origin


@dataclass(frozen=True)
class ImportedProgram:
    """A Relay program as its functions were compiled.

    Attributes:
        graph: Its operators.
        functions: Its distinct fused functions, in the order of their first calls.
    """

    graph: SourceGraph
    functions: tuple[Structure, ...]

    @property
    def is_fused(self) -> bool:
        """True if old TVM printed it after it had fused and rewritten it."""
        return self.graph.is_fused

    def operators(self, function: int, call: int) -> tuple[int, ...]:
        """Places of the operators of one call of a function."""
        calls = self.functions[function].calls
        return calls[min(call, len(calls) - 1)]

    def origin(self, operator: int) -> Origin:
        """What an operator is in the program's own words."""
        item = self.graph.operators[operator]
        return Origin(item.name, f"%{item.variable}" if item.variable else "the result", f"line {item.line}")


def read_program(text: str) -> ImportedProgram:
    """Read a source program, or one that old TVM has fused already.

    Raises:
        ModelError: It is no Relay, or not complete.
    """
    graph = source_graph(parse_relay(text))
    program = simplified(graph)
    found = structures(program, _fused_already(graph, program) or fused_calls(program))
    return ImportedProgram(graph, tuple(replace(item, hashes=_hashes(graph, item)) for item in found))


def _hashes(graph: SourceGraph, function: Structure) -> frozenset[str]:
    """What old TVM calls a function of a program that it has fused; the text says it at each call."""
    return frozenset({graph.operators[place].function_hash for call in function.calls for place in call} - {""})


def _fused_already(graph: SourceGraph, program: Simplified) -> tuple[FusedCall, ...]:
    """The calls of fused functions that the text itself has; empty for a source program."""
    members: dict[object, list[int]] = {}
    for place, node in enumerate(program.nodes):
        calls = {graph.operators[origin].call for origin in node.origins}
        call = next(iter(calls)) if len(calls) == 1 else None
        if node.origins:
            members.setdefault(call if call is not None else ("alone", place), []).append(place)
    if not any(isinstance(call, int) for call in members):
        return ()
    return tuple(FusedCall(tuple(places)) for places in sorted(members.values(), key=max))
