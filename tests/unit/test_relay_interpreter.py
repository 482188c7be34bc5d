"""A process of another Python is called, fails, crashes, hangs and prints, and none of it harms the worker; run with this Python as the other one."""

from __future__ import annotations

import contextlib
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from workbench.engines.relay import interpreter as module
from workbench.engines.relay.interpreter import ChildCrashed, ChildTimeout, Interpreter
from workbench.engines.relay.tvm_side import wire
from workbench.engines.relay.tvm_side.wire import Frame, FrameError, StreamEnd
from workbench.errors import EnvironmentFault, InternalError, Interrupted, ModelError

LIMIT_S = 60.0


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Interpreter]:
    package = tmp_path / "tvm_side"
    shutil.copytree(module.FOLDER / "tvm_side", package)
    shutil.copy(Path(__file__).with_name("relay_faults.py"), package / "faults.py")
    made = Interpreter(Path(sys.executable), threads=1, folder=tmp_path)
    yield made
    made.close()


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_values_bytes_and_arrays_travel_both_ways(child: Interpreter) -> None:
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((0, 4), np.int64), np.array(7, np.uint8), np.asfortranarray(np.eye(3))]
    reply = child.call("faults.echo", {"text": "ä\u2028", "number": 2**60, "nothing": None}, [b"", b"\0\xff" * 70000, *arrays])
    assert reply.value == {"text": "ä\u2028", "number": 2**60, "nothing": None}
    assert reply.blobs[:2] == (b"", b"\0\xff" * 70000)
    for sent, received in zip(arrays, reply.blobs[2:], strict=True):
        assert isinstance(received, np.ndarray)
        assert received.dtype == sent.dtype
        np.testing.assert_array_equal(received, sent)


def test_a_process_keeps_what_it_holds_and_another_one_begins_anew(child: Interpreter) -> None:
    assert [child.call("faults.remember", {"value": value}).value for value in (1, 2)] == [None, 1]
    assert child.starts == 1
    child.close()
    assert child.call("faults.remember", {"value": 3}).value is None
    assert child.starts == 2


def test_what_is_printed_there_goes_to_the_log_and_not_into_the_pipe(child: Interpreter, tmp_path: Path) -> None:
    child.log = tmp_path / "log"
    assert child.call("faults.chatter", {}).value == ""
    printed = child.log.read_bytes()
    assert all(words in printed for words in (b"printed by Python", b"printed by C", b"printed by a child"))


def test_steps_are_told_and_what_the_receiver_raises_ends_the_process(child: Interpreter) -> None:
    told: list[tuple[str, float]] = []
    assert child.call("faults.steps", {"phase": "lower"}, on_progress=lambda *step: told.append(step)).value == "done"
    assert told == [("lower", 0.0), ("lower", 0.5), ("lower", 1.0)]
    pid = child.pid
    assert pid is not None

    def stop(phase: str, share: float) -> None:
        raise Interrupted(f"{phase} {share}")

    with pytest.raises(Interrupted, match="lower"):
        child.call("faults.steps", {"phase": "lower"}, on_progress=stop)
    assert not is_running(pid)
    assert child.call("faults.steps", {"phase": "lower"}).value == "done"


def test_an_error_has_its_class_and_leaves_the_process_alive(child: Interpreter) -> None:
    with pytest.raises(ModelError) as refused:
        child.call("faults.refuse", {})
    assert (refused.value.message, refused.value.remedy) == ("The model is none.", "Give another one.")
    with pytest.raises(InternalError, match="ZeroDivisionError: by zero") as failed:
        child.call("faults.fail", {})
    assert "in fail" in "\n".join(failed.value.__notes__)
    with pytest.raises(EnvironmentFault) as lacking:
        child.call("faults.lack", {"module": "tornado_that_is_missing.ioloop"})
    assert "lacks the package tornado_that_is_missing" in lacking.value.message
    assert lacking.value.remedy == "Install it there: pip install tornado_that_is_missing"
    assert "a part of TVM cannot be loaded" in "\n".join(lacking.value.__notes__)
    with pytest.raises(InternalError, match="a part of TVM cannot be loaded"):
        child.call("faults.lack", {"module": "tvm_side.missing"})
    for name in ("faults.none", "nothing.echo", "os.system", "faults.echo.call", "../faults.echo", ""):
        with pytest.raises(InternalError):
            child.call(name, {})
    with pytest.raises(InternalError, match="TypeError"):
        child.call("faults.unsendable", {})
    assert child.starts == 1


