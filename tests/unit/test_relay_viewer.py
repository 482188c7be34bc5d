"""The viewer of the relay engine never makes its owner wait, even for a kernel that a search holds back."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from workbench.engines.relay.interpreter import Interpreter
from workbench.engines.relay.viewer import RelayViewer
from workbench.engines.view_protocol import ViewQuestion
from workbench.errors import SessionError
from workbench.records.target import TargetSpec
from workbench.records.view import PTX, ViewText

HANG_S = 30.0
TARGET = TargetSpec("llvm", '{"kind": "llvm"}', "cpu", "a processor")
QUESTION = ViewQuestion("conv2d", "", (PTX,))


def test_a_question_waits_for_its_kernel_alone_and_can_be_given_up_meanwhile(tmp_path: Path) -> None:
    may_load = threading.Event()

    def load(kernel: str) -> bytes:
        assert may_load.wait(HANG_S)
        return kernel.encode()

    viewer = RelayViewer(Interpreter(tmp_path / "none", threads=1), load, TARGET)
    viewer.begin(QUESTION)
    assert viewer.poll() is None
    with pytest.raises(RuntimeError):
        viewer.begin(QUESTION)
    viewer.stop()  # returns although the kernel is not there yet
    viewer.begin(QUESTION)
    may_load.set()
    assert [(text.view, bool(text.unavailable)) for text in answered(viewer)] == [(PTX, True)]
    viewer.close()


def answered(viewer: RelayViewer) -> tuple[ViewText, ...]:
    deadline = time.monotonic() + HANG_S
    while (texts := viewer.poll()) is None:
        assert time.monotonic() < deadline
    return texts


def test_what_goes_wrong_with_the_kernel_is_raised_where_the_answer_is_asked_for(tmp_path: Path) -> None:
    def load(kernel: str) -> bytes:
        raise SessionError(f"no {kernel}")

    viewer = RelayViewer(Interpreter(tmp_path / "none", threads=1), load, TARGET)
    viewer.begin(QUESTION)
    with pytest.raises(SessionError, match="no conv2d"):
        answered(viewer)
    viewer.close()
