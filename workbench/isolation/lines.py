"""The descriptors that tie an owner to an isolated process; knows nothing of what passes on them but the two packets of the report line."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from dataclasses import dataclass
from io import FileIO
from typing import Any

_REPORT_BYTES = 1 << 17


class NurseryGone(Exception):  # noqa: N818 - says what it is
    """The nursery's process ended without the report that was waited for."""


@dataclass(frozen=True)
class Lines:
    """The owner's ends.

    Args:
        job: Requests go out here, and answers come in.
        report: Where the nursery tells how the process ended; shut down, it tells the nursery to kill it.
        life: Both ends of the pipe whose closing makes the kernel kill the process, as long as the read end is open anywhere.
    """

    job: socket.socket
    report: socket.socket
    life: tuple[FileIO, FileIO]

    @classmethod
    def through(cls, control: socket.socket) -> Lines:
        """Ask a nursery for a process, and keep the owner's ends.

        Raises:
            OSError: The nursery is gone, or there are no descriptors left.
        """
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            job, their_job = socket.socketpair()
            ours.enter_context(job)
            theirs.enter_context(their_job)
            report, their_report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.enter_context(report)
            theirs.enter_context(their_report)
            reader, writer = os.pipe()
            life = FileIO(reader, "r"), FileIO(writer, "w")
            for end in life:
                ours.enter_context(end)
            socket.send_fds(control, [b"fork"], [their_job.fileno(), reader, their_report.fileno()])
            ours.pop_all()
        return cls(job, report, life)

    def hear(self, timeout_s: float) -> dict[str, Any]:
        """The next report; empty if none comes in time.

        Raises:
            NurseryGone: There will be none.
        """
        if not is_readable(self.report, timeout_s):
            return {}
        with contextlib.suppress(OSError, ValueError):
            packet = json.loads(self.report.recv(_REPORT_BYTES))
            if isinstance(packet, dict):
                return packet
        raise NurseryGone

    def order_death(self) -> None:
        """Have the process killed with its whole group, by the kernel and by the nursery; waits for neither."""
        self.life[1].close()
        with contextlib.suppress(OSError):
            self.report.shutdown(socket.SHUT_WR)

    def wait_for_hangup(self, timeout_s: float) -> None:
        """Wait until nobody has the other end of the job connection any more."""
        deadline = time.monotonic() + timeout_s
        self.job.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        with contextlib.suppress(OSError):
            while is_readable(self.job, deadline - time.monotonic()) and self.job.recv(_REPORT_BYTES):
                pass

    def close(self) -> None:
        """Let go of all, which kills the process if it lives."""
        self.life[1].close()  # before the read end: the kernel kills through it
        self.life[0].close()
        self.job.close()
        self.report.close()


def is_readable(connection: socket.socket, timeout_s: float) -> bool:
    """True as soon as there is something to read, or the other end is closed."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(max(timeout_s, 0.0) * 1000))
