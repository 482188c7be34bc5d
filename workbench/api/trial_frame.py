"""Trials as a data frame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING

from workbench.records.trial import Trial

if TYPE_CHECKING:
    import pandas as pd


def trial_frame(trials: Iterable[Trial]) -> pd.DataFrame:
    """One row a trial: its median in microseconds, then everything that is recorded of it; without trials the columns alone."""
    import pandas as pd  # noqa: PLC0415 - pandas takes 0.3 s to load, and only this function needs it

    rows = [{"time_us": trial.time_us, **trial.to_dict()} for trial in trials]
    return pd.DataFrame(rows, columns=["time_us", *(item.name for item in fields(Trial))])
