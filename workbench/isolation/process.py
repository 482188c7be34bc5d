"""One isolated process as its owner sees it: send a request, wait for the answer, kill; starts none itself."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable

from workbench.isolation.failures import JobError, JobTimeout, ProcessDied, ending
from workbench.isolation.lines import Lines, NurseryGone, is_readable
from workbench.isolation.message import ERROR, REQUEST, RESULT, SETUP, Frame, FrameError, FrameReader, Message

_SEND_LIMIT_S = 30.0
_OWN_END_S = 1.0
_DEATH_LIMIT_S = 5.0


class IsolatedProcess:
    """A process that calls one function for each request; made by `Nursery.start`, to be used from one thread.

    Args:
        pid: Its number; it leads a session and a process group of this number.
        lines: What ties this side to it.
        setup: What to call, and how.
        on_end: Called once when the process is gone.
    """

    def __init__(self, pid: int, lines: Lines, setup: Message, on_end: Callable[[IsolatedProcess], None]) -> None:
        self.pid = pid
        self.last_job_s = 0.0
        self._lines = lines
        self._on_end = on_end
        self._death: ProcessDied | None = None
        self._reader = FrameReader()
        self._number = 0
        self._awaited: int | None = None
        self._poll = select.poll()
        self._poll.register(lines.job, select.POLLIN)
        self._poll.register(lines.report, select.POLLIN)
        self._write(Frame(SETUP, 0, setup), _SEND_LIMIT_S)

    @property
    def alive(self) -> bool:
        """False as soon as the process is known to have ended."""
        if self._death is not None:
            return False
        poll = select.poll()
        poll.register(self._lines.job, 0)  # tells a hangup, whatever is asked for
        poll.register(self._lines.report, select.POLLIN)
        return not poll.poll(0)

    def fileno(self) -> int:
        """A descriptor that is readable when an answer begins to come or the process has ended; -1 once that is known."""
        return self._lines.job.fileno()

    def call(self, request: Message, timeout_s: float) -> Message:
        """Send a request and wait for its answer.

        Raises:
            JobError: The function raised; the process can be used further.
            ProcessDied: The process ended, and all that it had started with it.
            JobTimeout: No answer in time; the process and all that it had started were killed.
            Exception: Whatever `send` raises.
        """
        deadline = time.monotonic() + timeout_s
        self.send(request, timeout_s)
        while (answer := self.take()) is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise self.expire(timeout_s)
            self._poll.poll(math.ceil(remaining * 1000))
        return answer

    def send(self, request: Message, timeout_s: float = _SEND_LIMIT_S) -> None:
        """Send a request; a process that is dead, or does not take the request in time and is killed, is found out about in `take`.

        Raises:
            TypeError: The request holds something that JSON does not know.
            ValueError: The same, or the request is too large.
            RuntimeError: The answer to the last request has not been taken.
        """
        if self._awaited is not None:
            raise RuntimeError("the process has not answered its last request yet")
        self._write(Frame(REQUEST, self._number + 1, request), timeout_s)
        self._number += 1
        self._awaited = self._number

    def take(self) -> Message | None:
        """The answer if it is there; None if it is still to come. Does not wait for it.

        Raises:
            JobError: As `call`.
            ProcessDied: As `call`.
            RuntimeError: No answer is to come.
        """
        if self._awaited is None:
            raise RuntimeError("the process was asked nothing")
        frame = self._read()
        if frame is None:
            return None
        self._awaited = None
        self.last_job_s = frame.took_s
        if frame.kind == ERROR:
            raise JobError(str(frame.message.values.get("kind")), str(frame.message.values.get("text")))
        return frame.message

    def expire(self, timeout_s: float) -> JobTimeout:
        """Kill the process because its answer is late; returns what is to be raised or told."""
        died = self._end(f"was killed: no answer within {timeout_s:g} s")
        return JobTimeout(timeout_s, died.last_words)

    def kill(self) -> None:
        """Kill the process and all that it started, and wait until they are gone; it may be dead already."""
        if self._death is None:
            self._end("was killed by the workbench")

    def _write(self, frame: Frame, timeout_s: float) -> None:
        pieces = frame.encode()
        if self._death is not None:
            return
        try:
            self._lines.job.settimeout(timeout_s)
            for piece in pieces:
                self._lines.job.sendall(piece)
            self._lines.job.settimeout(0)
        except TimeoutError:
            self._end(f"was killed: it took no request within {timeout_s:g} s")
        except OSError:
            self._lines.job.settimeout(0)  # it has ended; how, is found out when the answer is waited for

    def _read(self) -> Frame | None:
        ended = False
        while self._death is None:
            try:
                chunk = self._lines.job.recv(self._reader.wanted)
                frame = self._reader.feed(chunk)
            except BlockingIOError:
                if ended:
                    raise self._end() from None
                ended = is_readable(self._lines.report, 0)
                if not ended:
                    return None
                continue  # it may have answered just before it ended
            except FrameError as error:
                raise self._end(f"was killed: it sent {error}") from None
            except ConnectionError:
                raise self._end() from None
            if frame is not None and (frame.number != self._awaited or frame.kind not in {RESULT, ERROR}):
                raise self._end("was killed: it sent an answer that nobody asked for")
            if frame is not None:
                return frame
            if not chunk:
                raise self._end()
        self._awaited = None
        raise ProcessDied(self._death.cause, self._death.last_words)

    def _end(self, cause: str = "") -> ProcessDied:
        """Make sure that the process is gone with its whole group; `cause` is empty if it seems to have ended by itself."""
        if not cause and not is_readable(self._lines.report, _OWN_END_S):
            cause = "was killed: it closed its connection"
        self._lines.order_death()
        code, last_words = None, ""
        try:
            report = self._lines.hear(_DEATH_LIMIT_S)
            code, last_words = report.get("code"), report.get("last_words", "")
        except NurseryGone:
            cause = cause or "ended with the process that it was forked from"
            self._lines.wait_for_hangup(_DEATH_LIMIT_S)
        self._lines.close()
        self._awaited = None
        self._death = ProcessDied(cause or (ending(code) if isinstance(code, int) else "was killed"), last_words)
        self._on_end(self)
        return self._death
