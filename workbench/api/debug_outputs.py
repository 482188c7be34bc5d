"""Intermediate tensors of a model: asks the worker to write them, reads them, and leaves no file behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from workbench.api.given import row_numbers
from workbench.errors import SelectionError, SessionError
from workbench.escaping import plain, plain_value
from workbench.session import SessionDirectory

Arrays = dict[int, list[np.ndarray[Any, Any]]]
Ask = Callable[[str, dict[str, Any]], dict[str, Any]]


def debug_outputs(directory: SessionDirectory, ask: Ask, rows: Iterable[int] | int | str, *, count: int) -> Arrays:
    """Output tensors of kernel calls; see `workbench.api.Session.debug_outputs`.

    Args:
        directory: The session.
        ask: Has its worker answer a command.
        rows: Row numbers.
        count: How many kernel calls there are.
    """
    wanted = row_numbers(rows, count)
    for row in wanted:
        if not 0 <= row < count:
            raise SelectionError(f"Row {plain_value(row, 24)} has no outputs.", f"Kernel calls are the rows 0 to {count - 1}.")
    answer = ask("outputs", {"rows": list(wanted)})
    folder = directory.outputs(answer.get("folder", ""))
    try:
        return {int(row): [_read_array(folder, item) for item in files] for row, files in answer["files"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise SessionError(f"The worker's answer in {plain(str(directory.path), 120)} cannot be read.", "Try again.") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read_array(folder: Path, item: dict[str, str]) -> np.ndarray[Any, Any]:
    """One array that the worker wrote; its dtype may be one of ml_dtypes, which .npy keeps as raw bytes only."""
    file = folder / item["file"]
    if file.parent != folder or file.is_symlink() or not file.is_file():
        raise ValueError(item["file"])
    array: np.ndarray[Any, Any] = np.load(file, allow_pickle=False)
    dtype = np.dtype(getattr(ml_dtypes, item["dtype"], item["dtype"]))
    return array if array.dtype == dtype else array.view(dtype)
