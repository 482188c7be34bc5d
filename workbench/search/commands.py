"""What each command of a front does to a running search; values that make no sense are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.errors import InputError, SessionError
from workbench.escaping import plain
from workbench.records.command import Command
from workbench.records.selection import SelectedTask
from workbench.search.agenda import STOPPED_BY_USER, Agenda
from workbench.search.limits import changed_budget, task_budget, task_identifier

_ARGUMENTS = {"add": ("task", "trials", "seconds"), "drop": ("task",), "pause": (), "resume": (), "stop": ()}


def obey(agenda: Agenda, command: Command) -> None:
    """Do what a command asks for.

    Raises:
        InputError: It cannot be done; nothing was changed.
    """
    kind, arguments = command.kind, command.arguments
    strange = [name for name in arguments if name not in _ARGUMENTS.get(kind, arguments)]
    if strange:
        raise InputError(f"The command {plain(kind)} takes no {plain(strange[0], 60)}.", "Leave it out.")
    if kind == "pause":
        agenda.pause()
    elif kind == "resume":
        agenda.resume()
    elif kind == "stop":
        agenda.stopping = STOPPED_BY_USER
    elif kind == "add":
        limits = task_budget(_without_task(arguments))
        agenda.add(SelectedTask(task_identifier(arguments), "", limits.get("trials"), limits.get("seconds")))
    elif kind == "drop":
        agenda.drop(task_identifier(arguments))
    elif kind == "budget":
        _change_budget(agenda, arguments)
    else:
        raise InputError(f"A search knows no command {plain(kind)}.")


def obey_at_the_end(command: Command) -> None:
    """Answer a command that comes when the search has ended and only its winners are still measured."""
    if command.kind != "stop":
        raise SessionError("The search is just ending.", "Start it again with --resume.")


def _change_budget(agenda: Agenda, arguments: Mapping[str, Any]) -> None:
    limits = _without_task(arguments)
    if arguments.get("task") is None:
        agenda.budget = changed_budget(agenda.budget, limits)
        for run in agenda.runs.values():
            agenda.reopen(run)
        return
    run = agenda.named(task_identifier(arguments))
    agenda.reopen(run, **{f"budget_{name}": value for name, value in task_budget(limits).items()})


def _without_task(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "task"}
