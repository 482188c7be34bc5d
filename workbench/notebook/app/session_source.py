"""Gives the inspector its texts: asks a session, in threads, so that nothing waits for the worker that should not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from workbench.api import Session
from workbench.records.rerun import Rerun
from workbench.records.trial import Trial
from workbench.records.view import ViewInfo, ViewText
from workbench.records.view_diff import ViewDiff


class SessionSource:
    """Implements `workbench.notebook.inspector.source.InspectorSource`.

    Args:
        session: Whose trials are looked at.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def views(self, task: str) -> Sequence[ViewInfo]:
        """All views of a task on this machine."""
        return await asyncio.to_thread(self._session.views, task)

    async def text(self, task: str, trial: int, view: str) -> ViewText:
        """One view of one trial."""
        found = await asyncio.to_thread(self._session.inspection, task, view, trial=trial)
        return found.view(view)

    async def diff(self, task: str, left: int, right: int, view: str) -> ViewDiff:
        """One view of two trials."""
        return await asyncio.to_thread(self._session.diff, task, view, trial=right, other=left)

    async def trial(self, task: str, trial: int) -> Trial | None:
        """The record of one trial."""
        return await asyncio.to_thread(self._read_trial, task, trial)

    async def rerun(self, task: str, trial: int) -> Rerun:
        """Measure a trial again; given up when nobody waits for it any more."""
        is_over = threading.Event()
        try:
            return await asyncio.to_thread(self._session.rerun, task, trial, wanted=lambda: not is_over.is_set())
        finally:
            is_over.set()

    def _read_trial(self, task: str, trial: int) -> Trial | None:
        with self._session.directory.store() as store:
            return store.trials.trial(task, trial)
