"""``workbench inspect``: shows trials as texts, what differs between two of them, and which decisions matter."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import RenderableType

from workbench.api import Session
from workbench.api import open as open_session
from workbench.cli.arguments import add_python_option, count
from workbench.cli.diff_view import DiffView
from workbench.cli.output import note, show
from workbench.cli.sessions import find_session
from workbench.cli.view_list import view_list
from workbench.cli.view_text import Heading, Listing
from workbench.errors import InputError
from workbench.escaping import plain
from workbench.records.view import ALL_VIEWS, EFFECTS, Inspection, ViewInfo
from workbench.records.view_diff import ViewDiff

_BEST = "best"


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("inspect", parents=[shared], help="schedule, TIR, source and resources of a trial; what differs between two")
    parser.add_argument("--task", required=True, metavar="T", help="a task, or the name of its kernel")
    parser.add_argument("--trial", type=_trial, metavar="N", help="number of the trial, 0 for the untuned kernel (default: the winner)")
    parser.add_argument("--show", metavar="VIEW,VIEW", help=f"what to show: {', '.join(ALL_VIEWS)} (default: lists what can be shown)")
    parser.add_argument("--diff", type=count, metavar="M", help="what differs from trial M, and in which decisions")
    add_python_option(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    views = _views(options.show)
    directory = find_session(options.session, quiet=options.quiet)
    with open_session(directory.path.absolute(), python=options.python) as session:
        if not views and options.diff is None:
            infos = session.views(options.task)
            show([view_list(infos)], values={"views": [info.to_dict() for info in infos]}, json_to=options.json)
        elif options.diff is not None:
            _show_diffs(session, options, views)
        else:
            _show_views(session, options, views)
    return 0


def _show_views(session: Session, options: argparse.Namespace, views: list[str]) -> None:
    """Print views; those that cannot be shown are said on standard error, and are an error if there are no others."""
    found = session.inspection(options.task, *views, trial=options.trial)
    shown = [view for view in found.views if not view.unavailable]
    for view in found.views:
        if view.unavailable and shown:
            note(f"no {view.view}: {view.unavailable}. {view.remedy}".strip(), quiet=options.quiet)
    if not shown:
        missing = found.views[0]
        raise InputError(f"There is no {missing.view} of {found.label}: {missing.unavailable}.", missing.remedy)
    languages = _languages(session.views(options.task))
    renderables: list[RenderableType] = []
    for view in shown:
        if len(found.views) > 1:
            renderables.append(Heading(f"{view.view} of {found.label if view.view != EFFECTS else options.task}"))
        renderables.append(Listing(view.text, languages.get(view.view, "text")))
    show(renderables, values=_values(found), json_to=options.json)


def _show_diffs(session: Session, options: argparse.Namespace, views: list[str]) -> None:
    wanted = [view for view in views if view != EFFECTS] or ["schedule"]
    diffs = [session.diff(options.task, view, trial=options.trial, other=options.diff) for view in wanted]
    renderables: list[RenderableType] = [DiffView(diff, is_first=place == 0) for place, diff in enumerate(diffs)]
    show(renderables, values=_diff_values(diffs), json_to=options.json)


def _values(found: Inspection) -> dict[str, Any]:
    """``{view: text}``, and beside the texts what else is known of them."""
    shown = [view for view in found.views if not view.unavailable]
    return {
        **{view.view: view.text if not view.unavailable else None for view in found.views},
        "task": found.task,
        "kernel": found.kernel,
        "trial": found.trial,
        "label": found.label,
        "links": {view.view: [[link.name, link.first_line, link.last_line] for link in view.links] for view in shown},
        "data": {view.view: dict(view.data) for view in shown if view.data},
        "unavailable": {view.view: {"reason": view.unavailable, "remedy": view.remedy} for view in found.views if view.unavailable},
    }


def _diff_values(diffs: list[ViewDiff]) -> dict[str, Any]:
    return {
        "left": diffs[0].left,
        "right": diffs[0].right,
        "decisions": [{"knob": item.knob, "left": item.left, "right": item.right} for item in diffs[0].decisions],
        "diff": {diff.view: {"identical": diff.identical, "hunks": diff.to_dict()["hunks"]} for diff in diffs},
    }


def _languages(infos: tuple[ViewInfo, ...]) -> dict[str, str]:
    return {info.view: info.language for info in infos}


def _views(text: str | None) -> list[str]:
    """The views of an option, each once.

    Raises:
        InputError: One does not exist.
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if text is not None and not names:
        raise InputError("--show names no view.", f"Views: {', '.join(ALL_VIEWS)}.")
    for name in names:
        if name not in ALL_VIEWS:
            raise InputError(f"There is no view {plain(name)}.", f"Views: {', '.join(ALL_VIEWS)}.")
    return list(dict.fromkeys(names))


def _trial(text: str) -> int | None:
    """The number of a trial; None for the winner."""
    return None if text == _BEST else count(text)
