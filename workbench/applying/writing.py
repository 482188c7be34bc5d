"""What lies beside an applied model: the records that stock TVM applies, and how the model was verified."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.applying.applier import Outcome
from workbench.errors import InputError
from workbench.escaping import plain
from workbench.records.comparison import Comparison
from workbench.regular_files import open_regular
from workbench.tuning_database import DatabaseWriter
from workbench.tuning_database.json_text import without_truth_values

VERDICT = "verify.json"
_FORMAT = "workbench-tuned"
_VERSION = 1
_CHUNK_BYTES = 2**20
_MOST_TEXT = 2**26


def write_database(folder: Path, outcome: Outcome, target: Mapping[str, Any]) -> tuple[str, ...]:
    """Write the records that are used, and no others, as a MetaSchedule database; returns notes on those that it cannot hold.

    An engine that keeps its records in a form of its own has written them already.

    Args:
        folder: Of the model.
        outcome: What applying gave.
        target: TVM's target of the records.
    """
    notes: list[str] = []
    if not any(applied.workload[0] for applied in outcome.applied.values()) and outcome.applied:
        return ()
    with DatabaseWriter(folder) as writer:
        for choice in outcome.used:
            if choice.schedule is None:
                continue
            applied = outcome.applied[choice.task.name]
            structural_hash, module = applied.workload
            try:
                writer.append(
                    structural_hash=structural_hash,
                    module=module,
                    trace=without_truth_values(json.loads(choice.schedule.trace)),
                    run_secs=[choice.time_us / 1e6],
                    target=dict(target),
                    args_info=list(applied.arguments),
                )
            except InputError as error:
                notes.append(f"The database lacks trial {choice.trial} of {plain(choice.task.name)}: {plain(error.message, 300)}")
    return tuple(notes)


def write_verdict(folder: Path, comparison: Comparison) -> None:
    """Write how the model was verified and compared, and the digests of the other files."""
    files = {path.name: _digest(path) for path in sorted(folder.iterdir()) if path.is_file()}
    values = {"format": _FORMAT, "version": _VERSION, **comparison.to_dict(), "files": files}
    (folder / VERDICT).write_text(json.dumps(values, indent=2, ensure_ascii=True, allow_nan=False) + "\n", encoding="utf-8")


def read_verdict(folder: Path) -> tuple[Comparison, tuple[str, ...]]:
    """What was written of an applied model, and the names of its files that are not what was written, or are missing.

    Raises:
        ValueError: ``verify.json`` is damaged.
        OSError: It cannot be read, is a link, or is no regular file.
    """
    with os.fdopen(open_regular(folder / VERDICT), encoding="utf-8") as file:
        text = file.read(_MOST_TEXT + 1)
    if len(text) > _MOST_TEXT:
        raise ValueError("it is too long")
    values = json.loads(text)
    comparison = Comparison.from_dict(values)
    files = values.get("files")
    if not isinstance(files, dict) or not files:
        raise ValueError("it lists no files")
    return comparison, tuple(str(name) for name, digest in files.items() if "/" in name or _digest_or_nothing(folder / name) != digest)


def _digest_or_nothing(path: Path) -> str:
    try:
        return _digest(path)
    except OSError:  # it is missing, is a link, a folder or a pipe, or cannot be read
        return ""


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with os.fdopen(open_regular(path), "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
