"""Views of a session's trials for Python users: asks the worker for texts, and makes of them what needs no engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.analysis.knob_effects import effects_text, knob_effects
from workbench.analysis.text_diff import differing_knobs, hunks
from workbench.analysis.view_catalogue import view_catalogue
from workbench.api.knob_table import knob_table, sketches_of
from workbench.api.winner import trial_number, winner
from workbench.errors import InputError, SelectionError, SessionError
from workbench.escaping import plain
from workbench.machine import cuda_toolkit
from workbench.records.decode import DecodeError, decode
from workbench.records.knob import Knob, KnobEffects
from workbench.records.peaks import Peaks
from workbench.records.profile import Task
from workbench.records.trial import BASELINE, OK, Trial
from workbench.records.view import ALL_VIEWS, COMPUTE_DAG, DECISIONS, EFFECTS, TIR_BEFORE, Inspection, ViewInfo, ViewText
from workbench.records.view_diff import ViewDiff
from workbench.session import SessionDirectory, stored_peaks


@dataclass(frozen=True)
class _Knobs:
    knobs: tuple[Knob, ...]


Ask = Callable[[str, dict[str, Any]], dict[str, Any]]

_OF_NO_TRIAL = (COMPUTE_DAG, TIR_BEFORE)


class Inspector:
    """Looks into the trials of one session.

    Args:
        directory: The session.
        ask: Has the worker answer a command.
    """

    def __init__(self, directory: SessionDirectory, ask: Ask) -> None:
        self._directory = directory
        self._ask = ask

    def views(self, task: str) -> tuple[ViewInfo, ...]:
        """All views of a task's trials, and why some cannot be shown; see `workbench.api.Session.views`."""
        with self._directory.store() as store:
            found = _task_of(store.profile(), task)
            kind = str(store.manifest().get("target", {}).get("kind", ""))
            measured = sum(trial.status == OK for trial in store.trials.of_task(found.task))
        return view_catalogue(kind, cuda_toolkit(), measured_trials=measured)

    def inspection(self, task: str, views: Sequence[str], trial: int | None) -> Inspection:
        """Views of one trial; see `workbench.api.Session.inspection`."""
        for view in views:
            if view not in ALL_VIEWS:
                raise InputError(f"There is no view {plain(str(view))}.", f"Views: {', '.join(ALL_VIEWS)}.")
        found, number, label = self._trial(task, trial, any_trial=all(view in (*_OF_NO_TRIAL, EFFECTS) for view in views))
        wanted = [view for view in views if view != EFFECTS]
        answer = self._ask("inspect", {"task": found.task, "trial": number, "views": wanted}) if wanted else {"views": []}
        texts = self._decoded(answer, wanted)
        if EFFECTS in views:
            effects = self.effects(task)
            texts[EFFECTS] = ViewText(EFFECTS, effects_text(effects), data=effects.to_dict())
        return Inspection(found.task, found.name, number, label, tuple(texts[view] for view in views))

    def text(self, task: str, view: str, trial: int | None) -> str:
        """One view as text.

        Raises:
            InputError: It cannot be shown.
        """
        shown = self.inspection(task, [view], trial).view(view)
        if shown.unavailable:
            raise InputError(f"There is no {view} of it: {shown.unavailable}.", shown.remedy)
        return shown.text

    def diff(self, task: str, view: str, trial: int | None, other: int | None) -> ViewDiff:
        """A view of two trials; see `workbench.api.Session.diff`."""
        sides = [self.inspection(task, list(dict.fromkeys([view, DECISIONS])), number) for number in (other, trial)]
        for side in sides:
            shown = side.view(view)
            if shown.unavailable:
                raise InputError(f"There is no {view} of {side.label}: {shown.unavailable}.", shown.remedy)
        left, right = (side.view(view).text for side in sides)
        decided = [_knobs(side.view(DECISIONS)) for side in sides]
        return ViewDiff(view, sides[0].label, sides[1].label, left, right, hunks(left, right), differing_knobs(*decided))

    def effects(self, task: str) -> KnobEffects:
        """Which decisions matter; see `workbench.api.Session.effects`."""
        with self._directory.store() as store:
            found = _task_of(store.profile(), task)
            trials = [(trial, trace) for trial, trace in store.trials.with_traces(found.task) if trial.status == OK and trace]
        sketches = sketches_of(trials)
        names = {sketch: _knobs(self.inspection(found.task, [DECISIONS], number).view(DECISIONS)) for sketch, number in sketches.items()}
        return knob_effects(found.task, knob_table(trials, names))

    def peaks(self, *, measure: bool) -> Peaks | None:
        """The limits of the device; see `workbench.api.Session.peaks`."""
        if measure:
            self._ask("peaks", {})
        with self._directory.store() as store:
            return stored_peaks(store)

    def _decoded(self, answer: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, ViewText]:
        try:
            texts = {text.view: text for text in (ViewText.from_dict(values) for values in answer["views"])}
            return {view: texts[view] for view in wanted}
        except (KeyError, TypeError, DecodeError) as error:
            raise SessionError(f"The worker's answer in {plain(str(self._directory.path), 120)} cannot be read.", "Try again.") from error

    def _trial(self, task: str, trial: int | None, *, any_trial: bool) -> tuple[Task, int, str]:
        """A task, the number of its trial, and what to call it; the winner's if no number is given."""
        number = None if trial is None else trial_number(trial)
        with self._directory.store() as store:
            found = _task_of(store.profile(), task)
            if number is None:
                number = BASELINE if any_trial else winner(store.trials.progress(), found.task).number
            return found, number, label_of(number, store.trials.trial(found.task, number))


def label_of(number: int, trial: Trial | None) -> str:
    """What to call a trial."""
    untuned = trial is None if number == BASELINE else False
    name = f"trial {number} (untuned)" if untuned or (trial is not None and trial.origin == "baseline") else f"trial {number}"
    if trial is None:
        return name
    return f"{name}, {trial.time_us:,.1f} us" if trial.time_us is not None else f"{name}, {plain(trial.status)}"


def _task_of(profile: Any, name: object) -> Task:
    """A task by its name or the name of one of its kernels."""
    tasks: tuple[Task, ...] = () if profile is None else profile.tasks
    found = next((task for task in tasks if task.task == name), None) or next((task for task in tasks if name in task.kernels), None)
    if found is None:
        raise SelectionError(f"There is no task or kernel {plain(str(name), 120)}.", "See: workbench tasks.")
    return found


def _knobs(view: ViewText) -> tuple[Knob, ...]:
    return decode(_Knobs, {"knobs": view.data.get("knobs", [])}).knobs
