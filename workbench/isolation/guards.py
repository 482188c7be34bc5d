"""What makes the kernel end or limit a process, whatever that process is busy with; decides nothing itself."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
from pathlib import Path

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when the thread that forked it ends; at once if it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that it can be found and ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError):  # only Linux has it
        _LIBC.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def kill_on_hangup(life: int, *, whole_group: bool) -> None:
    """Let the kernel kill this process, or its whole group, when the last write end of a pipe is closed; at once if it is closed already.

    A thread that waits for the end of the pipe would have to get the GIL first, and a process with a second thread should not fork. The
    kernel keeps the group itself, not its number, so nobody else is hit, and this works as long as anyone has this read end open.

    Args:
        life: The read end of a pipe into which nobody writes.
        whole_group: True for all processes of the group, which this process must lead.
    """
    if hasattr(fcntl, "F_SETSIG"):  # only Linux has it
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp() if whole_group else os.getpid())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(life, select.POLLIN)
    if poll.poll(0):
        os._exit(1)


def ignore_hangup(life: int) -> None:
    """Take `kill_on_hangup` back."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) & ~os.O_ASYNC)


def limit_memory(limit_bytes: int) -> None:
    """Let allocations fail beyond a limit; what the process has at its start, by its imports, counts too."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def leave_no_core() -> None:
    """Let a crash write no core, neither to a file nor to a collector: to the latter, the kernel knows only 1 as "none"."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def be_first_victim() -> None:
    """Let the kernel choose this process first when the memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
