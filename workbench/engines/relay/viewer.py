"""Makes views of the old TVM's kernels in a process of the old Python, which may crash or hang: that costs one view."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from workbench.analysis.assembly import assembly_facts, assembly_lines
from workbench.analysis.knob_list import knob_table, named_knobs
from workbench.analysis.view_catalogue import why_not
from workbench.analysis.view_links import tir_links
from workbench.engines.relay.children import START_S
from workbench.engines.relay.interpreter import ChildCrashed, ChildTimeout, Interpreter
from workbench.engines.relay.traces import fingerprint
from workbench.engines.view_protocol import ViewQuestion
from workbench.errors import InputError, WorkbenchError
from workbench.escaping import plain
from workbench.machine import cuda_toolkit
from workbench.records.decode import decode
from workbench.records.knob import Knob
from workbench.records.target import TargetSpec
from workbench.records.view import ASM, COMPUTE_DAG, DECISIONS, LOWERED, PTX, RESOURCES, SASS, SOURCE, TIR, TIR_BEFORE, ViewText

VIEW_TIMEOUT_S = 60.0

_KILL_POLL_S = 0.05
_ANOTHER_TRIAL = "Look at another trial or view; -v shows TVM's own text."
_UNTUNED = "No decisions: it is the untuned kernel, with TOPI's own schedule."
_NO_TOOLKIT = "this engine makes it of no kernel"

Load = Callable[[str], bytes]
"""A kernel's fused Relay function by its name, as the old TVM's JSON."""


class _Answer:
    """What becomes of one question, in a thread of its own.

    Args:
        make: Makes one view of a kernel whose function is given.
        load: Gives the function; it may have to wait for a search.
        question: The question.
    """

    def __init__(self, make: Callable[[str, ViewQuestion, bytes], ViewText], load: Load, question: ViewQuestion) -> None:
        self.made: list[ViewText] = []
        self.failed: BaseException | None = None
        self._make = make
        self._load = load
        self._question = question
        self._turn = threading.Lock()
        self._is_loading = True
        self._is_wanted = True
        self.thread = threading.Thread(target=self._run, name="views", daemon=True)
        self.thread.start()

    def give_up(self) -> bool:
        """Make no further view; False if none is being made, so that nothing has to be waited for."""
        with self._turn:
            self._is_wanted = False
            return not self._is_loading

    def _run(self) -> None:
        try:
            function = self._load(self._question.kernel)
            with self._turn:
                self._is_loading = False
            for view in self._question.views:
                if not self._is_wanted:
                    return
                self.made.append(self._make(view, self._question, function))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the answer is asked for
            self.failed = error


class RelayViewer:
    """Implements `workbench.engines.view_protocol.Viewer`.

    Args:
        child: The process of the old Python that makes views, not started yet; this object closes it.
        load: Gives a kernel by its name.
        target: What kernels are for.
        timeout_s: The limit for each view.
    """

    def __init__(self, child: Interpreter, load: Load, target: TargetSpec, *, timeout_s: float = VIEW_TIMEOUT_S) -> None:
        self._child = child
        self._load = load
        self._target = target
        self._timeout_s = timeout_s
        self._answer: _Answer | None = None
        self._made: tuple[ViewText, ...] = ()

    def begin(self, question: ViewQuestion) -> None:
        """Begin with a question."""
        if self._answer is not None:
            raise RuntimeError("another question is not answered yet")
        self._answer = _Answer(self._one, self._load, question)

    def poll(self) -> tuple[ViewText, ...] | None:
        """The answer; None while it is being made."""
        answer = self._answer
        if answer is None:
            return self._made
        if answer.thread.is_alive():
            return None
        self._answer = None
        if answer.failed is not None:
            raise answer.failed
        self._made = tuple(answer.made)
        return self._made

    def stop(self) -> None:
        """Give up the question at hand."""
        answer, self._answer = self._answer, None
        if answer is not None and answer.give_up():
            while answer.thread.is_alive():
                self._child.kill()
                answer.thread.join(_KILL_POLL_S)

    def close(self) -> None:
        """End the process."""
        self.stop()
        self._child.close()

    def _one(self, view: str, question: ViewQuestion, function: bytes) -> ViewText:
        kind = self._target.kind
        if view in {PTX, SASS} or (view == RESOURCES and kind != "llvm"):
            why, remedy = why_not(view, kind, cuda_toolkit())
            return ViewText(view, unavailable=why or _NO_TOOLKIT, remedy=remedy or f"Give the {SOURCE} to NVIDIA's tools.")
        why, remedy = why_not(view, kind, cuda_toolkit())
        if why:
            return ViewText(view, unavailable=why, remedy=remedy)
        try:
            trace = "" if view in {COMPUTE_DAG, TIR_BEFORE} else question.trace
            if trace and question.expected and fingerprint(trace) != question.expected:
                raise InputError("The recorded schedule is not the one that was measured.", "Search the task again.")
            if not self._child.alive:
                self._child.call("building.warm", {}, timeout_s=START_S)
            asked = {"view": ASM if view == RESOURCES else view, "target": self._target.options, "name": question.kernel, "trace": trace}
            reply = self._child.call("viewing.view", asked, (function,), timeout_s=self._timeout_s)
            return _made(view, kind, reply.value)
        except ChildTimeout:
            return _missing(view, f"it took more than {self._timeout_s:g} s to make")
        except ChildCrashed as error:
            return _missing(view, f"the process that made it ended: {error.message.rstrip('.')}")
        except WorkbenchError as error:
            return ViewText(view, unavailable=error.message.rstrip("."), remedy=error.remedy or _ANOTHER_TRIAL)


def _made(view: str, kind: str, answer: Mapping[str, Any]) -> ViewText:
    """A view of what the old Python answered, with what needs no TVM."""
    text = str(answer["text"])
    if view == DECISIONS:
        knobs = named_knobs([decode(Knob, {"knob": "", **values}) for values in answer["knobs"]])
        return ViewText(DECISIONS, knob_table(knobs, _UNTUNED), data={"knobs": [knob.to_dict() for knob in knobs]})
    if view == RESOURCES:
        facts = assembly_facts(text)
        counts = {"arithmetic": _by_width(facts.arithmetic), "fma": _by_width(facts.fma)}
        lines = [*assembly_lines(facts, None), "", "what each loop touches: not counted on this engine", ""]
        return ViewText(RESOURCES, "\n".join(lines), data={"kind": kind, "assembly": {**vars(facts), **counts}})
    return ViewText(view, text, tir_links(text) if view in {TIR_BEFORE, TIR, LOWERED} else ())


def _by_width(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(bits): count for bits, count in counts.items()}


def _missing(view: str, why: str) -> ViewText:
    return ViewText(view, unavailable=plain(why, 300), remedy=_ANOTHER_TRIAL)
