"""The forking process as its owner sees it: started, asked for forks, ended; knows nothing of jobs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from workbench.errors import EnvironmentFault
from workbench.isolation.lines import Lines, NurseryGone

_LOAD_LIMIT_S = 180.0
_END_S = 5.0


class LoadError(Exception):
    """The modules cannot be loaded; the traceback as text."""


class Forker:
    """The forking process.

    Args:
        preload: Modules that it loads.
        environment: Variables that it gets.

    Raises:
        EnvironmentFault: It cannot be started.
    """

    def __init__(self, preload: Sequence[str], environment: Mapping[str, str]) -> None:
        self._control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        their_life, life = os.pipe()
        self._life = open(life, "wb", buffering=0)  # noqa: SIM115, PTH123 - a descriptor; `end` closes it
        options = [f"--control={their_control.fileno()}", f"--life={their_life}", *preload]
        # -P and our own path: it finds what we found, and nothing that lies in the current folder by chance. -u: last words are not lost.
        command = [sys.executable, "-P", "-u", "-X", "faulthandler", "-m", "workbench.isolation.nursery_process", *options]
        try:
            # A session of its own: when a signal to our group ends us, it lives to end what it forked, in good order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=2,
                env={**os.environ, **environment, "PYTHONPATH": _search_path(environment)},
                pass_fds=(their_control.fileno(), their_life),
                start_new_session=True,
            )
        except OSError as error:
            self._control.close()
            self._life.close()
            raise EnvironmentFault(f"No process can be started: {error}.", "Check the memory and the number of processes.") from error
        finally:
            their_control.close()
            os.close(their_life)
        self.pid = self._process.pid

    def lives(self) -> bool:
        """False if it has ended."""
        return self._process.poll() is None

    def fork(self) -> tuple[Lines, int]:
        """Have it fork; returns what ties the owner to the new process, and its number.

        Raises:
            NurseryGone: It has ended.
            LoadError: Its modules cannot be loaded.
            EnvironmentFault: It cannot fork, or takes too long.
        """
        try:
            lines = Lines.through(self._control)
        except ConnectionError as error:
            raise NurseryGone from error
        except OSError as error:
            raise EnvironmentFault(f"No process can be started: {error}.", "Check the number of open files.") from error
        try:
            report = lines.hear(_LOAD_LIMIT_S)
        except BaseException:
            lines.close()
            raise
        if "pid" in report:
            return lines, int(report["pid"])
        lines.close()
        if not report:
            self.end()
            raise EnvironmentFault(f"No process could be started within {_LOAD_LIMIT_S:g} s.", "Run `workbench doctor`.")
        if not report["loaded"]:
            raise LoadError(report["fault"])
        raise EnvironmentFault(f"No process can be forked: {report['fault']}.", "Check the memory and the number of processes.")

    def end(self) -> int:
        """End it with all that it forked, and wait for it; returns its exit code or negative signal."""
        self._control.close()
        self._life.close()  # kills it, if it is still loading
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _search_path(environment: Mapping[str, str]) -> str:
    """Where this process finds modules, for the other one, behind what its environment names itself."""
    own = (str(Path(entry).absolute()) for entry in sys.path if isinstance(entry, str) and os.pathsep not in entry)
    return os.pathsep.join(dict.fromkeys([*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *own]))
