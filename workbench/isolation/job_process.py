"""The child's side: a forked process that calls one function for each request, as long as its parent wants it; forks nothing itself."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from workbench.isolation import guards
from workbench.isolation.message import ERROR, REQUEST, RESULT, SETUP, Frame, FrameReader, Message

Serve = Callable[[Message], Message]

_TEXT_LIMIT = 200_000


def enter(parent: int, life: int, output: int) -> None:
    """Turn a fork into a process that leads a group of its own and ends with whoever wanted it.

    Args:
        parent: The process that forked it.
        life: Read end of the pipe whose other end the one who wanted it holds.
        output: Where all that it writes to standard output and error goes.
    """
    os.setsid()
    guards.die_with_parent(parent)
    guards.kill_on_hangup(life, whole_group=True)
    guards.be_first_victim()
    guards.leave_no_core()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker to decide on; imports may have set a handler
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)


def serve(job: socket.socket) -> None:
    """Answer requests until the other side closes the connection; the first frame says what to call, and how."""
    reader = FrameReader()
    setup = _read(job, reader)
    if setup is None or setup.kind != SETUP:
        return
    values = setup.message.values
    os.environ.update(values["environment"])
    if values["memory_limit_bytes"] is not None:
        guards.limit_memory(values["memory_limit_bytes"])
    function: Serve | None = None
    while (frame := _read(job, reader)) is not None and frame.kind == REQUEST:
        started = time.monotonic()
        try:
            function = function or _load(values["entry"])
            answer = Frame(RESULT, frame.number, _checked(function(frame.message)), time.monotonic() - started).encode()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
            answer = Frame(ERROR, frame.number, _described(error), time.monotonic() - started).encode()
        del frame
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # the job may have closed or replaced it
                stream.flush()
        for piece in answer:
            job.sendall(piece)


def _read(job: socket.socket, reader: FrameReader) -> Frame | None:
    """The next frame; None if there comes none."""
    frame = reader.feed(b"")
    while frame is None and (chunk := job.recv(reader.wanted)):
        frame = reader.feed(chunk)
    return frame


def _load(entry: str) -> Serve:
    module, _, name = entry.partition(":")
    function: Any = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise TypeError(f"{entry} is no function")
    return function  # type: ignore[no-any-return]


def _checked(answer: object) -> Message:
    if not isinstance(answer, Message):
        raise TypeError(f"a job must return a Message, not {type(answer).__name__}")
    return answer


def _described(error: BaseException) -> Message:
    kind = type(error).__name__
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - no memory for the text, or an exception whose own code fails
        text = kind
    traceback.clear_frames(error.__traceback__)  # what they hold may be all the memory there is
    if isinstance(error, MemoryError):
        gc.collect()
    if len(text) > _TEXT_LIMIT:
        half = _TEXT_LIMIT // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    return Message({"kind": kind, "text": text})
