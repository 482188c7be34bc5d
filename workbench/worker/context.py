"""What a job of the worker works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.engines.protocol import Progress
from workbench.errors import SessionError
from workbench.records.target import TargetSpec
from workbench.session import SessionDirectory
from workbench.store import Store

Job = Callable[["JobContext", dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class JobContext:
    """What a job works with.

    Attributes:
        directory: The session.
        store: The session's store, for the thread of the job.
        command: Number of the command that is being answered.
        on_progress: Told how far the job is; raises Interrupted when the command was cancelled.
        front_gone: Tells that the process which started the worker has ended.
    """

    directory: SessionDirectory
    store: Store
    command: int
    on_progress: Progress
    front_gone: Callable[[], bool]

    def target(self) -> TargetSpec:
        """What the session's program was lowered for.

        Raises:
            SessionError: The session does not say, or is damaged.
        """
        try:
            return TargetSpec.from_dict(self.store.manifest()["target"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SessionError("The session does not say for which target it is.", "Profile the model again.") from error
