"""What matching says of a debug table beside what old TVM itself knows of each row (`tests/relay/old_tvm_truth.py`)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.importing.program import ImportedProgram, read_program
from workbench.legacy.debug.table import parse_debug_tables
from workbench.matching.rows import Match, NodeRow, match_rows

_COMPILERS_OWN = re.compile(r"(?:tvmgen_default_)?fused_(?:layout_transform_?|\d+_?)+$")


@dataclass(frozen=True)
class Verdict:
    """One row: what was said of it, and what is wrong with that; empty if nothing is."""

    node: str
    match: Match
    wrong: str


@dataclass(frozen=True)
class _Truth:
    """What old TVM knows.

    Attributes:
        rows: Its rows by the names of their nodes.
        readers: The nodes that read each.
        repeated: Names that several nodes have.
    """

    rows: Mapping[str, Any]
    readers: Mapping[str, list[str]]
    repeated: frozenset[str]


def verdicts(folder: Path, known: Path | None = None) -> list[Verdict]:
    """Match the table in a folder with the program's text, and judge each row; the graph is not looked at.

    Args:
        folder: Has the table and the text.
        known: What old TVM itself knows of each row; None takes ``truth.json`` in the folder.
    """
    text = (folder / "model.relay.txt").read_text(encoding="utf-8")
    program = read_program(text)
    (table,) = parse_debug_tables((folder / "debug_table.txt").read_text(encoding="utf-8"))
    matches = match_rows([NodeRow(row.node_name, row.ops, row.shape, row.time_us) for row in table.nodes], program.functions)
    rows = json.loads((known or folder / "truth.json").read_text(encoding="utf-8"))["rows"]
    truth = {row["node"]: row for row in rows}
    assert set(truth) == set(matches)
    names = Counter(row["node"] for row in rows)
    origins = {node: _origins(program, match) for node, match in matches.items()}
    users = _users(text, {name for row in truth.values() for name in row["parameters"]})
    readers = {name: [other for other, item in truth.items() if name in item["reads"]] for name in truth}
    known_rows = _Truth(truth, readers, frozenset(name for name, count in names.items() if count > 1))
    return [Verdict(node, matches[node], _wrong(row, known_rows, program, origins, users)) for node, row in truth.items()]


def _origins(program: ImportedProgram, match: Match) -> frozenset[int]:
    """The source operators that a row is said to be of."""
    return frozenset() if match.structure is None else frozenset(program.functions[match.structure].calls[match.call])


def _users(text: str, names: set[str]) -> dict[str, set[int]]:
    """The lines that read each parameter."""
    found: dict[str, set[int]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if "def @main" not in line:
            for name in names.intersection(re.findall(r"%([A-Za-z_]\w*)", line)):
                found.setdefault(name, set()).add(number)
    return found


def _wrong(
    row: Mapping[str, Any],
    truth: _Truth,
    program: ImportedProgram,
    origins: Mapping[str, frozenset[int]],
    users: Mapping[str, set[int]],
) -> str:
    said = origins[row["node"]]
    if row["node"] in truth.repeated:
        return ""  # the table has one row for several
    if not said:
        return "" if _COMPILERS_OWN.fullmatch(row["function"]) else "it is an operator of the program"
    if _COMPILERS_OWN.fullmatch(row["function"]):
        return "it is the compiler's own"
    operators = program.graph.operators
    lines = {operators[place].line for place in said}
    should = [users[name] for name in row["parameters"]]
    several = Counter(place for known in origins.values() for place in known)
    reading = set().union(*users.values()) - {operators[place].line for place in said if several[place] > 1}  # one of these rows reads the parameters
    behind = {operators[place].line for node in truth.readers[row["node"]] for place in origins[node]}  # of a weight that is scaled first
    before = [users[name] for node in row["reads"] for name in truth.rows[node]["parameters"]]
    if not all((lines | behind) & readers for readers in should) or (lines & reading).difference(*should, *before):
        return f"its operators stand in lines {sorted(lines & reading)}, and those that read its parameters in {[sorted(item) for item in should]}"
    if should or any(name in truth.repeated for name in row["reads"]):  # of what it reads the name does not tell which one it is
        return ""
    read = {place for node in row["reads"] for place in _behind(node, truth.rows, origins, said)}
    for place in said:
        for source in _sources(program, place, {item for known in origins.values() for item in known}):
            if source not in read | said:
                return f"it does not read what {operators[place].name} in line {operators[place].line} reads"
    return ""


def _behind(node: str, truth: Mapping[str, Any], origins: Mapping[str, frozenset[int]], said: frozenset[int] = frozenset()) -> frozenset[int]:
    """The operators of a row; of the compiler's own row, and of one that is of the same operator, those of the rows that it reads as well."""
    if origins[node] and not origins[node] & said:
        return origins[node]
    return origins[node].union(*(_behind(item, truth, origins, said) for item in truth[node]["reads"]))


def _sources(program: ImportedProgram, place: int, known: set[int]) -> set[int]:
    """The operators with rows that an operator reads, those without one passed over."""
    found: set[int] = set()
    for tensor in program.graph.operators[place].inputs:
        if tensor.operator is not None:
            found |= {tensor.operator} if tensor.operator in known else _sources(program, tensor.operator, known)
    return found
