"""Filters and merges databases; pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from workbench.records.target import TargetSpec
from workbench.tuning_database.content import Database, TuningRecord
from workbench.tuning_database.json_text import canonical, without_truth_values

_IRRELEVANT = frozenset({"keys", "tag", "host", "device", "model", "libs", "from_device", "l2_cache_size_bytes"})
"""Options of a target that do not decide the code of a scheduled kernel."""


def for_target(database: Database, target: TargetSpec | Mapping[str, Any]) -> Database:
    """The records that were measured for this target; records without a target are left out.

    Two targets are the same if their kind and all options that decide the code of a kernel are: ``mcpu``, ``mattr``, ``mtriple``,
    ``arch``, ``num-cores``, the limits and whatever else a target may say. The order of keys and of ``mattr``, the names (``keys``,
    ``tag``, ``model``), the host and the libraries do not count; an option that is empty counts as left out.
    """
    wanted = decisive(target.options if isinstance(target, TargetSpec) else target)
    known: dict[str, bool] = {}
    for record in database.records:
        if record.target_json not in known:
            options = record.target
            known[record.target_json] = options is not None and decisive(options) == wanted
    return replace(database, records=tuple(record for record in database.records if known[record.target_json]))


def merge(databases: Iterable[Database]) -> Database:
    """All records together in their order; of records with the same workload, trace and target the fastest stays.

    The lines of the records are still those of their own files.
    """
    parts = tuple(databases)
    records, duplicates = without_duplicates(record for part in parts for record in part.records)
    bad_lines = tuple(line for part in parts for line in part.bad_lines)
    return Database(records, bad_lines, duplicates + sum(part.duplicates for part in parts))


def without_duplicates(records: Iterable[TuningRecord]) -> tuple[tuple[TuningRecord, ...], int]:
    """The records without those that another equals or beats, and how many were left out; the place is that of the first."""
    best: dict[tuple[str, str, str], TuningRecord] = {}
    count = 0
    for record in records:
        count += 1
        # The module is the workload: two hashes of one module differ only if one was edited.
        key = (record.workload.module, record.trace_json, record.target_json)
        known = best.get(key)
        if known is None or _is_faster(record, known):
            best[key] = record
    return tuple(best.values()), count - len(best)


def _is_faster(record: TuningRecord, known: TuningRecord) -> bool:
    if record.time_us is None:
        return False
    return known.time_us is None or record.time_us < known.time_us


def decisive(options: Mapping[str, Any]) -> str:
    """What of a target decides the code of a kernel, as text that is equal for equal targets."""
    kept = {name: value for name, value in options.items() if name not in _IRRELEVANT and value not in (None, "", [], {})}
    features = kept.get("mattr")
    if isinstance(features, str):
        features = [feature.strip() for feature in features.split(",")]
    if isinstance(features, list):
        kept["mattr"] = sorted(str(feature) for feature in features)
    return canonical(without_truth_values(kept), sort_keys=True)
