"""`workbench inspect` and the views of a session without TVM: what is offered, printed and refused, with a worker that is none."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

import workbench
from workbench.analysis.text_diff import differing_knobs, hunks
from workbench.analysis.view_catalogue import view_catalogue, why_not
from workbench.cli.diff_view import DiffView
from workbench.cli.main import main
from workbench.cli.view_text import Listing
from workbench.errors import InputError, SelectionError, SessionError
from workbench.kernel import WorkerProcess
from workbench.records.knob import Knob
from workbench.records.machine import CudaToolkit
from workbench.records.peaks import Bandwidth, Peaks, Rate
from workbench.records.trial import OK, Trial
from workbench.records.tuning import FASTER, Final, TaskProgress
from workbench.records.view import ALL_VIEWS, ASM, COMPUTE_DAG, DECISIONS, EFFECTS, PTX, RESOURCES, SASS, SOURCE, TIR, Link, ViewText
from workbench.records.view_diff import ViewDiff
from workbench.session import SessionDirectory

TASK = "conv2d-1"
NO_TOOLKIT = CudaToolkit(None, None, None, None, None)
NVCC = CudaToolkit("/bin/nvcc", "13.0", "/bin/ptxas", None, None)
ALL_TOOLS = CudaToolkit("/bin/nvcc", "13.0", "/bin/ptxas", "/bin/cuobjdump", "/bin/nvdisasm")
LONE_CUOBJDUMP = replace(ALL_TOOLS, nvdisasm_path=None)
RATE = Rate(1e12, 1e12, 0.0, 15)
PEAKS = Peaks("cpu", "0" * 16, 2, RATE, (Bandwidth(RATE, 2**30, "memory"),), "by hand", 1.0)
INSTRUCTIONS: list[Any] = [["SamplePerfectTile", ["l1"], [2, 64], ["v3", "v4"]], ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v5"]]]


def trace(tile: int, unroll: int) -> str:
    return json.dumps([INSTRUCTIONS, [[0, [tile, 64 // tile]], [1, unroll]]])


@dataclass
class StandIn:
    """What the worker would answer.

    Attributes:
        asked: What it was asked.
        texts: Views by trial and name.
        missing: Views that it cannot make.
    """

    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    texts: dict[tuple[int, str], ViewText] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def run(self, kind: str, arguments: dict[str, Any], **__: Any) -> dict[str, Any]:
        self.asked.append((kind, arguments))
        return {"views": [self._view(arguments["trial"], view).to_dict() for view in arguments.get("views", [])]}

    def _view(self, trial: int, view: str) -> ViewText:
        if view in self.missing:
            return ViewText(view, unavailable=self.missing[view], remedy="Look elsewhere.")
        if view == DECISIONS:
            tile = Knob("tile conv/i", "tile", "conv", "i", f"{2**trial} x 1", sampled=True, instruction=0)
            knobs = [tile, Knob("unroll conv", "unroll", "conv", "", "16", sampled=True, instruction=1)]
            return ViewText(view, "decisions\n", data={"knobs": [knob.to_dict() for knob in knobs]})
        return self.texts.get((trial, view), ViewText(view, f"{view} of trial {trial}\nsecond line\n", (Link("loop i", 1, 2),)))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn()
    monkeypatch.setattr(WorkerProcess, "run", made.run)
    return made


@pytest.fixture
def searched(session: SessionDirectory) -> SessionDirectory:
    """A session for a CPU with a baseline and 40 trials of one task, of which number 3 won; unrolling makes them slow."""
    with session.store() as store:
        profile = store.profile()
        assert profile is not None
        task = next(task.task for task in profile.tasks if task.name == "conv2d")
        store.update_manifest({"target": {"kind": "llvm", "config": {"kind": "llvm"}, "label": "cpu", "description": "llvm"}})
        final = Final(3, 100.0, 1.0, 50.0, 1.0, 3, 11, FASTER, "2x as fast")
        progress = TaskProgress(task, "conv2d", 2, baseline_us=100.0, best=3, best_us=50.0, final=final)
        for number in range(41):
            tile, unroll = 2 ** (number % 5), number // 5 % 2
            time_us = 100.0 if number == 0 else (80.0 if unroll else 50.0) * (1 + 0.01 * (number % 7))
            made = Trial(task, number, OK, "", f"f{number}", "search" if number else "baseline", "c", (time_us,), 1, 0.0, 0.0, 0.0, None, 50.0, 1.0)
            store.trials.add(made, trace(tile, unroll) if number else "", progress)
    return session


@pytest.fixture
def call(searched: SessionDirectory, capsys: pytest.CaptureFixture[str], worker: StandIn) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(["inspect", "--session", str(searched.path), "-q", *arguments])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        return code, *capsys.readouterr()

    return run


def shown(renderable: RenderableType, *, width: int = 160, terminal: bool = False) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=terminal, color_system=None, highlight=False, markup=False).print(renderable)
    return stream.getvalue()


# what is offered


@pytest.mark.parametrize(
    ("kind", "toolkit", "missing"),
    [
        ("llvm", ALL_TOOLS, {PTX, SASS}),
        ("cuda", ALL_TOOLS, {ASM}),
        ("cuda", NVCC, {ASM, SASS}),
        ("cuda", LONE_CUOBJDUMP, {ASM, SASS}),
        ("cuda", NO_TOOLKIT, {ASM, PTX, SASS}),
        ("c", ALL_TOOLS, {ASM, PTX, SASS, RESOURCES}),
    ],
)
def test_each_view_is_offered_or_says_why_not(kind: str, toolkit: CudaToolkit, missing: set[str]) -> None:
    infos = view_catalogue(kind, toolkit, measured_trials=100)
    assert [info.view for info in infos] == list(ALL_VIEWS)
    assert {info.view for info in infos if not info.available} == missing
    assert all(info.unavailable for info in infos if info.view in missing)


def test_a_missing_tool_is_said_with_the_remedy_and_few_trials_too() -> None:
    infos = {info.view: info for info in view_catalogue("cuda", NVCC, measured_trials=3)}
    assert infos[SASS].unavailable == "cuobjdump and nvdisasm are not here"
    assert "pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm" in infos[SASS].remedy
    assert why_not(SASS, "cuda", LONE_CUOBJDUMP)[0] == "nvdisasm is not here"  # without it cuobjdump prints the header alone
    assert "3 measured trials" in infos[EFFECTS].unavailable
    assert infos[SOURCE].language == "cuda"


def test_without_show_the_views_are_listed_and_no_worker_is_asked(call: Callable[..., Any], worker: StandIn) -> None:
    code, out, _ = call("--task", "conv2d")
    assert code == 0
    assert all(view in out for view in ALL_VIEWS)
    assert "a kernel for llvm has no PTX" in out
    assert worker.asked == []
    code, out, _ = call("--task", "conv2d", "--json", "-")
    assert [info["view"] for info in json.loads(out)["views"]] == list(ALL_VIEWS)


# one trial


def test_one_view_is_printed_as_it_is(call: Callable[..., Any], worker: StandIn) -> None:
    code, out, _ = call("--task", "conv2d", "--show", "tir")
    assert (code, out) == (0, "tir of trial 3\nsecond line\n")  # the winner's
    assert worker.asked[0][1]["views"] == [TIR]
    assert call("--task", "conv2d", "--trial", "0", "--show", "tir")[1] == "tir of trial 0\nsecond line\n"
    assert call("--task", "conv2d", "--trial", "best", "--show", "tir")[1] == "tir of trial 3\nsecond line\n"


def test_several_views_are_asked_for_at_once_and_have_headings(call: Callable[..., Any], worker: StandIn) -> None:
    code, out, _ = call("--task", "conv2d", "--show", "tir, source,tir")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("---")] == ["--- tir of trial 3, 51.5 us", "--- source of trial 3, 51.5 us"]
    assert len(worker.asked) == 1
    assert worker.asked[0][1]["views"] == [TIR, SOURCE]


def test_json_has_the_text_of_each_view_and_the_links(call: Callable[..., Any], worker: StandIn) -> None:
    worker.missing[PTX] = "there is none"
    code, out, err = call("--task", "conv2d", "--show", "tir,ptx,decisions", "--json", "-")
    values = json.loads(out)
    assert (code, err) == (0, "")
    assert values[TIR] == "tir of trial 3\nsecond line\n"
    assert values[PTX] is None
    assert values["links"][TIR] == [["loop i", 1, 2]]
    assert values["unavailable"] == {PTX: {"reason": "there is none", "remedy": "Look elsewhere."}}
    assert [knob["knob"] for knob in values["data"][DECISIONS]["knobs"]] == ["tile conv/i", "unroll conv"]
    assert (values["trial"], values["kernel"]) == (3, "conv2d")


def test_a_view_that_there_is_not_is_an_error_if_nothing_else_was_asked_for(call: Callable[..., Any], worker: StandIn) -> None:
    worker.missing[PTX] = "nvcc is not here"
    code, out, err = call("--task", "conv2d", "--show", "ptx")
    assert (code, out) == (2, "")
    assert "nvcc is not here" in err
    assert "Look elsewhere." in err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--task", "gone", "--show", "tir"), "gone"),
        (("--task", "conv2d", "--show", "nothing"), "nothing"),
        (("--task", "conv2d", "--show", ","), "no view"),
        (("--task", "conv2d", "--show", "tir", "--trial", "-1"), "-1"),
        (("--task", "conv2d", "--show", "tir", "--trial", "x"), "x"),
        (("--task", "dense", "--show", "tir"), "not searched"),
        (("--show", "tir"), "--task"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: tuple[str, ...], named: str, call: Callable[..., Any]) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert named in err
    assert len(err.splitlines()) == 1


def test_what_needs_no_trial_needs_no_search(call: Callable[..., Any]) -> None:
    assert call("--task", "dense", "--show", f"{COMPUTE_DAG},tir_before")[0] == 0


def test_strangers_text_moves_no_cursor_and_keeps_its_lines() -> None:
    text = shown(Listing("\x1b[31mred\r\nnext\tline\u202e\n[bold]x[/bold] :smile:\n", "python"))
    assert text.splitlines() == ["\\x1b[31mred\\r", "next    line\\u202e", "[bold]x[/bold] :smile:"]


def test_long_lines_are_neither_wrapped_nor_cut(call: Callable[..., Any], worker: StandIn) -> None:
    worker.texts[3, TIR] = ViewText(TIR, "x" * 500 + "\n")
    assert call("--task", "conv2d", "--show", "tir")[1] == "x" * 500 + "\n"
    _, out, _ = call("--task", "conv2d", "--show", "tir", "--diff", "0")
    assert "+" + "x" * 500 in out.splitlines()


# two trials


def difference(left: str, right: str) -> ViewDiff:
    knobs = [[Knob("tile i", "tile", "conv", "i", value, sampled=True, instruction=0)] for value in ("1 x 4", "4 x 1")]
    return ViewDiff(TIR, "trial 0 (untuned)", "trial 3", left, right, hunks(left, right), differing_knobs(*knobs))


def test_on_a_wide_terminal_two_texts_stand_side_by_side() -> None:
    text = shown(DiffView(difference("same\nold\n", "same\nnew\n")), width=160, terminal=True)
    (line,) = [line for line in text.splitlines() if "old" in line]
    assert line.index("old") < line.index("|") < line.index("new")
    assert "tile i" in text
    assert "1 x 4" in text


@pytest.mark.parametrize("width", [60, 160])
def test_elsewhere_they_stand_one_above_the_other(width: int) -> None:
    lines = shown(DiffView(difference("same\nold\n", "same\nnew\n")), width=width, terminal=width == 60).splitlines()
    assert lines[-3:] == [" same", "-old", "+new"]


def test_equal_texts_are_said_to_be_equal() -> None:
    assert "no difference" in shown(DiffView(difference("same\n", "same\n")))


def test_strangers_lines_are_safe_in_a_diff_too() -> None:
    for terminal in (True, False):
        assert "\x1b" not in shown(DiffView(difference("a\x1b[31m\n", "b\x1b[31m\n")), terminal=terminal)


def test_a_diff_names_both_sides_and_the_decisions(call: Callable[..., Any]) -> None:
    code, out, _ = call("--task", "conv2d", "--trial", "2", "--diff", "0", "--show", "tir")
    assert code == 0
    assert "trial 0 (untuned), 100.0 us (left)" in out
    assert "-tir of trial 0" in out
    assert "+tir of trial 2" in out
    code, out, _ = call("--task", "conv2d", "--diff", "1", "--json", "-")
    values = json.loads(out)
    assert values["decisions"] == [{"knob": "tile conv/i", "left": "2 x 1", "right": "8 x 1"}]
    assert not values["diff"]["schedule"]["identical"]
    assert values["diff"]["schedule"]["hunks"][0]["lines"][0]["left"] == "schedule of trial 1"


# all trials


def test_effects_are_of_all_measured_trials_with_the_names_of_one(call: Callable[..., Any], worker: StandIn) -> None:
    code, out, _ = call("--task", "conv2d", "--show", "effects")
    assert code == 0
    assert "40 measured trials of 1 sketch" in out
    (line,) = [line for line in out.splitlines() if line.startswith("matters")]
    assert "unroll conv" in line
    assert [arguments["views"] for _, arguments in worker.asked] == [[DECISIONS]]
    code, out, _ = call("--task", "conv2d", "--show", "effects", "--json", "-")
    assert json.loads(out)["data"][EFFECTS]["trials"] == 40


# from Python


def test_a_session_gives_views_texts_and_differences(searched: SessionDirectory, worker: StandIn) -> None:
    with workbench.open(searched.path) as session:
        assert [info.view for info in session.views("conv2d")] == list(ALL_VIEWS)
        assert session.inspect("conv2d", TIR) == "tir of trial 3\nsecond line\n"
        found = session.inspection("conv2d", TIR, SOURCE, trial=0)
        assert found.label == "trial 0 (untuned), 100.0 us"
        assert found.view(TIR).links == (Link("loop i", 1, 2),)
        with pytest.raises(KeyError):
            found.view(ASM)
        diff = session.diff("conv2d", TIR)
        assert (diff.left, diff.identical) == ("trial 0 (untuned), 100.0 us", False)
        assert session.diff("conv2d", TIR, trial=2, other=2).identical
        assert session.effects("conv2d").effects[0].knob == "unroll conv"
        assert session.peaks() is None
        with pytest.raises(SelectionError):
            session.views("gone")
        with pytest.raises(InputError, match="no view x"):
            session.inspection("conv2d", "x")


def test_an_answer_that_cannot_be_read_is_an_error(searched: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [{}, {"views": 3}, {"views": [{"view": 1}]}, {"views": []}, {"views": [{"view": "tir", "links": [{}]}]}]
    with workbench.open(searched.path) as session:
        for answer in answers:
            monkeypatch.setattr(WorkerProcess, "run", lambda *_, answer=answer, **__: answer)
            with pytest.raises(SessionError, match="cannot be read"):
                session.inspect("conv2d", TIR)


# the limit beside each latency


def test_tasks_and_profile_say_how_far_from_the_limit_they_are(
    searched: SessionDirectory, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["tasks", "--session", str(searched.path), "-q", "--json", "-"]
    assert main(arguments) == 0
    assert {task["limit_percent"] for task in json.loads(capsys.readouterr().out)["tasks"]} == {None}
    with searched.store() as store:
        store.write_document("peaks", PEAKS.to_dict())
    assert main(arguments) == 0
    conv2d = next(task for task in json.loads(capsys.readouterr().out)["tasks"] if task["name"] == "conv2d")
    limit_us = conv2d["tensor_bytes"] / 1e12 * 1e6
    assert conv2d["limit_percent"] == pytest.approx(100 * limit_us / (conv2d["time_us"] / conv2d["weight"]))
    assert conv2d["best_limit_percent"] == pytest.approx(100 * limit_us / 50.0)
    assert main(arguments[:-2]) == 0
    heading = capsys.readouterr().out.splitlines()[0]
    assert "Limit(%)" in heading
    assert "Best limit(%)" in heading
