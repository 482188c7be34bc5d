"""The inspector's Python side: questions are answered in the background, by number, and errors are answers too."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.notebook_samples import FAILED_TRIAL, HOSTILE, FakeSource, profile_of, progress_of
from workbench.errors import SelectionError
from workbench.notebook import Inspector
from workbench.notebook.background import background_loop
from workbench.records.view import ViewText

PROFILE = profile_of(20)
TASK = PROFILE.tasks[0].task
ANSWER_S = 10.0


class Page:
    """A view: keeps what the widget sends, and waits for it."""

    def __init__(self, widget: Any) -> None:
        self.messages: list[dict[str, Any]] = []
        self.threads: set[int] = set()
        self._changed = threading.Condition()
        self._widget = widget
        widget.send = self._take

    def ask(self, kind: str, number: int, **content: Any) -> None:
        self._widget.take_message({"kind": kind, "id": number, **content})

    def answer(self, number: int) -> dict[str, Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: self._found(number), timeout=ANSWER_S), f"no answer to {number}: {self.messages}"
            return self._found(number)[0]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["kind"] == kind]

    def _found(self, number: int) -> list[dict[str, Any]]:
        return [message for message in self.messages if message.get("id") == number]

    def _take(self, content: Any, buffers: Any = None) -> None:
        with self._changed:
            self.threads.add(threading.get_ident())
            self.messages.append(json.loads(json.dumps(content, allow_nan=False)))
            self._changed.notify_all()


@pytest.fixture
def source() -> FakeSource:
    return FakeSource()


@pytest.fixture
def inspector(source: FakeSource) -> Iterator[Inspector]:
    made = Inspector(source, PROFILE, progress_of(PROFILE))
    yield made
    made.close()


def test_a_view_that_opens_gets_the_tasks_with_their_best_trial(inspector: Inspector) -> None:
    page = Page(inspector)
    inspector.receive("ready", {}, ())
    (message,) = page.of("tasks")
    assert [task["best"] for task in message["tasks"][:4]] == [17, 0, 5, None]


def test_a_text_is_answered_by_number_and_made_on_another_thread(inspector: Inspector, source: FakeSource) -> None:
    page = Page(inspector)
    page.ask("text", 1, task=TASK, trial=17, view="tir")
    answer = page.answer(1)
    assert (answer["kind"], answer["view"]) == ("answer", "tir")
    assert "conv2d_nchw" in answer["text"]
    assert answer["links"][1] == {"name": "loop ff_0", "first_line": 3, "last_line": 7}
    assert source.calls == [("text", TASK, 17, "tir")]
    assert threading.get_ident() not in page.threads


def test_views_diff_and_rerun_are_answered_too(inspector: Inspector) -> None:
    page = Page(inspector)
    page.ask("views", 1, task=TASK)
    page.ask("diff", 2, task=TASK, left=0, right=17, view="schedule")
    page.ask("rerun", 3, task=TASK, trial=17)
    assert len(page.answer(1)["views"]) == 12
    diff = page.answer(2)["diff"]
    assert "decision=[8, 17]" in diff["right_text"]
    assert "hunks" not in diff
    assert page.answer(3)["rerun"]["measured_us"] == 712.5


def test_an_error_of_the_source_is_the_answer_with_its_remedy(inspector: Inspector) -> None:
    page = Page(inspector)
    page.ask("text", 1, task=TASK, trial=13, view="tir")
    assert page.answer(1)["kind"] == "failed"
    assert page.answer(1)["remedy"] == "Search the task again."


def test_a_fault_of_the_source_is_shown_with_its_type_and_whole_text(inspector: Inspector, caplog: pytest.LogCaptureFixture) -> None:
    page = Page(inspector)
    page.ask("text", 1, task=TASK, trial=14, view="tir")
    assert "RuntimeError: the worker's answer\nmade no sense" in page.answer(1)["message"]
    assert "FakeSource could not answer" in caplog.text


@pytest.mark.parametrize(
    "content",
    [
        {"task": "unknown", "trial": 1, "view": "tir"},
        {"task": None, "trial": 1, "view": "tir"},
        {"task": TASK, "trial": -1, "view": "tir"},
        {"task": TASK, "trial": "1", "view": "tir"},
        {"task": TASK, "trial": True, "view": "tir"},
        {"task": TASK, "trial": 1, "view": 3},
    ],
)
def test_a_question_that_makes_no_sense_is_answered_so_and_never_reaches_the_source(
    inspector: Inspector, source: FakeSource, content: dict[str, Any]
) -> None:
    page = Page(inspector)
    page.ask("text", 1, **content)
    assert page.answer(1)["kind"] == "failed"
    assert source.calls == []


def test_a_newer_text_takes_the_place_of_one_that_is_not_made_yet(inspector: Inspector, source: FakeSource) -> None:
    page = Page(inspector)
    source.gate = asyncio.Event()
    page.ask("text", 1, task=TASK, trial=1, view="tir")
    page.ask("text", 2, task=TASK, trial=2, view="tir")
    background_loop().call_soon_threadsafe(source.gate.set)
    assert page.answer(2)["kind"] == "answer"
    assert not [message for message in page.messages if message["id"] == 1]


def test_a_trial_that_failed_is_told_with_its_class_and_full_text(inspector: Inspector) -> None:
    page = Page(inspector)
    page.ask("trial", 1, task=TASK, trial=FAILED_TRIAL)
    page.ask("text", 2, task=TASK, trial=17, view="tir")
    answer = page.answer(1)
    assert answer["status"] == "build_error"
    assert answer["error"].splitlines() == ["Traceback of the build", HOSTILE, "ValueError: no such intrinsic"]
    page.ask("trial", 3, task=TASK, trial=17)
    assert (page.answer(3)["status"], page.answer(3)["error"]) == ("ok", "")


def test_a_question_that_is_given_up_is_ended_and_not_answered(inspector: Inspector, source: FakeSource) -> None:
    page = Page(inspector)
    source.gate = asyncio.Event()
    page.ask("text", 1, task=TASK, trial=1, view="tir")
    page.ask("views", 2, task=TASK)
    page.answer(2)  # so the text is being made
    inspector.take_message({"kind": "give_up", "question": "text"})
    background_loop().call_soon_threadsafe(source.gate.set)
    source.gate = None
    page.ask("text", 3, task=TASK, trial=2, view="tir")
    assert page.answer(3)["kind"] == "answer"
    assert not [message for message in page.messages if message.get("id") == 1]


@pytest.mark.parametrize("question", [None, 3, "explode", {}])
def test_what_is_given_up_and_is_no_question_is_ignored(inspector: Inspector, question: object) -> None:
    page = Page(inspector)
    inspector.take_message({"kind": "give_up", "question": question})
    assert page.messages == []


def test_closing_gives_up_what_is_being_made(source: FakeSource) -> None:
    ended = threading.Event()

    class Endless(FakeSource):
        async def text(self, task: str, trial: int, view: str) -> ViewText:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

    inspector = Inspector(Endless(), PROFILE)
    page = Page(inspector)
    page.ask("text", 1, task=TASK, trial=1, view="tir")
    page.ask("views", 2, task=TASK)
    page.answer(2)  # so the text is being made
    inspector.close()
    assert ended.wait(ANSWER_S)
    page.ask("views", 3, task=TASK)
    assert not page.of("failed")


def test_show_sets_task_trial_and_view_at_once(inspector: Inspector) -> None:
    inspector.show(PROFILE.tasks[1].task, 9, "source")
    assert (inspector.task, inspector.trial, inspector.view) == (PROFILE.tasks[1].task, 9, "source")
    with pytest.raises(SelectionError):
        inspector.show("unknown")


def test_a_task_that_the_profile_does_not_have_is_not_shown(inspector: Inspector) -> None:
    inspector.task = "unknown"
    assert inspector.task is None


def test_progress_is_sent_for_the_tasks_whose_best_or_count_changed(inspector: Inspector) -> None:
    page = Page(inspector)
    progress = progress_of(PROFILE)
    inspector.update_progress(progress)
    inspector.update_progress([replace(progress[2], best=12, trials=13)])
    (message,) = page.of("tasks")
    assert [(task["best"], task["trials"]) for task in message["tasks"]] == [(12, 13)]
