"""Recorded trials of a session made again: as a library, or measured once more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.api.answers import decoded
from workbench.api.given import text
from workbench.api.winner import trial_number, winner
from workbench.errors import SessionError
from workbench.escaping import plain
from workbench.kernel import OnEvent
from workbench.records.rerun import Rerun
from workbench.session import SessionDirectory

Run = Callable[..., dict[str, Any]]


class Replayer:
    """Replays the trials of one session; its methods are those of `workbench.api.Session` of the same names.

    Args:
        directory: The session.
        run: Has the worker do something: its kind, its arguments, ``on_event`` and ``wanted``.
    """

    def __init__(self, directory: SessionDirectory, run: Run) -> None:
        self._directory = directory
        self._run = run

    def write_library(self, task: str, trial: int | None) -> Path:
        """Build a task's kernel into ``artifacts/`` of the session."""
        answer = self._run("library", {"task": text("task", task), "trial": self._trial_of(task, trial)})
        artifacts = self._directory.artifacts
        path = artifacts / str(answer.get("file", ""))
        if path.parent != artifacts or artifacts.is_symlink() or path.is_symlink() or not path.is_file():
            raise SessionError(f"The worker wrote no library in {plain(str(artifacts), 120)}.", "Try again.")
        return path

    def rerun(self, task: str, trial: int | None, *, device: int | None, on_event: OnEvent | None, wanted: Callable[[], bool] | None) -> Rerun:
        """Lower and measure a recorded trial again."""
        arguments = {"task": task, "trial": self._trial_of(task, trial), "device": None if device is None else trial_number(device)}
        return decoded(Rerun.from_dict, self._run("rerun", arguments, on_event=on_event, wanted=wanted), self._directory.path)

    def _trial_of(self, task: str, trial: int | None) -> int:
        """The number of a trial; the winner's if none is given."""
        if trial is not None:
            return trial_number(trial)
        with self._directory.store() as store:
            return winner(store.trials.progress(), task).number
