"""Owns the profile as the old debug runtime printed it, with links and totals added; it computes no times."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from rich.console import Group, RenderableType

from workbench.analysis.roofline import row_limits
from workbench.cli import formats
from workbench.cli.grid import Column, Drawing, Grid, Line, Sentence
from workbench.escaping import plain
from workbench.links import difference_note
from workbench.records.match import RowMatch
from workbench.records.peaks import Peaks
from workbench.records.profile import DEBUG_RUNTIME_COLUMNS, Profile, Row
from workbench.report.figures_text import plural

HOTTEST_ROWS = 40

_ELIMINATED_SHOWN = 3
_BAR_WIDTH = 8
_FEWEST_HIDDEN = 6  # fewer are shown: the line that stands for them would save nothing
_ORIGINS_SHOWN = 2
_HOTTEST_ORIGINS = 4
_COLUMNS = (
    Column("Row", priority=0, right=True),
    Column(DEBUG_RUNTIME_COLUMNS["node_name"], priority=0, least=24),
    Column(DEBUG_RUNTIME_COLUMNS["ops"], priority=8, least=12),
    Column(DEBUG_RUNTIME_COLUMNS["time_us"], priority=1, right=True),
    Column("±IQR(us)", priority=9, right=True),
    Column(DEBUG_RUNTIME_COLUMNS["time_percent"], priority=2, right=True),
    Column("", priority=6, style="cyan"),
    Column(DEBUG_RUNTIME_COLUMNS["shape"], priority=7, least=16),
    Column(DEBUG_RUNTIME_COLUMNS["inputs"], priority=13, right=True),
    Column(DEBUG_RUNTIME_COLUMNS["outputs"], priority=14, right=True),
    Column("Dtype", priority=12, least=7),
    Column("FLOP", priority=10, right=True),
    Column("GFLOP/s", priority=11, right=True),
    Column("Limit(%)", priority=10, right=True),
    Column("Origins", priority=5, least=20),
    Column("Match", priority=5, right=True),
    Column("Kernel", priority=15, least=16),
    Column("Task", priority=4, least=20),
    Column("Flags", priority=3),
)


def profile_table(
    profile: Profile, *, all_rows: bool = False, peaks: Peaks | None = None, matches: Mapping[int, RowMatch] | None = None
) -> RenderableType:
    """The rows in execution order, then the totals and what a reader must know.

    Args:
        profile: What to show.
        all_rows: Show every row; otherwise the hottest 40, and the others as one line unless they are very few.
        peaks: The limits of the device, which times are compared with; None leaves that out.
        matches: How surely rows of an imported session are tied to the program; a question mark stands behind what is ambiguous.
    """
    shown = profile.rows if all_rows else _hottest_rows(profile)
    largest_us = max((row.time_us or 0.0 for row in profile.rows), default=0.0)
    limits, found = row_limits(profile, peaks), matches or {}
    grid = Grid(columns=_COLUMNS, lines=tuple(_line(row, largest_us, limits.get(row.row), _match(row, found)) for row in shown))
    sentences = [("dim", words) for words in _hidden_rows(profile, shown)]
    sentences += [("bold", words) for words in _totals(profile)]
    sentences += [("", words) for words in (difference_note(profile),) if words]
    sentences += [("dim", words) for words in _eliminated(profile)]
    sentences += [("", words) for words in _hottest(profile)]
    return Group(grid, *(Sentence(words, style=style) for style, words in sentences), *remark_sentences(profile))


def _hottest(profile: Profile) -> list[str]:
    """The answer to the first question: which row is the hottest, which task is it, and where did it come from."""
    rows = [row for row in profile.kernel_rows if row.time_us is not None]
    if not rows:
        return []
    row = max(rows, key=lambda candidate: candidate.time_us or 0.0)
    origins = ", ".join(map(str, row.origins[:_HOTTEST_ORIGINS])) + (" ..." if len(row.origins) > _HOTTEST_ORIGINS else "")
    return [f"hottest: row {row.row}, {row.time_percent or 0.0:.1f} % of the time, task {row.task}, from {origins}"]


def remark_sentences(profile: Profile) -> list[Sentence]:
    """What stands under every table of a profile's rows or tasks."""
    return [Sentence(f"note: {remark}", style="yellow") for remark in formats.remarks(profile)]


