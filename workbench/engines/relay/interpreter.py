"""One process of the user's old Python, as the worker sees it: started at the first call, called, killed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from workbench import errors
from workbench.engines.relay.tvm_side import wire
from workbench.engines.relay.tvm_side.wire import Blob, Frame, FrameError, StreamEnd
from workbench.errors import EnvironmentFault, InternalError, WorkbenchError
from workbench.escaping import plain
from workbench.isolation.failures import ending

FOLDER = Path(__file__).parent
PYTHONPATH = "WORKBENCH_RELAY_PYTHONPATH"
"""Environment variable with folders where the old Python finds a TVM that is not installed there."""

_START = "import sys; sys.path[0] = sys.argv.pop(1); from tvm_side.serving import main; main()"
_RAISED: dict[str, type[WorkbenchError]] = {
    kind.__name__: kind for kind in (errors.InputError, errors.ModelError, errors.TargetError, errors.SessionError, errors.EnvironmentFault)
}
_PRINTED_BYTES = 1 << 24
_WORDS_BYTES = 4096
_OWN_END_S = 1.0
_PREPARE_S = 180.0


class ChildFault(EnvironmentFault):
    """A process of the old Python did not answer; it and all that it had started are gone.

    Args:
        message: What happened.
        last_words: The end of what the process printed.
    """

    def __init__(self, message: str, last_words: str = "") -> None:
        super().__init__(message, "-v shows what it printed." if last_words else "")
        self.last_words = last_words
        if last_words:
            self.add_note(last_words)


class ChildCrashed(ChildFault):
    """It ended without an answer, or sent what is none."""


class ChildTimeout(ChildFault):
    """Its answer was late."""


@dataclass(frozen=True)
class Reply:
    """What a call returned."""

    value: Any
    blobs: tuple[Blob, ...] = ()


class Interpreter:
    """A process of the old Python; a call after its end starts another one, which holds nothing yet.

    Used from one thread; only `kill` may come from another.

    Attributes:
        starts: How many processes there were so far: who has put something into one knows by it whether that is still there.

    Args:
        python: The program.
        threads: Threads that run kernels.
        log: Where the process prints to; None keeps its last words alone.
        folder: Where its package `tvm_side` lies.
        prepare: Name and arguments of a call that has to come before all others in each process, asked before every call; None for none.
    """

    def __init__(
        self,
        python: Path,
        *,
        threads: int,
        log: Path | None = None,
        folder: Path = FOLDER,
        prepare: Callable[[], tuple[str, Mapping[str, Any]] | None] = lambda: None,
    ) -> None:
        self.python = python
        self.threads = threads
        self.log = log
        self.starts = 0
        self._folder = folder
        self._prepare = prepare
        self._prepared: tuple[str, Mapping[str, Any]] | None = None
        self._is_preparing = False
        self._process: subprocess.Popen[bytes] | None = None
        self._life = -1
        self._printed = -1

    @property
    def alive(self) -> bool:
        """True if the process of the last call still runs, with all that it holds."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Of the process that runs; it leads a process group."""
        return self._process.pid if self._process is not None and self.alive else None

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        blobs: Sequence[Blob] = (),
        *,
        timeout_s: float | None = None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> Reply:
        """Have the process do something, and wait for its answer.

        Args:
            name: ``module.function`` of `tvm_side`.
            arguments: What JSON knows.
            blobs: Bytes and arrays.
            timeout_s: How long the answer may take; None waits for as long as the process lives.
            on_progress: Told what the process tells; what it raises ends the process.

        Raises:
            InputError: What the user gave cannot be used.
            EnvironmentFault: The old Python lacks something.
            ChildCrashed: The process ended, and all that it had started with it.
            ChildTimeout: No answer in time; it was killed.
            InternalError: The call failed in a way that nobody foresaw; the process goes on.
        """
        self._get_prepared()
        pieces = wire.encode(Frame({"call": name, "arguments": dict(arguments)}, tuple(blobs)))
        process = self._process if self._process is not None and self.alive else self._start()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if self.log is None and os.fstat(self._printed).st_size > _PRINTED_BYTES:
            os.ftruncate(self._printed, 0)
        try:
            for piece in pieces:
                _write(process, piece, deadline)
            while True:
                frame = wire.read(lambda count: _receive(process, count, deadline))
                if "progress" not in frame.values:
                    break
                if on_progress is not None:
                    on_progress(*_progress(frame.values["progress"]))
        except _LateError:
            raise ChildTimeout(f"The old Python gave no answer within {timeout_s:g} s and was killed.", self._end()[1]) from None
        except (StreamEnd, ConnectionError):
            how, words = self._end(_OWN_END_S)
            raise ChildCrashed(f"The old Python {how}.", words) from None
        except FrameError as error:
            raise ChildCrashed(f"The old Python was killed: it sent {error}.", self._end()[1]) from None
        except BaseException:
            self.close()
            raise
        return _answer(frame)

    def _get_prepared(self) -> None:
        wanted = self._prepare()
        if wanted is None or self._is_preparing or (self.alive and self._prepared == wanted):
            return
        self._is_preparing = True
        try:
            self.call(*wanted, timeout_s=_PREPARE_S)
        finally:
            self._is_preparing = False
        self._prepared = wanted

    def kill(self) -> None:
        """Kill the process and all that it started; who waits for its answer is told."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):  # it may be gone already
                os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process and all that it started, and wait until it is gone; it may be gone already."""
        self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        self._end()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}  # they are for this Python
        environment["TVM_NUM_THREADS"] = str(self.threads)
        if PYTHONPATH in os.environ:
            environment["PYTHONPATH"] = os.environ[PYTHONPATH]
        life, self._life = os.pipe()
        command = [str(self.python), "-u", "-X", "faulthandler", "-c", _START, str(self._folder), str(life)]
        try:
            self._printed = self._open_log()
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                bufsize=0,
                cwd="/",
                env=environment,
                pass_fds=(life,),
                process_group=0,
            )
        except OSError as error:
            self._end()
            raise EnvironmentFault(
                f"The old Python {plain(str(self.python), 200)} cannot be started: {plain(str(error), 200)}.",
                "Name another one with --python PATH, or in WORKBENCH_RELAY_PYTHON.",
            ) from error
        finally:
            os.close(life)
        for pipe in _pipes(process):
            os.set_blocking(pipe.fileno(), False)
        self._process = process
        self.starts += 1
        return process

    def _open_log(self) -> int:
        if self.log is not None:
            return os.open(self.log, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with tempfile.TemporaryFile("ab+", buffering=0) as file:
            return os.dup(file.fileno())

    def _end(self, grace_s: float = 0.0) -> tuple[str, str]:
        """Make sure that the process is gone with its whole group; returns how it ended, and the end of what it printed."""
        process, self._process = self._process, None
        how = ""
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                how = ending(process.wait(grace_s))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in _pipes(process):
                pipe.close()
        words = _last_words(self._printed)
        for descriptor in (self._life, self._printed):
            if descriptor >= 0:
                os.close(descriptor)
        self._life = self._printed = -1
        return how or "was killed: it closed its connection", words


class _LateError(Exception):
    """The deadline has passed."""


def _wait(descriptor: int, event: int, deadline: float | None) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    remaining_ms = None if deadline is None else max(deadline - time.monotonic(), 0.0) * 1000
    if not poll.poll(remaining_ms):
        raise _LateError


def _write(process: subprocess.Popen[bytes], piece: bytes, deadline: float | None) -> None:
    rest = memoryview(piece)
    descriptor = _pipes(process)[0].fileno()
    while rest:
        _wait(descriptor, select.POLLOUT, deadline)
        with contextlib.suppress(BlockingIOError):
            rest = rest[os.write(descriptor, rest) :]


def _receive(process: subprocess.Popen[bytes], count: int, deadline: float | None) -> bytes:
    descriptor = _pipes(process)[1].fileno()
    _wait(descriptor, select.POLLIN, deadline)
    return os.read(descriptor, count)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process was started without pipes")
    return process.stdin, process.stdout


def _last_words(printed: int) -> str:
    """The end of a file, whole lines, safe to show."""
    if printed < 0:
        return ""
    size = os.fstat(printed).st_size
    start = max(size - _WORDS_BYTES, 0)
    text = os.pread(printed, _WORDS_BYTES, start).decode("utf-8", "replace")
    lines = text.splitlines()[1 if start else 0 :]
    return "\n".join(plain(line.rstrip(), 300) for line in lines if line.strip())


def _progress(value: Any) -> tuple[str, float]:
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], int | float)):
        raise FrameError("progress that is none")
    return plain(value[0]), min(max(float(value[1]), 0.0), 1.0)


def _answer(frame: Frame) -> Reply:
    """What a call returned; raises what it raised."""
    error = frame.values.get("error")
    if error is None:
        return Reply(frame.values.get("value"), frame.blobs)
    kind, message, remedy, text = (str(error.get(name, "")) for name in ("kind", "message", "remedy", "text"))
    raised = _RAISED.get(kind, InternalError)
    failure = raised(plain(message, 600), plain(remedy, 600)) if kind in _RAISED else raised(f"TVM failed in the old Python: {plain(message, 600)}.")
    failure.add_note(text)
    raise failure
