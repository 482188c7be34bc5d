"""The debug runtime's printed table, of every generation: with measurements, with start and end times, prefixed names or not."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from workbench.legacy.lines import BadLine, LineError

_TOTAL = "Total_time"
_NUMBER = r"-?[\d,]*\.?\d+(?:[eE][-+]?\d+)?|nan|inf|-"
_SHAPE = r"\([^)]*\)|\[[^\]]*\]|-"
_CELLS = {
    "Node Name": r"\S+",
    "Ops": r"\S+",
    "Time(us)": _NUMBER,
    "Time(%)": _NUMBER,
    "Start Time": r"\S+",
    "End Time": r"\S+",
    "Shape": _SHAPE,
    "Inputs": r"\d+|-",
    "Outputs": r"\d+|-",
    "Measurements(us)": r"\[[^\]]*\]|-",
}
"""Columns by name, with what a cell of each looks like: a table that was pasted has lost its alignment, never this."""
_NEEDED = ("Node Name", "Ops", "Time(us)")
_HEADING = re.compile("|".join(re.escape(name) for name in sorted(_CELLS, key=len, reverse=True)))


@dataclass(frozen=True)
class DebugRow:
    """One line of the table: one output of one node.

    Attributes:
        line: Its line in the text, from 1.
        node_name: Name of the node.
        ops: Name of its function.
        time_us: Its time.
        time_percent: Its share, as printed.
        shape: Shape of the output, in the layout of the rewritten program; None if the table has none that can be read.
        inputs: Number of inputs.
        outputs: Number of outputs; a node with several stands on as many lines, with its time repeated.
        measurements_us: Single measurements, where the table has them.
    """

    line: int
    node_name: str
    ops: str
    time_us: float
    time_percent: float | None
    shape: tuple[int, ...] | None
    inputs: int | None
    outputs: int | None
    measurements_us: tuple[float, ...]


@dataclass(frozen=True)
class DebugTable:
    """One table.

    Attributes:
        rows: Its lines, in the order of the text: by time, or by execution.
        total_us: What the table says all took; None if its last line is missing.
        bad: Lines that could not be read.
    """

    rows: tuple[DebugRow, ...]
    total_us: float | None
    bad: tuple[BadLine, ...]

    @property
    def nodes(self) -> tuple[DebugRow, ...]:
        """The first line of each node."""
        first: dict[str, DebugRow] = {}
        for row in self.rows:
            first.setdefault(row.node_name, row)
        return tuple(first.values())


def parse_debug_tables(content: str) -> tuple[DebugTable, ...]:
    """Every table in a text, which may have other lines around."""
    tables: list[DebugTable] = []
    lines = content.split("\n")
    number = 0
    while number < len(lines):
        columns = _columns(lines[number])
        number += 1
        if columns:
            table, number = _table(lines, number, columns)
            tables.append(table)
    return tuple(tables)


def _columns(line: str) -> tuple[str, ...]:
    """The columns that a heading names; empty if the line is none."""
    if not line.lstrip().startswith("Node Name"):
        return ()
    found = tuple(match.group() for match in _HEADING.finditer(line))
    return found if set(_NEEDED) <= set(found) and len(set(found)) == len(found) else ()


def _table(lines: list[str], number: int, columns: tuple[str, ...]) -> tuple[DebugTable, int]:
    """Read from the line after the heading; gives the number of the first line that is not read."""
    pattern = re.compile(r"\s*" + r"\s+".join(f"(?P<c{place}>{_CELLS[name]})" for place, name in enumerate(columns)) + r"\s*$")
    rows: list[DebugRow] = []
    bad: list[BadLine] = []
    while number < len(lines):
        line = lines[number]
        if not line.strip() or _columns(line):
            break
        number += 1
        if set(line.strip()) <= {"-", " ", "\t"}:
            continue
        if line.split()[0] == _TOTAL:
            return DebugTable(tuple(rows), _total(line), tuple(bad)), number
        try:
            rows.append(_row(number, pattern.match(line), columns))
        except LineError as error:
            bad.append(BadLine(number, str(error)))
    return DebugTable(tuple(rows), None, tuple(bad)), number


def _row(line: int, match: re.Match[str] | None, columns: tuple[str, ...]) -> DebugRow:
    if match is None:
        raise LineError(f"its cells do not fit the columns {', '.join(columns)}")
    cells = {name: match[f"c{place}"] for place, name in enumerate(columns)}
    time_us = _number(cells["Time(us)"])
    if time_us is None or time_us < 0:
        raise LineError(f"{cells['Time(us)']} is no time")
    return DebugRow(
        line=line,
        node_name=cells["Node Name"],
        ops=cells["Ops"],
        time_us=time_us,
        time_percent=_number(cells.get("Time(%)", "-")),
        shape=_shape(cells.get("Shape", "-")),
        inputs=_count(cells.get("Inputs", "-")),
        outputs=_count(cells.get("Outputs", "-")),
        measurements_us=tuple(float(item) for item in re.findall(r"[\d.]+(?:[eE][-+]?\d+)?", cells.get("Measurements(us)", ""))),
    )


def _total(line: str) -> float | None:
    numbers: list[Any] = [value for cell in line.split()[1:] if re.fullmatch(_NUMBER, cell) and (value := _number(cell)) is not None]
    return numbers[0] if numbers else None


def _number(cell: str) -> float | None:
    if cell in ("-", "nan", "inf"):
        return None
    value = float(cell.replace(",", ""))
    return value if math.isfinite(value) else None


def _count(cell: str) -> int | None:
    return None if cell == "-" else int(cell)


def _shape(cell: str) -> tuple[int, ...] | None:
    inner = cell[1:-1].strip() if cell != "-" else ""
    parts = [part.strip() for part in inner.split(",") if part.strip()]
    return tuple(map(int, parts)) if cell != "-" and all(part.isdecimal() for part in parts) else None
