"""Answers the worker's calls, one after the other, until the worker is gone.

A call is named ``module.function`` and looked up in the dict ``CALLS`` of that module of this package, which is imported when the first call
needs it: so what a module cannot find here costs its own calls only.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import re
import resource
import select
import signal
import sys
import traceback
from typing import Any, Callable, Dict, Sequence, Tuple, Union

from .failing import Refusal, missing_package
from .held import Held
from .wire import Blob, Frame, FrameError, StreamEnd, encode, read
from .xgboost_loading import be_lenient

Progress = Callable[[str, float], None]
Answer = Union[Any, Tuple[Any, Sequence[Blob]]]
"""What a call returns: a value that JSON knows, or such a value and blobs, as a tuple of two."""
Call = Callable[[Held, Dict[str, Any], Tuple[Blob, ...], Progress], Answer]

_NAME = re.compile(r"([a-z_]+)\.([a-z_]+)")


def main() -> None:
    """Serve on standard input and output, which nothing else reads or writes from here on; the first argument is the pipe of the worker's life."""
    incoming, outgoing = _take_streams()
    _end_with_worker(int(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))  # a crash writes no core, neither to a file nor to a collector
    be_lenient()
    held = Held()
    while True:
        try:
            frame = read(lambda count: os.read(incoming, count))
        except StreamEnd:
            return
        answer = _answer(held, frame, lambda progress: _send(outgoing, progress))
        try:
            _send(outgoing, answer)
        except (FrameError, TypeError, ValueError) as error:
            _send(outgoing, _failure(error))


def _answer(held: Held, frame: Frame, send: Callable[[Frame], None]) -> Frame:
    try:
        call = _find(frame.values.get("call"))
        arguments = frame.values.get("arguments", {})
        result = call(held, arguments, frame.blobs, lambda phase, share: send(Frame({"progress": [phase, share]})))
    except Exception as error:  # whatever TVM raises is an answer, not the end
        return _failure(error)
    value, blobs = result if isinstance(result, tuple) else (result, ())
    return Frame({"value": value}, tuple(blobs))


def _find(name: Any) -> Call:
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise LookupError(f"no call {name!r}")
    module = importlib.import_module(f".{match.group(1)}", __package__)
    calls: dict[str, Call] = module.CALLS
    return calls[match.group(2)]


def _failure(error: BaseException) -> Frame:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    refusal = error if isinstance(error, Refusal) else missing_package(error)
    if refusal is not None:
        return Frame({"error": {"kind": refusal.kind, "message": refusal.message, "remedy": refusal.remedy, "text": text}})
    return Frame({"error": {"kind": "", "message": f"{type(error).__name__}: {error}", "remedy": "", "text": text}})


def _send(outgoing: int, frame: Frame) -> None:
    for piece in encode(frame):
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(outgoing, rest) :]


def _take_streams() -> tuple[int, int]:
    """The pipes from and to the worker, away from whatever TVM and the user's code print and read."""
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return incoming, outgoing


def _end_with_worker(life: int) -> None:
    """Let the kernel kill this process group when the worker is gone, whatever TVM is busy with: the worker alone holds the other end of the pipe."""
    if hasattr(fcntl, "F_SETSIG"):  # only Linux has it
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(life, select.POLLIN)
    if poll.poll(0):
        os._exit(1)
