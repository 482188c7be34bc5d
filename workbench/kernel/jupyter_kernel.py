"""Hosts a worker in a second Jupyter kernel, of any kernelspec that has the workbench: it outlives this front and ends when nobody wants it."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future
from typing import Any, BinaryIO

from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, NoSuchKernel
from jupyter_client.manager import AsyncKernelManager

from workbench.errors import EnvironmentFault, InputError
from workbench.escaping import plain
from workbench.kernel.background_loop import BackgroundLoop
from workbench.kernel.host import Launch
from workbench.version import __version__
from workbench.worker.hosted import Hosting
from workbench.worker.presence import LEASE_S

_LAUNCH_S = 30.0
_READY_S = 90.0
_CALL_S = 10.0
_POLL_S = 0.02
_PYTHONS = {"python", f"python{sys.version_info[0]}", f"python{sys.version_info[0]}.{sys.version_info[1]}"}
_PARENT = "JPY_PARENT_PID"  # an ipykernel ends with the process that this names: with the server of the notebook

_loop_lock = threading.Lock()
_loops: list[BackgroundLoop] = []


class JupyterKernel:
    """Implements `workbench.kernel.host.Host`; while it has a worker, this front attends the session.

    Args:
        kernel_name: The kernelspec; its environment needs the workbench, in the version of this process, and TVM.
        lease_s: How long a search goes on when no front attends the session any more.
    """

    outlives_front = True

    def __init__(self, kernel_name: str = NATIVE_KERNEL_NAME, *, lease_s: float = LEASE_S) -> None:
        self.kernel_name = kernel_name
        self._lease_s = lease_s
        self._manager: AsyncKernelManager | None = None
        self._attendance: BinaryIO | None = None
        self._conversation: Future[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs, if it is on this machine."""
        if self._manager is None or self._poll() is not None:
            return None
        pid = getattr(self._manager.provisioner, "pid", None)
        return pid if isinstance(pid, int) else None

    def start(self, launch: Launch) -> None:
        """Start a kernel; that it becomes a worker is seen to in the background."""
        self._attendance = launch.directory.attend()
        manager = AsyncKernelManager(kernel_name=self.kernel_name)
        try:
            argv = manager.kernel_spec.argv if manager.kernel_spec is not None else []
            shares_python = bool(argv) and (argv[0] in _PYTHONS or argv[0] == sys.executable)
            environment = dict(launch.environment(share_path=shares_python))
            environment.pop(_PARENT, None)
            with launch.directory.open_log() as log:
                streams = {"stdout": log.fileno(), "stderr": log.fileno()}
                start = manager.start_kernel(**streams, env=environment, independent=True, transport_encryption="auto")
                _loop().call(start, _LAUNCH_S)
        except NoSuchKernel as error:
            self._leave()
            raise InputError(f"There is no Jupyter kernel {plain(self.kernel_name)}.", "See: jupyter kernelspec list.") from error
        except (OSError, RuntimeError, TimeoutError) as error:
            self._leave()
            raise EnvironmentFault(
                f"The backend kernel cannot be started: {plain(str(error), 200)}.", "Check the memory and the kernelspec."
            ) from error
        self._manager = manager
        hosting = Hosting(
            session=str(launch.directory.path),
            first=launch.first_command,
            trust=launch.trust,
            function=base64.b64encode(launch.function).decode("ascii"),
            version=__version__,
            lease_s=self._lease_s,
            python=launch.python,
        )
        self._conversation = _loop().begin(_make_worker(manager, hosting.code(), self.kernel_name))

    def exit_code(self) -> int | None:
        """How the process ended; None while it runs."""
        conversation = self._conversation
        if conversation is not None and conversation.done() and not conversation.cancelled() and (error := conversation.exception()) is not None:
            code = self._poll()
            if code is not None and not isinstance(error, EnvironmentFault):
                return code  # it died before it could say anything
            self.kill()
            if isinstance(error, EnvironmentFault):
                raise error
            raise EnvironmentFault(
                f"The backend kernel does not answer: {plain(str(error), 200)}.", "Try again, or choose another kernel."
            ) from error
        return self._poll()

    def release(self) -> None:
        """Attend the session no longer, and have a worker that has nothing to do end now."""
        pid = self.pid
        self._leave()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGTERM)

    def wait(self, timeout_s: float) -> bool:
        """True if the process has ended, or ends in time."""
        deadline = time.monotonic() + timeout_s
        while self._poll() is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def kill(self) -> None:
        """End the process and all its children at once."""
        if self._manager is not None:
            with contextlib.suppress(TimeoutError, OSError, RuntimeError):  # the lock tells whether it is really gone
                _loop().call(self._manager.shutdown_kernel(now=True), _CALL_S)

    def forget(self) -> None:
        """Let go of the kernel and of the session."""
        self._leave()
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.cancel()
        manager, self._manager = self._manager, None
        if manager is None:
            return
        process = getattr(manager.provisioner, "process", None)
        if process is not None and process.poll() is None:
            process.returncode = 0  # it works on; it is no child to be waited for any more
        with contextlib.suppress(TimeoutError, OSError, RuntimeError):  # what is left are files that the next one does not need
            _loop().call(manager.cleanup_resources(), _CALL_S)

    def _poll(self) -> int | None:
        """The exit code; 0 if there is no process."""
        manager = self._manager
        if manager is None or manager.provisioner is None:
            return 0
        code: int | None = _loop().call(manager.provisioner.poll(), _CALL_S)
        return code

    def _leave(self) -> None:
        attendance, self._attendance = self._attendance, None
        if attendance is not None:
            attendance.close()


async def _make_worker(manager: AsyncKernelManager, code: str, name: str) -> None:
    """Have a kernel run the worker; returns, or is cancelled, when there is nothing more to hear.

    Raises:
        EnvironmentFault: The kernel cannot run it.
        RuntimeError: It died, or did not answer.
    """
    client: Any = manager.client()
    client.start_channels(stdin=False, hb=False)
    try:
        await client.wait_for_ready(timeout=_READY_S)
        request = client.execute(code, silent=True, store_history=False, allow_stdin=False)
        manager.cleanup_connection_file()  # nobody else shall talk to it, and a kernel that is killed would leave it behind
        while True:
            reply = await client.get_shell_msg()
            if reply["parent_header"].get("msg_id") == request:
                _check(reply["content"], name)
                return
    finally:
        client.stop_channels()


def _check(content: dict[str, Any], name: str) -> None:
    """Raise EnvironmentFault: a kernel that answers is none that works."""
    what = plain(f"{content.get('ename', '')}: {content.get('evalue', '')}", 300)
    raise EnvironmentFault(
        f"The kernel {plain(name)} cannot run the workbench: {what}.", "Install tvm-workbench in its environment, or choose another kernel."
    )


def kernel_names() -> dict[str, str]:
    """The kernelspecs of this machine that may host a worker: Python ones, their names and what people call them."""
    found = AsyncKernelManager().kernel_spec_manager.get_all_specs()
    return {name: str(spec["spec"]["display_name"]) for name, spec in sorted(found.items()) if spec["spec"].get("language") == "python"}


def _loop() -> BackgroundLoop:
    """The loop that all backend kernels of this process share."""
    with _loop_lock:
        if not _loops:
            _loops.append(BackgroundLoop("workbench-kernels"))
        return _loops[0]
