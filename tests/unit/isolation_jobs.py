"""What the tests of isolation let isolated processes do; imported there, never by the tests themselves."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from workbench.isolation import Message

calls = 0


class UnprintableError(Exception):
    """One whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no")


def _leave_pid(request: Message, *pids: int) -> None:
    """Say in a file who runs, complete as soon as it is there."""
    path = Path(request.values["pids"])
    draft = path.with_suffix(".draft")
    draft.write_text(" ".join(map(str, (os.getpid(), *pids))), encoding="ascii")
    draft.rename(path)


def echo(request: Message) -> Message:
    return request


def count(request: Message) -> Message:
    global calls  # noqa: PLW0603 - the state that a process keeps between its jobs
    calls += 1
    return Message({"calls": calls, "pid": os.getpid(), "descriptors": len(_links()), "environment": dict(os.environ)})


def describe(request: Message) -> Message:
    return Message(
        {
            "descriptors": sorted(link.partition(":")[0] for link in _links().values()),
            "input": sys.stdin.read(),
            "oom_score_adj": int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii")),
            "group": os.getpgrp(),
            "session": os.getsid(0),
            "interruptible": signal.getsignal(signal.SIGINT) != signal.SIG_IGN,
            "frozen": gc.get_freeze_count() > 0,
        }
    )


def misbehave(request: Message) -> Message:
    return _WAYS[request.values["way"]](request)


def _crash(request: Message) -> Message:
    sys.stdout.write("on the way to the crash\n")
    os.kill(os.getpid(), signal.SIGSEGV)
    return request


def _exit(request: Message) -> Message:
    os._exit(3)


def _die(request: Message) -> Message:
    os.kill(os.getpid(), signal.SIGKILL)
    return request


def _wait_for(request: Message) -> Message:
    while not Path(request.values["path"]).exists():
        time.sleep(0.002)
    return request


def _leave(request: Message) -> Message:
    sys.exit("leaving")


def _raise(request: Message) -> Message:
    raise ValueError("x" * 1_000_000 + " is wrong")


def _raise_unprintable(request: Message) -> Message:
    raise UnprintableError


def _return_nonsense(request: Message) -> Message:
    return 7  # type: ignore[return-value]


def _return_no_json(request: Message) -> Message:
    return Message({"set": {1, 2}})


def _spin(request: Message) -> Message:
    _leave_pid(request)
    while True:
        pass


def _sleep_with_gil(request: Message) -> Message:
    _leave_pid(request)
    ctypes.PyDLL(None).sleep(1000)
    return request


def _sleep(request: Message) -> Message:
    _leave_pid(request)
    time.sleep(1000)
    return request


def _stop(request: Message) -> Message:
    _leave_pid(request)
    os.kill(os.getpid(), signal.SIGSTOP)
    return request


def _spawn(request: Message) -> Message:
    """Start a process in the same group and one that leaves it and loses its parent, and hang."""
    near = subprocess.Popen(["sleep", "1000"])  # noqa: S607
    far = subprocess.run(["setsid", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, check=True)  # noqa: S607
    _leave_pid(request, near.pid, int(far.stdout))
    time.sleep(1000)
    return request


def _spawn_near(request: Message) -> Message:
    _leave_pid(request, subprocess.Popen(["sleep", "1000"]).pid)  # noqa: S607
    time.sleep(1000)
    return request


def _spawn_and_crash(request: Message) -> Message:
    near = subprocess.Popen(["sleep", "1000"])  # noqa: S607
    _leave_pid(request, near.pid)
    return _crash(request)


def _allocate(request: Message) -> Message:
    kept = []
    while True:
        kept.append(bytes(16 << 20))


def _write_endlessly(request: Message) -> Message:
    _leave_pid(request)
    while True:
        os.write(2, b"never enough\n" * 1000)


def _links() -> dict[int, str]:
    """The open descriptors, and what they are."""
    return {int(path.name): str(path.readlink()) for path in list(Path("/proc/self/fd").iterdir()) if path.is_symlink()}


def _connection() -> socket.socket:
    """The connection on which the answers go; nothing that a job should know."""
    return socket.socket(fileno=os.dup(next(number for number, link in _links().items() if link.startswith("socket:"))))


def _send_garbage(request: Message) -> Message:
    _connection().sendall(b"garbage" * 1000)
    time.sleep(1000)
    return request


def _send_half(request: Message) -> Message:
    _connection().sendall(b"wbi1" + (100).to_bytes(4, "big") + (1 << 20).to_bytes(8, "big") + b"{")
    os._exit(0)


def _send_too_large(request: Message) -> Message:
    _connection().sendall(b"wbi1" + (100).to_bytes(4, "big") + (1 << 40).to_bytes(8, "big"))
    time.sleep(1000)
    return request


def _send_deep(request: Message) -> Message:
    head = b"[" * 200_000
    _connection().sendall(b"wbi1" + len(head).to_bytes(4, "big") + bytes(8) + head)
    time.sleep(1000)
    return request


def _close_connection(request: Message) -> Message:
    for number, link in _links().items():
        if link.startswith("socket:"):
            os.close(number)
    time.sleep(1000)
    return request


_WAYS = {
    function.__name__.strip("_"): function
    for function in (
        echo,
        _wait_for,
        _crash,
        _exit,
        _die,
        _leave,
        _raise,
        _raise_unprintable,
        _return_nonsense,
        _return_no_json,
        _spin,
        _sleep_with_gil,
        _sleep,
        _stop,
        _spawn,
        _spawn_near,
        _spawn_and_crash,
        _allocate,
        _write_endlessly,
        _send_garbage,
        _send_half,
        _send_too_large,
        _send_deep,
        _close_connection,
    )
}
