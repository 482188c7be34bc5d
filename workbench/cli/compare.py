"""``workbench compare``: two sessions side by side, kernel by kernel, with spreads and verdicts."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import RenderableType

from workbench.analysis.session_pair import BOTH, Judged, KernelPair, Known, SessionPair
from workbench.api.pair import compare_sessions
from workbench.cli import formats
from workbench.cli.grid import Column, Grid, Line, Sentence
from workbench.cli.output import show

_COLUMNS = (
    Column("Kernel", priority=0, least=12),
    Column("In", priority=6),
    Column("Calls", priority=7, right=True),
    Column("First(us)", priority=2, right=True),
    Column("Second(us)", priority=2, right=True),
    Column("Ratio", priority=1, right=True),
    Column("Verdict", priority=3),
    Column("Best first(us)", priority=4, right=True),
    Column("Best second(us)", priority=4, right=True),
    Column("Best ratio", priority=5, right=True),
    Column("Best verdict", priority=5),
    Column("Trials", priority=8, right=True),
)


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("compare", parents=[shared], help="two sessions side by side, kernel by kernel, with spreads and verdicts")
    parser.add_argument("first", metavar="A", help="a session directory")
    parser.add_argument("second", metavar="B", help="another one")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    pair = compare_sessions(options.first, options.second)
    show(_tables(pair), values=pair.to_dict(), json_to=options.json)
    return 0


def _tables(pair: SessionPair) -> list[RenderableType]:
    words = f"first: {pair.first}; second: {pair.second}; ratio: first / second, above 1 the second is faster"
    whole = [_whole("untuned", pair.total), *([_whole("tuned", pair.tuned)] if pair.tuned.first or pair.tuned.second else [])]
    shared = sum(kernel.found == BOTH for kernel in pair.kernels)
    count = f"{shared} of {len(pair.kernels)} kernels are in both; times are those of all calls in one run, the best ones those of one call"
    return [
        Grid(_COLUMNS, tuple(_line(kernel) for kernel in pair.kernels), remedy="widen the terminal, or use --json"),
        *(Sentence(text) for text in (words, *whole, count)),
        *(Sentence(f"not the same: {note}", style="yellow") for note in pair.notes),
    ]


def _whole(name: str, judged: Judged) -> str:
    return f"end to end, {name}: {_time(judged.first)} and {_time(judged.second)} us, {_ratio(judged)}: {judged.verdict}"


def _line(kernel: KernelPair) -> Line:
    first, second = kernel.calls
    calls = str(first) if first == second else f"{first}/{second}"
    return Line(
        cells=(
            *(kernel.kernel, kernel.found, calls),
            *(_time(kernel.untuned.first), _time(kernel.untuned.second), _ratio(kernel.untuned), kernel.untuned.verdict),
            *(_time(kernel.best.first), _time(kernel.best.second), _ratio(kernel.best), kernel.best.verdict),
            f"{kernel.trials[0]}/{kernel.trials[1]}" if any(kernel.trials) else "",
        )
    )


def _time(known: Known | None) -> str:
    return formats.microseconds(None if known is None else known.median_us)


def _ratio(judged: Judged) -> str:
    if judged.ratio is None:
        return "-"
    return f"{judged.ratio:.2f}x" if judged.ratio_error is None else f"{judged.ratio:.2f}x ±{judged.ratio_error:.2f}"
