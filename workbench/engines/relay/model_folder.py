"""The lowered model's files, written by the old TVM: moved into place whole, and looked at before it reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import SessionError
from workbench.escaping import plain
from workbench.models import check_trust
from workbench.records.request import ModelSource
from workbench.regular_files import read_text
from workbench.whole_files import whole_folder

MODULE, FACTS, WORKLOAD = "module.json", "kernels.json", "workload.json"


def put(written: Path, directory: Path) -> None:
    """Copy a written model to a directory, which appears whole or not at all; what was there stays until then.

    Raises:
        OSError: The disk is full, or refuses to be written.
    """
    with whole_folder(directory) as folder:
        shutil.copytree(written, folder, dirs_exist_ok=True)


def facts_in(directory: Path) -> Mapping[str, Any]:
    """What was told of the model; both files are opened here first, since the old TVM would wait for a pipe.

    Raises:
        SessionError: A file is missing or damaged.
    """
    try:
        json.loads(read_text(directory / MODULE))
        facts = json.loads(read_text(directory / FACTS))
        return dict(facts)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise SessionError(
            f"The program in {plain(str(directory), 120)} is missing or damaged: {plain(str(error), 200)}.", "Profile the model again."
        ) from error


def put_workload(written: Path, workload: str, arguments: Sequence[Any]) -> None:
    """Note whose TE workload the written model is: whoever reads it has to import that first."""
    (written / WORKLOAD).write_text(json.dumps({"workload": workload, "args": list(arguments)}), encoding="utf-8")


def workload_in(directory: Path, *, trust: bool) -> tuple[str, list[Any]] | None:
    """The user's TE workload that a model is, and its arguments; None if it is none.

    Raises:
        ModelError: Its code has to run, which the user did not allow.
        SessionError: The note is damaged.
    """
    try:
        values = json.loads(read_text(directory / WORKLOAD))
        workload, arguments = str(values["workload"]), list(values["args"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise SessionError(
            f"The program in {plain(str(directory), 120)} is damaged: {plain(str(error), 200)}.", "Profile the model again."
        ) from error
    check_trust(ModelSource(kind="workload", name=workload, workload=workload, trust=trust))
    return workload, arguments
