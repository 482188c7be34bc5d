"""Predicts how fast a candidate is from features of its loops, and learns from what was measured.

Features are TVM's per-store features (of Ansor, Zheng et al., OSDI 2020, appendix B): one vector a buffer store. A candidate is the sum
and the maximum over its stores, so that one matrix row stands for it and XGBoost needs no objective of our own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xgboost

LEAST_SAMPLES = 8
_MOST_SAMPLES = 512
_RECENT = 192
_ROUNDS = 50
_NEWS = 0.06
"""Share of new samples from which on a fit is worth its time."""

_PARAMETERS = {
    "max_depth": 6,
    "eta": 0.2,
    "min_child_weight": 0.5,
    "subsample": 1.0,
    "colsample_bytree": 0.5,
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_bin": 64,
    "verbosity": 0,
}


def summary(stores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One vector for a candidate from its per-store features.

    Args:
        stores: Shape (number of stores, 164).

    Returns:
        Shape (328,): sum, then maximum over the stores.
    """
    return np.concatenate([stores.sum(axis=0), stores.max(axis=0)]).astype(np.float32)


class CostModel:
    """Gradient-boosted trees on relative speed: the task's best time divided by the candidate's, 0 for a failed one.

    Args:
        seed: Seed of the column sampling.
    """

    def __init__(self, *, seed: int) -> None:
        self._parameters = {**_PARAMETERS, "seed": seed % 2**31, "nthread": 1}  # so little data is fitted faster by one thread
        self._features: list[np.ndarray[Any, Any]] = []
        self._times_us: list[float] = []  # infinity for a failed one
        self._transferred: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None
        self._booster: xgboost.Booster | None = None
        self._columns = np.empty(0, np.int64)
        self._news = 0

    @property
    def is_fitted(self) -> bool:
        """True once enough is known to predict."""
        return self._booster is not None

    def add(self, features: np.ndarray[Any, Any], time_us: float | None) -> None:
        """Take note of a measured candidate; None for one that failed."""
        self._features.append(features)
        self._times_us.append(math.inf if time_us is None else time_us)
        self._news += 1
        if len(self._times_us) >= 2 * _MOST_SAMPLES:
            self._forget()

    def transfer(self, features: Sequence[np.ndarray[Any, Any]], speeds: Sequence[float]) -> None:
        """Learn from another task: relative speeds, 1 for the best of that task."""
        new = (np.stack(features), np.asarray(speeds, np.float32))
        if self._transferred is not None:
            new = (np.concatenate([self._transferred[0], new[0]]), np.concatenate([self._transferred[1], new[1]]))
        self._transferred = new
        self._news += len(features)

    def fit(self) -> None:
        """Fit to what is known, if that is enough and new enough; the time it takes is bounded however much is known."""
        if self._booster is not None and self._news < _NEWS * len(self._times_us):
            return
        rows, speeds = self._samples()
        if len(rows) < LEAST_SAMPLES:
            return
        self._news = 0
        self._columns = np.flatnonzero(rows.max(axis=0) > rows.min(axis=0))  # most features are the same for all schedules of a kernel
        if not len(self._columns):
            return
        data = xgboost.DMatrix(rows[:, self._columns], label=speeds, weight=0.1 + speeds, nthread=1)
        self._booster = xgboost.train(self._parameters, data, num_boost_round=_ROUNDS)

    def predict(self, rows: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any] | None:
        """Relative speeds of candidates; None while too little is known."""
        if self._booster is None:
            return None
        predicted: np.ndarray[Any, Any] = self._booster.inplace_predict(np.stack(rows)[:, self._columns])
        return predicted

    def _forget(self) -> None:
        """Keep the newest samples and the fastest ones, so that memory is bounded too."""
        order = sorted(range(len(self._times_us) - _RECENT), key=lambda index: (self._times_us[index], index))
        kept = [*sorted(order[: _MOST_SAMPLES - _RECENT]), *range(len(self._times_us) - _RECENT, len(self._times_us))]
        self._features = [self._features[index] for index in kept]
        self._times_us = [self._times_us[index] for index in kept]

    def _samples(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """What is known of the task; as long as that is little, what is known of others too."""
        times = np.asarray(self._times_us)
        finite = times[np.isfinite(times)]
        best = finite.min() if len(finite) else 1.0
        rows = np.stack(self._features) if len(times) else np.empty((0, 0), np.float32)
        speeds = (best / times).astype(np.float32) if len(times) else np.empty(0, np.float32)
        if self._transferred is None or len(times) >= _RECENT:
            return rows, speeds
        if not len(times):
            return self._transferred
        return np.concatenate([rows, self._transferred[0]]), np.concatenate([speeds, self._transferred[1]])
