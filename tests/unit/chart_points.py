"""Trials as points, made of a few words: what the tests of charts and of the monitor share."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from workbench.charts.columns import TrialColumns
from workbench.records.trial import OK
from workbench.records.trial_point import TrialPoint


def point(cursor: int, time_us: float | None = None, **changes: Any) -> TrialPoint:
    values: dict[str, Any] = {
        "cursor": cursor,
        "task": "conv",
        "number": cursor - 1,
        "status": OK,
        "origin": "baseline" if cursor == 1 else "search",
        "conditions": "here",
        "measured_at": 1000.0 + cursor,
        "time_us": time_us,
    }
    return TrialPoint(**{**values, **changes})


def module_of(name: str) -> str:
    """A module that a tuning database can hold."""
    text = json.dumps({"root_index": 0, "nodes": [name]}).encode()
    return base64.b64encode(len(text).to_bytes(8, "little") + text).decode()


def columns_of(points: Iterable[TrialPoint]) -> TrialColumns:
    columns = TrialColumns()
    columns.extend(list(points))
    return columns