def _eliminated(profile: Profile) -> list[str]:
    """A sentence on the source operators that no row has, if there are any."""
    count = len(profile.eliminated)
    if not count:
        return []
    names = ", ".join(plain(name) for name in profile.eliminated[:_ELIMINATED_SHOWN])
    more = f" and {count - _ELIMINATED_SHOWN:,} more" if count > _ELIMINATED_SHOWN else ""
    noun = "operator of the model needs" if count == 1 else "operators of the model need"
    return [f"{count:,} {noun} no run (constant, idle at inference, an undone change of layout, or unread): {names}{more}"]


def row_bar(value: float | None, largest: float) -> Drawing:
    """A bar for a value beside the largest of its column, which fills the cell."""
    share = (value or 0.0) / largest if largest > 0 else 0.0
    return Drawing(*(formats.bar(share, width=_BAR_WIDTH, ascii_only=ascii_only) for ascii_only in (False, True)))


def _match(row: Row, matches: Mapping[int, RowMatch]) -> str:
    match = matches.get(row.row)
    return "" if match is None else f"{100 * match.confidence:.0f} %{' ?' if match.is_ambiguous else ''}"


def _line(row: Row, largest_us: float, limit: float | None, match: str) -> Line:
    broken = bool(row.nan_count or row.inf_count)
    return Line(
        cells=(
            str(row.row),
            row.node_name,
            ", ".join(row.ops),
            formats.microseconds(row.time_us),
            formats.microseconds(row.time_us_iqr),
            formats.percent(row.time_percent),
            row_bar(row.time_us, largest_us),
            row.shape,
            str(row.inputs),
            str(row.outputs),
            row.dtype,
            formats.operations(row.flop),
            formats.gflops(row.gflops),
            "" if limit is None else formats.gflops(limit),
            _origins(row),
            match,
            row.kernel if row.kernel and row.kernel != row.node_name else "",
            row.task or "",
            formats.flags(nan_count=row.nan_count, inf_count=row.inf_count, untunable=bool(row.untunable and row.task)),
        ),
        style="red" if broken else "dim" if row.untunable else "",
    )


def _origins(row: Row) -> str:
    """The first source operators of a row, and the number of the others."""
    names = ", ".join(map(str, row.origins[:_ORIGINS_SHOWN]))
    more = len(row.origins) - _ORIGINS_SHOWN
    return f"{names} +{more}" if more > 0 else names


def _hottest_rows(profile: Profile) -> tuple[Row, ...]:
    """The hottest rows in execution order: by time, or by FLOP where nothing was measured; all rows where hardly any would be hidden."""
    if len(profile.rows) < HOTTEST_ROWS + _FEWEST_HIDDEN:
        return profile.rows
    hottest = heapq.nsmallest(HOTTEST_ROWS, profile.rows, key=lambda row: (-(row.time_us or 0.0), -(row.flop or 0), row.row))
    return tuple(sorted(hottest, key=lambda row: row.row))


def _hidden_rows(profile: Profile, shown: tuple[Row, ...]) -> list[str]:
    """What the rows left out amount to."""
    seen = {row.row for row in shown}
    hidden = [row for row in profile.rows if row.row not in seen]
    if not hidden:
        return []
    rows = f"… {len(hidden):,} rows"
    percents = [row.time_percent or 0.0 for row in hidden]
    if profile.unmeasured:
        return [f"{rows} of fewer FLOP (all rows: --all)"]
    return [f"{rows} below {formats.above(max(percents))} % each, together {sum(percents):.1f} % (all rows: --all)"]


def _totals(profile: Profile) -> list[str]:
    totals = []
    if profile.rows_us is not None:
        rounds = "one round" if profile.repeats == 1 else f"medians of {profile.repeats:,} rounds"
        threads = plural(profile.threads, "thread")
        source = f" ({rounds}, {threads})" if profile.repeats else ""
        totals.append(f"sum of {plural(len(profile.rows), 'row')}: {formats.microseconds(profile.rows_us)} us{source}")
    if profile.total_us is not None:
        spread = f" ± {formats.microseconds(profile.total_us_iqr)} us (median ± IQR)" if profile.total_us_iqr is not None else " (one round)"
        totals.append(f"end to end: {formats.microseconds(profile.total_us)} us{spread}")
    return totals
