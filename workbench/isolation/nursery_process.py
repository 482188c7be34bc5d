"""Process entry: ``python -m workbench.isolation.nursery_process``: loads modules once, forks processes, tells how each ended; runs no job itself.

A request to fork is a packet with three descriptors: the connection for the jobs, the pipe whose closing kills, and the report line. On the report
line the owner gets the number of the process, and at last how it ended; when the owner closes its side, or dies, the process is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import time
import traceback
import warnings
from typing import NoReturn

from workbench.isolation import guards, job_process
from workbench.isolation.forked import Forked, kill_strays, tell

_CHUNK_BYTES = 4096
_RECHECK_S = 0.02
_END_S = 3.0
_END_POLL_S = 0.002


class _Nursery:
    """The loop of the forking process, which has one thread.

    Args:
        control: Where requests to fork come from.
        life: A descriptor that no child may keep open.
        fault: Why the modules could not be loaded; told instead of forking.
    """

    def __init__(self, control: socket.socket, *, life: int, fault: str) -> None:
        self._control = control
        self._fault = fault
        self._pid = os.getpid()
        self._children: dict[int, Forked] = {}
        self._alarm, alarm = os.pipe()
        os.set_blocking(self._alarm, False)
        os.set_blocking(alarm, False)
        self._private = [life, self._alarm, alarm]
        self._selector = selectors.PollSelector()  # unlike epoll, it shares nothing with a fork
        self._selector.register(self._alarm, selectors.EVENT_READ)
        self._selector.register(control, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)

    def run(self) -> None:
        """Fork on request until the other side is gone; then end all that is left."""
        wanted = True
        while wanted:
            ending = any(child.code is not None for child in self._children.values())
            for key, _ in self._selector.select(_RECHECK_S if ending else None):
                if key.fileobj is self._control:
                    wanted = self._take_request()
                elif key.fd == self._alarm:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._alarm, _CHUNK_BYTES)
                elif key.fileobj is key.data.report:
                    self._selector.unregister(key.fileobj)
                    key.data.kill()
                elif not key.data.listen():
                    self._selector.unregister(key.fileobj)
            self._reap()
        deadline = time.monotonic() + _END_S
        for child in self._children.values():
            child.kill()
        while self._reap() and time.monotonic() < deadline:
            time.sleep(_END_POLL_S)

    def _take_request(self) -> bool:
        """Fork; False if the other side is gone."""
        try:
            _, descriptors, _, _ = socket.recv_fds(self._control, _CHUNK_BYTES, 3, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        if len(descriptors) != 3:
            return False
        report = socket.socket(fileno=descriptors[2])
        if self._fault:
            tell(report, fault=self._fault, loaded=False)
            report.close()
        else:
            self._fork(descriptors[0], descriptors[1], report)
        for descriptor in descriptors[:2]:
            os.close(descriptor)
        return True

    def _fork(self, job: int, life: int, report: socket.socket) -> None:
        try:
            output, writer = os.pipe()
        except OSError as error:
            tell(report, fault=str(error), loaded=True)
            report.close()
            return
        child = Forked(0, report, output)
        try:
            child.pid = os.fork()
        except OSError as error:
            tell(report, fault=str(error), loaded=True)
            child.close()
        else:
            if child.pid == 0:
                self._be_child(child, job, life, writer)
            self._children[child.pid] = child
            os.set_blocking(output, False)
            self._selector.register(output, selectors.EVENT_READ, child)
            self._selector.register(report, selectors.EVENT_READ, child)
            tell(report, pid=child.pid)
        os.close(writer)

    def _be_child(self, child: Forked, job: int, life: int, output: int) -> NoReturn:
        """What the fork does: let go of all that is the nursery's or another child's, and serve."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            job_process.enter(self._pid, life, output)
            self._control.close()
            for other in (child, *self._children.values()):
                other.close()
            for descriptor in self._private:
                os.close(descriptor)
            with socket.socket(fileno=job) as connection:
                job_process.serve(connection)
            code = 0
        except BaseException:  # noqa: BLE001 - not one step further into the nursery's own code
            traceback.print_exc()
        finally:
            os._exit(code)

    def _reap(self) -> bool:
        """Take note of who has ended, and end what they left; False if there is no child any more."""
        some_left, some_ended = True, False
        while some_left:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                some_left = False
                break
            if pid == 0:
                break
            some_ended = True
            if pid in self._children:
                self._children[pid].code = os.waitstatus_to_exitcode(status)
        if some_ended:
            kill_strays(self._children)
        for child in [child for child in self._children.values() if child.is_gone()]:
            del self._children[child.pid]
            for file in (child.report, child.output):
                with contextlib.suppress(KeyError):
                    self._selector.unregister(file)
            child.bury()
        return some_left


def _load(modules: list[str]) -> str:
    """Import modules; returns what went wrong."""
    try:
        for module in modules:
            importlib.import_module(module)
    except BaseException:  # noqa: BLE001 - told to whoever wants a process
        return traceback.format_exc()
    return ""


def main() -> None:
    """Load the modules, then fork until the other side is gone."""
    parser = argparse.ArgumentParser(prog="python -m workbench.isolation.nursery_process", allow_abbrev=False)
    parser.add_argument("--control", type=int, required=True, help="descriptor of the socket on which requests to fork come")
    parser.add_argument("--life", type=int, required=True, help="descriptor of a pipe that ends with the process that wants this one")
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    guards.kill_on_hangup(options.life, whole_group=True)
    fault = _load(options.modules)
    guards.ignore_hangup(options.life)  # from here on the loop sees the end itself, and ends what the children left
    guards.adopt_orphans()
    for descriptor in (options.control, options.life):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's own signature
    # Threads that a BLAS keeps for itself are idle, and are made anew in a fork.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    gc.collect()
    gc.freeze()  # the collector of a child then leaves the shared pages alone
    _Nursery(socket.socket(fileno=options.control), life=options.life, fault=fault).run()


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)  # the libraries that were loaded have nothing to take apart
