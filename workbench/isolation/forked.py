"""A process as the nursery that forked it knows it: its group, what it writes, and the line on which its owner hears of it; forks nothing itself."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

_LAST_WORDS_BYTES = 4096
_CHUNK_BYTES = 65536
_DRAIN_READS = 64


@dataclass
class Forked:
    """A forked process, which leads a group of its own.

    Args:
        pid: Its number.
        report: The line to its owner.
        output: Read end of the pipe that it writes to, not blocking.
        code: Its exit code or negative signal as soon as it has ended; others of its group may still live then.
    """

    pid: int
    report: socket.socket
    output: int
    code: int | None = None
    _words: bytearray = field(default_factory=bytearray)

    def listen(self) -> bool:
        """Take some of what it wrote; False if nobody can write any more."""
        try:
            chunk = os.read(self.output, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        self._words += chunk
        del self._words[:-_LAST_WORDS_BYTES]
        return bool(chunk)

    def kill(self) -> None:
        """Kill its group; a fork that leads none yet is killed alone."""
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    def is_gone(self) -> bool:
        """True if it has ended and its group is empty; kills what is left of the group otherwise."""
        if self.code is None:
            return False
        try:
            os.killpg(self.pid, signal.SIGKILL)  # no other group can have this number while ours has a member
        except (ProcessLookupError, PermissionError):
            return True
        return False

    def bury(self) -> None:
        """Tell the owner how it ended, and let go of it."""
        for _ in range(_DRAIN_READS):
            if not self.listen():
                break
        tell(self.report, code=self.code, last_words=self._words.decode("utf-8", "replace"))
        self.close()

    def close(self) -> None:
        """Let go of its descriptors."""
        self.report.close()
        os.close(self.output)


def tell(report: socket.socket, **values: object) -> None:
    """Send one packet to the owner of a process, who may be gone."""
    with contextlib.suppress(OSError):
        report.send(json.dumps(values).encode("ascii"), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def kill_strays(leaders: Container[int]) -> None:
    """Kill those children of this process that belong to no leader's group: they left their group, and their own parent is gone."""
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    except OSError:
        return  # a kernel without this list
    for pid in map(int, children):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pid not in leaders and os.getpgid(pid) not in leaders:  # a leader that was just forked has no group yet
                os.kill(pid, signal.SIGKILL)