@pytest.mark.parametrize(("name", "words"), [("SIGSEGV", "died with SIGSEGV"), ("SIGKILL", "was killed"), ("SIGABRT", "died with SIGABRT")])
def test_a_crash_is_an_error_with_the_last_words(child: Interpreter, name: str, words: str) -> None:
    with pytest.raises(ChildCrashed, match=words) as died:
        child.call("faults.crash", {"signal": name})
    assert "the last words" in died.value.last_words
    assert child.call("faults.echo", {}).value == {}


def test_one_that_hangs_is_killed_with_all_that_it_started(child: Interpreter) -> None:
    pids: list[int] = []
    with pytest.raises(ChildTimeout, match=r"within 2 s"):
        child.call("faults.hang", {"told": True}, timeout_s=2.0, on_progress=lambda pid, _: pids.append(int(pid)))
    assert pids
    wait_until_gone(pids[0])
    assert not child.alive


def test_it_dies_with_the_worker_whatever_it_does(child: Interpreter, tmp_path: Path) -> None:
    """The kernel kills the group when the worker's end of a pipe is gone: nobody has to notice anything."""
    child.close()
    code = f"""
from pathlib import Path
from workbench.engines.relay.interpreter import Interpreter
made = Interpreter(Path({sys.executable!r}), threads=1, folder=Path({str(tmp_path)!r}))
made.call("faults.echo", {{}})
made.call("faults.hang", {{"told": True}}, on_progress=lambda pid, _: print(made.pid, pid, flush=True))
"""
    worker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        pids = [int(word) for word in worker.stdout.readline().split()]
    finally:
        worker.kill()
        worker.communicate()
    assert len(pids) == 2
    for pid in pids:
        wait_until_gone(pid)


@pytest.mark.parametrize("request_blob", [b"", b"x" * (1 << 20)])
def test_a_frame_that_is_too_large_ends_the_process(child: Interpreter, request_blob: bytes) -> None:
    with pytest.raises(ChildCrashed, match="no frame, or one that is too large"):
        child.call("faults.too_large", {}, [request_blob], timeout_s=LIMIT_S)
    assert not child.alive


def test_what_is_no_python_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(EnvironmentFault, match="cannot be started") as fault:
            Interpreter(path, threads=1).call("faults.echo", {})
        assert "--python" in fault.value.remedy
    with pytest.raises(ChildCrashed, match="exit code"):
        Interpreter(Path(shutil.which("false") or "/bin/false"), threads=1).call("faults.echo", {})


def received(content: bytes) -> Frame:
    rest = [content]

    def receive(count: int) -> bytes:
        taken, rest[0] = rest[0][:count], rest[0][count:]
        return taken

    return wire.read(receive)


def framed(head: bytes, body: bytes = b"") -> bytes:
    return struct.pack("!4sI", b"wbr1", len(head)) + head + body


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"a line that was printed\n",
        struct.pack("!4sI", b"wbr1", wire.HEAD_LIMIT_BYTES + 1),
        framed(b"{}")[:-1],
        framed(b"{}"),
        framed(b"[" * 100000),
        framed(b'{"values": [], "blobs": []}'),
        framed(b'{"values": {}, "blobs": [{"bytes": -1}]}'),
        framed(b'{"values": {}, "blobs": [{"bytes": 99999999999999}]}'),
        framed(b'{"values": {}, "blobs": [{"bytes": 4}]}', b"abc"),
        framed(b'{"values": {}, "blobs": [{"bytes": 8, "dtype": "object", "shape": [1]}]}', b"abcdefgh"),
        framed(b'{"values": {}, "blobs": [{"bytes": 8, "dtype": "float32", "shape": [3]}]}', b"abcdefgh"),
        framed(b'{"values": {}, "blobs": [{"bytes": 8, "dtype": "float32", "shape": [-1]}]}', b"abcdefgh"),
    ],
)
def test_what_is_no_frame_is_found_out(content: bytes) -> None:
    with pytest.raises(FrameError):
        received(content)


def test_the_end_of_the_stream_is_no_damage() -> None:
    with pytest.raises(StreamEnd):
        received(b"")


@pytest.mark.parametrize("blob", [np.array([object()]), np.array(["text"]), np.array([1j])])
def test_an_array_of_objects_is_not_sent(blob: np.ndarray) -> None:
    with pytest.raises(FrameError, match="cannot be sent"):
        wire.encode(Frame({}, (blob,)))
