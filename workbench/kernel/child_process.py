"""Hosts a worker in a plain child process, which ends with this front: a pipe that closes tells it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

from workbench.errors import EnvironmentFault
from workbench.escaping import plain
from workbench.kernel.host import Launch


class ChildProcess:
    """Implements `workbench.kernel.host.Host`."""

    outlives_front = False

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def start(self, launch: Launch) -> None:
        """Start a worker; its output goes into the session's log."""
        options = [f"--function-bytes={len(launch.function)}", f"--first-command={launch.first_command}", *(["--trust"] if launch.trust else [])]
        options += [f"--python={launch.python}"] if launch.python else []
        # -P and the front's own path: the worker finds what the front found, and nothing that lies in the current folder by chance.
        command = [sys.executable, "-P", "-X", "faulthandler", "-m", "workbench.worker", str(launch.directory.path), *options]
        environment = launch.environment(share_path=True)
        try:
            with launch.directory.open_log() as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True, bufsize=0
                )
        except OSError as error:
            raise EnvironmentFault(
                f"The worker cannot be started: {plain(str(error), 200)}.", "Check the session directory and the memory."
            ) from error
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # a worker that died at once is reported when it is waited for
                rest = memoryview(launch.function)
                while rest:
                    rest = rest[self._process.stdin.write(rest) or 0 :]

    def exit_code(self) -> int | None:
        """How the process ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    def release(self) -> None:
        """Close the pipe."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self, timeout_s: float) -> bool:
        """True if the process has ended, or ends in time."""
        try:
            if self._process is not None:
                self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End the process and all its children at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # it may be gone already
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def forget(self) -> None:
        """Let go of the process."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        if process.poll() is None:
            process.returncode = 0  # it finishes another front's work; it is no child to be waited for any more
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
