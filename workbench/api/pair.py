"""Reads two sessions for a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.analysis.session_pair import Known, SessionPair, Side, known, side_by_side
from workbench.errors import SessionError
from workbench.escaping import plain
from workbench.records.comparison import Comparison
from workbench.session import SessionDirectory, stored_comparison


def compare_sessions(first: str | Path, second: str | Path) -> SessionPair:
    """Two sessions side by side, kernel by kernel: before and after an upgrade of TVM, two targets, two budgets.

    Raises:
        SessionError: One of them is no session, or holds no profile.
    """
    sides = [_side(SessionDirectory.open(Path(path))) for path in (first, second)]
    return side_by_side(*sides)


def _side(directory: SessionDirectory) -> Side:
    with directory.store() as store:
        profile, manifest = store.profile(), store.manifest()
        hashes, tasks = store.structural_hashes(), store.trials.progress()
        applied = stored_comparison(store).comparison
    if profile is None:
        raise SessionError(f"The session in {plain(str(directory.path), 120)} has no profile yet.", "Profile the model first.")
    versions = _mapping(manifest.get("versions"))
    facts = {
        "model": profile.model,
        "target": str(_mapping(manifest.get("target")).get("description", profile.target)),
        "threads": str(profile.threads),
        "processor": str(_mapping(_mapping(manifest.get("machine")).get("cpu")).get("model", "unknown")),
        **{f"version of {name}": str(value) for name, value in versions.items()},
    }
    shown = {name: plain(value, 80) for name, value in facts.items()}
    return Side(directory.path.name, profile, hashes, tuple(tasks), shown, _tuned(applied))


def _tuned(comparison: Comparison | None) -> Known | None:
    """One run of the applied model; None where nothing is applied."""
    if comparison is None or not comparison.applied:
        return None
    return known(comparison.total.tuned_us, comparison.total.tuned_us_iqr, comparison.rounds)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
