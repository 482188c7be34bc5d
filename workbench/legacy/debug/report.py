"""The profiler's printed report (``Report`` of TVM 0.8 and later): ``Name  Duration (us)  Percent  Device  Count  Argument Shapes``."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from workbench.legacy.lines import BadLine, LineError

_DURATION = "Duration (us)"
_HEADINGS = ("Name", _DURATION, "Percent", "Device", "Count", "Argument Shapes", "Hash", "Data Layout", "Kernel Layout", "Output Layout")
_HEADING = re.compile("|".join(re.escape(name) for name in sorted(_HEADINGS, key=len, reverse=True)))
_SUMS = ("Sum", "Total")
_TENSOR = re.compile(r"([a-z]+\d+(?:x\d+)?|bool|handle)\[([^\]]*)\]")


@dataclass(frozen=True)
class ReportRow:
    """One line: a function, over all of its calls or for one.

    Attributes:
        line: Its line in the text, from 1.
        name: Name of the function.
        time_us: Duration of all its calls together.
        percent: Its share, as printed.
        device: E.g. ``cpu0``.
        count: Number of calls.
        shapes: Shapes and dtypes of its arguments.
        structural_hash: Hash of its fused function, where the report has one.
    """

    line: int
    name: str
    time_us: float
    percent: float | None
    device: str
    count: int
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    structural_hash: str


@dataclass(frozen=True)
class Report:
    """One report.

    Attributes:
        rows: Its lines, in the order of the text.
        total_us: What the line "Total" says; None without one.
        bad: Lines that could not be read.
    """

    rows: tuple[ReportRow, ...]
    total_us: float | None
    bad: tuple[BadLine, ...]


def parse_reports(content: str) -> tuple[Report, ...]:
    """Every report in a text, which may have other lines around."""
    lines = content.split("\n")
    reports: list[Report] = []
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("Name") and _DURATION in line:
            reports.append(_report(lines, number, line))
    return tuple(reports)


def _report(lines: list[str], number: int, heading: str) -> Report:
    """Read from the line after the heading to the first empty one."""
    columns = [(match.group(), match.end()) for match in _HEADING.finditer(heading)]
    rows: list[ReportRow] = []
    bad: list[BadLine] = []
    total_us = None
    for place, line in enumerate(lines[number:], start=number + 1):
        if not line.strip():
            break
        if set(line.strip()) <= {"-", " "}:
            continue
        try:
            cells = _cells(line, columns)
            if cells["Name"] not in _SUMS:
                rows.append(_row(place, cells))
            elif cells["Name"] == "Total":
                total_us = _number(cells[_DURATION])
        except (LineError, KeyError, ValueError) as error:
            bad.append(BadLine(place, f"its cells do not fit the heading: {error}"))
    return Report(tuple(rows), total_us, tuple(bad))


def _cells(line: str, columns: list[tuple[str, int]]) -> dict[str, str]:
    """The cells of a line: the first is set to the left, the others end where their headings end."""
    name, _, duration = line[: columns[1][1]].rstrip().rpartition(" ")
    cells = {"Name": name.strip() or duration, columns[1][0]: duration if name.strip() else ""}
    for (_, start), (heading, end) in itertools.pairwise(columns[1:]):
        cells[heading] = line[start:end].strip()
    return cells


def _row(line: int, cells: dict[str, str]) -> ReportRow:
    percent, count = cells.get("Percent", ""), cells.get("Count", "")
    return ReportRow(
        line=line,
        name=cells["Name"],
        time_us=_number(cells[_DURATION]),
        percent=_number(percent) if percent else None,
        device=cells.get("Device", ""),
        count=int(_number(count)) if count else 1,
        shapes=tuple((dtype, _shape(extents)) for dtype, extents in _TENSOR.findall(cells.get("Argument Shapes", ""))),
        structural_hash=cells.get("Hash", ""),
    )


def _shape(extents: str) -> tuple[int, ...]:
    return tuple(int(extent) for extent in extents.split(",") if extent.strip())


def _number(cell: str) -> float:
    value = float(cell.replace(",", ""))
    if not 0 <= value < 1e15:
        raise LineError(f"{cell} is no number of a report")
    return value
