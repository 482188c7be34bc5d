"""``workbench tune``: searches schedules for the selected tasks, with live progress."""

from __future__ import annotations

import argparse
import functools
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.api import Session
from workbench.api import open as open_session
from workbench.api.search import Search
from workbench.cli.arguments import add_python_option, amount, count, positive, positive_number, seed
from workbench.cli.output import show
from workbench.cli.sessions import find_session, profile_of
from workbench.cli.tune_progress import TuneProgress
from workbench.cli.tune_table import tune_table
from workbench.errors import InputError, Interrupted, SelectionError
from workbench.escaping import plain
from workbench.records.profile import Profile
from workbench.records.trial import MeasureOptions
from workbench.records.tuning import DEFAULT_SPACE, DEFAULT_TRIALS_PER_TASK, FAILED, SPACES, SearchBudget, TaskProgress

_REFRESH_S = 0.2
_DEFAULTS = MeasureOptions()
_NOTHING_SEARCHED = 1
"""Exit code if every task ended as failed."""

_SCHEDULE_FUNCTION = """\
a schedule function of your own:
  --schedule mine:tile --trust calls tile of mine.py, in this folder or on PYTHONPATH, for
  each kernel that is searched, with a tvm.s_tir.Schedule of it. It schedules in place and
  returns nothing, or it returns one schedule or a list of them; what it raises ends the
  task. Its sample_* calls are the decisions that the search makes; without any, it is one
  candidate. The bundled model matmul, for example, has a kernel with the block matmul:

    def tile(sch):
        block = sch.get_sblock("matmul")
        i, j, k = sch.get_loops(block)
        i_outer, i_inner = sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=16))
        j_outer, j_inner = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=64))
        sch.reorder(i_outer, j_outer, k, i_inner, j_inner)
        sch.parallel(i_outer)
        sch.vectorize(j_inner)

  --resume needs the function again: it is code, and a session keeps none.
"""


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "tune",
        parents=[shared],
        help="search schedules for the selected tasks, with live progress",
        epilog=_SCHEDULE_FUNCTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    budget = parser.add_argument_group("when it ends")
    budget.add_argument("--trials", type=positive, metavar="N", help="all trials of the session together, those of earlier searches included")
    budget.add_argument("--seconds", type=positive_number, metavar="S", help="time of this search; the last measurement of the best comes after it")
    budget.add_argument("--per-task", type=positive, metavar="N", help=f"trials of each task (default: {DEFAULT_TRIALS_PER_TASK}, if nothing else)")
    default = SearchBudget.flat_after
    budget.add_argument(
        "--flat-after", type=count, default=default, metavar="N", help=f"a task ends after N trials without gain; 0 never (default: {default})"
    )
    search = parser.add_argument_group("what it searches")
    search.add_argument("--resume", action="store_true", help="go on where earlier searches of these tasks ended")
    search.add_argument("--dry-run", type=positive, metavar="N", help="generate, build and check N candidates of each task without measuring")
    search.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of candidates and of random inputs")
    spaces = "; ".join(f"{name}: {words}" for name, words in SPACES.items())
    inherited = f"default: that of the search that is resumed, or {DEFAULT_SPACE}"
    search.add_argument("--space", default="", metavar="NAME", help=f"search space ({inherited}). {spaces}")
    search.add_argument("--schedule", default="", metavar="MODULE:FUNCTION", help="a schedule function of your own, see below; needs --trust")
    search.add_argument("--trust", action="store_true", help="allow the schedule function to run")
    search.add_argument(
        "--transfer",
        nargs="+",
        default=[],
        metavar="PATH",
        help="sessions, databases, or logs of auto_scheduler (with --engine relay of AutoTVM too), whose schedules are tried first",
    )
    search.add_argument("--no-library", action="store_true", help="leave out what the record library has of these kernels")
    measure = parser.add_argument_group("how it measures")
    measure.add_argument("--repeat", type=positive, default=_DEFAULTS.repeat, metavar="N", help="most measured times of a trial")
    measure.add_argument("--number", type=positive, metavar="N", help="runs behind each measured time (default: as --min-repeat-ms needs)")
    measure.add_argument("--min-repeat-ms", type=amount, default=_DEFAULTS.min_repeat_ms, metavar="X", help="least duration of a measured time")
    measure.add_argument("--timeout", type=positive_number, default=_DEFAULTS.timeout_s, metavar="S", help="longest time that a trial may run")
    measure.add_argument("--build-timeout", type=positive_number, default=_DEFAULTS.build_timeout_s, metavar="S", help="the same for building it")
    measure.add_argument("--cooldown-ms", type=amount, default=_DEFAULTS.cooldown_ms, metavar="X", help="pause before each trial")
    measure.add_argument("--cache-flush", action="store_true", help="measure with cold caches")
    measure.add_argument("--device", type=count, default=_DEFAULTS.device, metavar="I", help="index of the device")
    measure.add_argument("--builders", type=positive, metavar="N", help="processes that build (default: one for each physical core)")
    add_python_option(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.schedule and not options.trust:
        raise InputError("--schedule runs code of your own.", "Allow it with --trust.")
    directory = find_session(options.session, quiet=options.quiet)
    profile = profile_of(directory)
    with directory.store() as store:
        selection = store.selection()
    if selection is None or not selection.tasks:
        raise SelectionError("Nothing is selected.", "Select the hotspots first: workbench select --share 0.8.")
    with open_session(directory.path.absolute(), trust=options.trust, python=options.python) as session:
        begin = functools.partial(
            session.tune,
            selection,
            trials=options.trials,
            seconds=options.seconds,
            per_task=options.per_task,
            flat_after=options.flat_after or None,
            seed=options.seed,
            resume=options.resume,
            dry_run=options.dry_run,
            space=options.space,
            schedule=options.schedule,
            measure=_measure_options(options),
            builders=options.builders,
            transfer=options.transfer,
            library=not options.no_library,
        )
        outcome = run_search(session, begin, profile, quiet=options.quiet, again=_again(options))
        show([tune_table(outcome.result, outcome.progress, profile)], values=outcome.result, json_to=options.json)
        if outcome.interrupted is not None:
            raise outcome.interrupted
    return _NOTHING_SEARCHED if all(task["state"] == FAILED for task in outcome.result["tasks"]) else 0


def _again(options: argparse.Namespace) -> str:
    """The command that goes on with a search of these options."""
    words = ["workbench", "tune", *(["--session", options.session] if options.session else [])]
    words += ["--resume"] if options.dry_run is None else ["--dry-run", str(options.dry_run)]
    words += ["--schedule", options.schedule, "--trust"] if options.schedule else []
    return plain(shlex.join(words), 300)


@dataclass(frozen=True)
class Outcome:
    """What became of a search.

    Attributes:
        result: As in ``tune --json``; as far as it came, if it was interrupted.
        progress: How far each task of the session is.
        interrupted: Says that it was interrupted, and how to go on.
    """

    result: dict[str, Any]
    progress: list[TaskProgress]
    interrupted: Interrupted | None = None


def run_search(session: Session, begin: Callable[[], Search], profile: Profile, *, quiet: bool, again: str) -> Outcome:
    """Search to the end or to Ctrl-C, with progress on standard error; what was measured is stored however it ends.

    Args:
        session: What is searched.
        begin: Starts the search.
        profile: The profile it is about.
        quiet: True shows no progress.
        again: The command that goes on.

    Raises:
        WorkbenchError: The search failed.
        Interrupted: It was stopped before it had begun.
    """
    search = begin()
    try:
        with TuneProgress(search.request, profile, quiet=quiet) as progress:
            _watch(session, search, progress)
    except (KeyboardInterrupt, Interrupted) as error:
        if isinstance(error, KeyboardInterrupt):  # it came while nothing was waited for
            search.cancel()
        if search.begun_after() is None:
            raise Interrupted("Stopped.", "The search had not begun.") from None
        stopped = Interrupted("Stopped.", f"What was measured is saved: go on with {again}.")
        return Outcome(search.so_far(), search.progress(), stopped)
    return Outcome(search.result(), search.progress())


def _watch(session: Session, search: Search, progress: TuneProgress) -> None:
    """Show how a search goes until it has ended: its own trials alone, since others may search the session before it."""
    cursor: int | None = None
    is_running = True
    while is_running:
        search.wait(_REFRESH_S, on_event=progress.on_event)
        is_running = search.is_running  # asked before the trials are: none is missed at the end
        if cursor is None and (cursor := search.begun_after()) is not None:
            with session.directory.store() as store:
                progress.begin(stored.trial for stored in store.trials.all(until=cursor))
        if cursor is None:
            progress.wait()
            continue
        trials, cursor = search.trials(since=cursor)
        progress.update(trials, search.progress())


def _measure_options(options: argparse.Namespace) -> MeasureOptions:
    return MeasureOptions(
        number=options.number,
        repeat=options.repeat,
        min_repeat_ms=options.min_repeat_ms,
        timeout_s=options.timeout,
        build_timeout_s=options.build_timeout,
        cooldown_ms=options.cooldown_ms,
        cache_flush=options.cache_flush,
        device=options.device,
    )
