"""The auto-scheduler's ``total_latency.tsv``: the estimated latency of the whole model over a search."""

from __future__ import annotations

from workbench.legacy.lines import BadLine, LineError, Parsed
from workbench.records.old_search import LatencyPoint

_FIELDS = ("ElapsedTime(s)", "EstimatedLatency(ms)", "Trials")
_NOTHING = "N/A"


def parse_total_latency(content: str) -> Parsed[LatencyPoint]:
    """Read the file; damaged lines are set aside."""
    points: list[LatencyPoint] = []
    bad: list[BadLine] = []
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            points.append(_point(line.strip().split("\t")))
        except ValueError as error:
            bad.append(BadLine(number, str(error)))
    return Parsed(tuple(points), tuple(bad))


def _point(cells: list[str]) -> LatencyPoint:
    if tuple(cells[0::2]) != _FIELDS or len(cells) != 2 * len(_FIELDS):
        raise LineError(f"its fields are not {', '.join(_FIELDS)}")
    latency_us = None if cells[3] == _NOTHING else 1e3 * _finite(cells[3])
    return LatencyPoint(_finite(cells[1]), latency_us, int(cells[5]))


def _finite(cell: str) -> float:
    value = float(cell)
    if not 0 <= value < 1e15:
        raise LineError(f"{value} is no time")
    return value
