"""Predicts how fast a candidate is from features of its loops, and learns from what was measured.

Features are TVM's per-store features (of Ansor, Zheng et al., OSDI 2020, appendix B): one vector a buffer store. A candidate is the sum
and the maximum over its stores, so that one matrix row stands for it and XGBoost needs no objective of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xgboost

LEAST_SAMPLES = 8
_MOST_SAMPLES = 768
_RECENT = 256
_ROUNDS = 60
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
        threads: Threads that fit.
    """

    def __init__(self, *, seed: int, threads: int) -> None:
        self._parameters = {**_PARAMETERS, "seed": seed % 2**31, "nthread": threads}
        self._features: list[np.ndarray[Any, Any]] = []
        self._times_us: list[float] = []  # infinity for a failed one
        self._transferred: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None
        self._booster: xgboost.Booster | None = None

    @property
    def is_fitted(self) -> bool:
        """True once enough is known to predict."""
        return self._booster is not None

    def add(self, features: np.ndarray[Any, Any], time_us: float | None) -> None:
        """Take note of a measured candidate; None for one that failed."""
        self._features.append(features)
        self._times_us.append(np.inf if time_us is None else time_us)

    def transfer(self, features: Sequence[np.ndarray[Any, Any]], speeds: Sequence[float]) -> None:
        """Learn from another task: relative speeds, 1 for the best of that task."""
        new = (np.stack(features), np.asarray(speeds, np.float32))
        if self._transferred is not None:
            new = (np.concatenate([self._transferred[0], new[0]]), np.concatenate([self._transferred[1], new[1]]))
        self._transferred = new

    def fit(self) -> None:
        """Fit to what is known, if that is enough; the time it takes is bounded however much that is."""
        rows, speeds = self._samples()
        if len(rows) < LEAST_SAMPLES:
            return
        data = xgboost.DMatrix(rows, label=speeds, weight=0.1 + speeds, nthread=self._parameters["nthread"])
        self._booster = xgboost.train(self._parameters, data, num_boost_round=_ROUNDS)

    def predict(self, rows: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any] | None:
        """Relative speeds of candidates; None while too little is known."""
        if self._booster is None:
            return None
        predicted: np.ndarray[Any, Any] = self._booster.inplace_predict(np.stack(rows))
        return predicted

    def _samples(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The newest samples and the fastest ones; with few of its own, those of other tasks too."""
        times = np.asarray(self._times_us)
        kept = np.arange(len(times))
        if len(times) > _MOST_SAMPLES:
            older = kept[:-_RECENT]
            fastest = older[np.argsort(times[older], kind="stable")[: _MOST_SAMPLES - _RECENT]]
            kept = np.concatenate([np.sort(fastest), kept[-_RECENT:]])
        finite = times[np.isfinite(times)]
        best = finite.min() if len(finite) else 1.0
        rows = np.stack([self._features[index] for index in kept]) if len(kept) else np.empty((0, 0), np.float32)
        speeds = (best / times[kept]).astype(np.float32) if len(kept) else np.empty(0, np.float32)
        if self._transferred is None or len(kept) >= _RECENT:
            return rows, speeds
        if not len(kept):
            return self._transferred
        return np.concatenate([rows, self._transferred[0]]), np.concatenate([speeds, self._transferred[1]])
