"""The seam between what a front says to a worker and the process that the worker runs in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from workbench.session import SessionDirectory


@dataclass(frozen=True)
class Launch:
    """What a worker is started with.

    Attributes:
        directory: The session.
        threads: Threads that run the kernels; set before TVM loads, since TVM takes half of the logical CPUs otherwise.
        function: A pickled TE function of this process; empty if there is none.
        trust: True if the user allowed the model's own code to run.
        first_command: The command that the worker is started for.
        python: The old Python that the relay engine runs TVM in; empty if there is none.
    """

    directory: SessionDirectory
    threads: int
    function: bytes
    trust: bool
    first_command: int
    python: str = ""

    def environment(self, *, share_path: bool) -> Mapping[str, str]:
        """Variables of the worker.

        Args:
            share_path: True has it find the modules that this process finds: the user may have extended the path, and may have moved to
                another folder. Another Python must not.
        """
        variables = {**os.environ, "TVM_NUM_THREADS": str(self.threads), "PYTHONUNBUFFERED": "1"}
        if share_path:
            variables["PYTHONPATH"] = _search_path()
        return variables


class Host(Protocol):
    """The process of one worker at a time: started, watched, ended.

    Called from any thread of the front, by one at a time. A host that was told to `forget` its process can start another one.

    Attributes:
        outlives_front: True if a search goes on when this front ends.
    """

    outlives_front: bool

    @property
    def pid(self) -> int | None:
        """The process that runs; None if there is none, or it is on another machine."""
        ...

    def start(self, launch: Launch) -> None:
        """Start a worker.

        Raises:
            InputError: The user named a place for workers that there is not.
            EnvironmentFault: It cannot be started.
        """
        ...

    def exit_code(self) -> int | None:
        """How the process ended, a signal as a negative number; None while it runs.

        Raises:
            EnvironmentFault: It cannot become a worker; the message says why.
        """
        ...

    def release(self) -> None:
        """Let the worker end: this front wants nothing more of it."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """True if the process has ended, or ends in time."""
        ...

    def kill(self) -> None:
        """End the process and all its children at once, and wait for it."""
        ...

    def forget(self) -> None:
        """Let go of the process: of one that runs, which does other fronts' work, or of a dead one, whose children end with it."""
        ...


def _search_path() -> str:
    """Where this process finds modules."""
    folders = dict.fromkeys(str(Path(entry).absolute()) for entry in sys.path if isinstance(entry, str) and os.pathsep not in entry)
    return os.pathsep.join(folders)
