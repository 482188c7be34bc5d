"""Calls for the tests of `workbench.engines.relay.interpreter`, which a process loads as a module of its `tvm_side`."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from typing import Any

from .failing import MODEL, Refusal


def echo(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """What came."""
    del held, progress
    return arguments, blobs


def remember(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """What the process was told before, and note what it is told now."""
    del blobs, progress
    before = held.tasks.get("told")
    held.tasks["told"] = arguments["value"]
    return before


def chatter(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """Print wherever TVM may print, and read where a prompt may read."""
    del held, arguments, blobs, progress
    sys.stdout.write("printed by Python\n")
    sys.stdout.flush()
    os.write(1, b"\0\1\2 printed by C\n")
    subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
    return sys.stdin.read()


def steps(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """Tell of three steps."""
    del held, blobs
    for step in range(3):
        progress(arguments["phase"], step / 2)
    return "done"


def refuse(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """What the user gave cannot be used."""
    del held, arguments, blobs, progress
    raise Refusal(MODEL, "The model is none.", "Give another one.")


def fail(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """A fault that nobody foresaw."""
    del held, arguments, blobs, progress
    raise ZeroDivisionError("by zero")


def lack(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """Import what is not installed, as parts of TVM do, perhaps behind an error of its own."""
    del held, blobs, progress
    try:
        importlib.import_module(arguments["module"])
    except ImportError as error:
        raise RuntimeError("a part of TVM cannot be loaded") from error


def crash(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """Die with a signal, after some words."""
    del held, blobs, progress
    os.write(2, b"the last words\n")
    os.kill(os.getpid(), getattr(signal, arguments["signal"]))


def hang(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """Never answer, with a child that would live on."""
    del held, blobs
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if arguments.get("told"):
        progress(str(child.pid), 0.0)
    time.sleep(600)


def too_large(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """An answer that the other side refuses, written past the checks of this one."""
    del held, arguments, blobs, progress
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, b"wbr1\xff\xff\xff\xff")
        except OSError:
            continue
    time.sleep(600)


def unsendable(held: Any, arguments: dict[str, Any], blobs: Any, progress: Any) -> Any:
    """An answer that JSON does not know."""
    del held, arguments, blobs, progress
    return object()


CALLS = {call.__name__: call for call in (echo, remember, chatter, steps, refuse, fail, lack, crash, hang, too_large, unsendable)}
