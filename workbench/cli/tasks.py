"""``workbench tasks``: prints the tasks of a session."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import RenderableType

from workbench.cli.output import show, write_text
from workbench.cli.sessions import find_session, profile_of
from workbench.cli.table_csv import tasks_csv
from workbench.cli.task_table import task_limits, task_table
from workbench.records.peaks import Peaks
from workbench.records.profile import Profile, Task
from workbench.records.tuning import TaskProgress
from workbench.session import stored_peaks


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("tasks", parents=[shared], help="the distinct kernels with weight, share of time, FLOP and search space")
    parser.add_argument("--csv", metavar="FILE", help="write the tasks as CSV; - writes CSV to standard output instead of the table")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    directory = find_session(options.session, quiet=options.quiet)
    profile = profile_of(directory)
    with directory.store() as store:
        selection, searched, peaks = store.selection(), store.trials.progress(), stored_peaks(store)
    if options.csv is not None:
        write_text(tasks_csv(profile), options.csv, option="--csv")
    tables: list[RenderableType] = [] if options.csv == "-" else [task_table(profile, selection, searched, peaks=peaks)]
    of_task = {item.task: item for item in searched}
    tasks = [{**task.to_dict(), **_search(of_task.get(task.task)), **_limits(profile, task, of_task.get(task.task), peaks)} for task in profile.tasks]
    show(tables, values={**profile.header(), "tasks": tasks}, json_to=options.json)
    return 0


def _search(progress: TaskProgress | None) -> dict[str, Any]:
    """How far the search of a task is, as in ``tasks --json``."""
    if progress is None:
        return {"state": None, "best_us": None, "other_conditions": None, "trials": 0}
    return {
        "state": progress.state,
        "best_us": progress.before_and_now_us[1],
        "other_conditions": progress.other_times(),
        "trials": progress.trials,
    }


def _limits(profile: Profile, task: Task, progress: TaskProgress | None, peaks: Peaks | None) -> dict[str, float | None]:
    """How far the times of a task are from the device's limit, as in ``tasks --json``."""
    now, best = task_limits(profile, task, progress, peaks)
    return {"limit_percent": now, "best_limit_percent": best}
