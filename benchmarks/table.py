"""Writes the tables of ``docs/benchmarks.md`` from ``benchmarks/results``: ``python benchmarks/table.py``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from measuring import RESULTS

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

_INTRODUCTION = """# Benchmarks

Figures are medians with the smallest and largest in brackets; each table names the command that measured it and the machine.
Run them again with `make bench`; this page is written from `benchmarks/results/*.json` and not by hand. Nothing here was measured on a GPU.
"""

_LOWERING = """
## Import and lowering, against stock TVM
The bundled networks, imported and lowered in fresh processes, the workbench and stock TVM in turn. Stock is `from_onnx` and the passes
that TVM's documentation gives. The ratio is ours to stock's, pair by pair: below 1 we are faster. Most of the difference is that constants
are folded in NumPy instead of by compiling a kernel for each; fewer kernels come from folding batch normalisations into the convolutions.
"""

_PROFILING = """
## From the command to the table
A profile of the model from a fresh Python process, as `workbench profile MODEL` makes it: `command` is everything, `lower` the import and
the lowering alone, `measure` compilation and measurement. `difference` is the sum of the rows against the end-to-end median of the same
session; `overhead` is a run with the instrument against one without, in turn. One profile a model; its own spread is in its session.
Untuned kernels are slow: that is what is measured.
"""

_GROWTH = """
## Growth with the number of rows
A generated chain of matrix products, each its own row, of 40 distinct shapes: time and memory per row must not grow.
"""

_LEAST_TIMES_FASTER = 5
_MOST_FIRST_S = 5
_LEAST_SHARE = 0.9

_TUNING = """
## The search, against stock MetaSchedule
The same kernels, {trials} trials each, `workbench tune` and stock's `tune_tir` with its defaults in turn, each in processes of its own and with
its start-up; three seeds, one line each. In the end the best schedule of each side is built again and the two are timed by turns: `best`, and
`ratio`, below 1 where ours is faster. `ours reached it` is the time from the command until a trial was as fast as stock's final best, and its share
of stock's whole wall time; `first` the time until the first trial was stored.
"""

_SELECTIVE = """
## Hotspots alone
The tasks that make 80 % of the time (`select --share 0.8`), and 90 %, searched with a third of the trials, against all tasks with all trials. All run
by turns in one process. `share of the gain` is what the hotspots saved of what all saved. Kernels that are not ticked stay as they are, so the
share of the time that is covered bounds it: where tuning makes kernels tens of times faster, as of these untuned models, the gain is that share.
"""

_MANY_TRIALS = """
## Cost of a trial as trials add up
One tiny kernel searched for thousands of trials. `worker` is the processor time of the process that proposes, learns and stores; building and running
are done by others, and their time is that of the schedules that are tried then. Memory is that of the worker and of all processes that it started.
"""

_TRANSFER = """
## Starting from other kernels' trials
The same search with and without the records of other kernels on the same target (`--transfer`), three seeds: time of the best trial after so many
trials, without divided by with: above 1 the records helped.
"""

_ANSOR = """
## A log of the original auto-scheduler
The records of a log of TVM 0.8 to 0.18 as TensorIR schedules of the same TE workload: how many translate, compile, compute what the untuned kernel
computes, and how fast they are beside what the log claims, which was measured on another machine perhaps; the rank correlation says whether the
log's order holds here. Below, a search of the same kernel for as many trials as the log has records, without the log and with it (`--transfer`).
"""

_ENGINES = """
## Both engines on one kernel
The bundled `{workload}` searched for {trials} trials on each engine, by turns, with the command's start-up: today's TVM (`relax`, the spaces of
MetaSchedule) and the old auto_scheduler in an old Python (`relay`, its sketches). Both compute the same of the same arguments, and each measures its
own kernel: time of a call, best so far. `untuned` is what a build without records gives: plain loops today, TOPI's schedule in old TVM.
"""

_UI_TABLE = """
## The table in the notebook
What a user waits for in JupyterLab with Chromium, without a screen or a GPU: from the command until the browser has drawn the answer, in fresh pages
and kernels.
"""

_UI_GRAPH = """
## The graph in the notebook
Generated graphs of so many boxes that repeat nothing, and a transformer whose layers are one box at first, in JupyterLab with Chromium, without a
screen or a GPU.
"""

_MATCHING = """
## Old debug tables matched to their programs
Networks built by old TVM, which itself tells what each row of their debug tables is; matched by the table and the Relay text alone. `blocked` is the
default build, with blocked layouts; `plain` is one for the auto-scheduler; `level2` is `opt_level` 2. `unsure` rows have a confidence below 0.9, and
are shown as ambiguous, most of them right.
"""

_UI_FRONT = """
## The notebook's kernel while a search runs
A kernel shows the app on profiled SqueezeNet and searches, while a client runs a trivial cell again and again, as a user would. The first five lines
are of one run each.
"""

_UI_MONITOR = """
## The monitor of a search in the notebook
{trials:,} trials in JupyterLab with Chromium, without a screen or a GPU. An update is from before the session is read, by a thread of
the notebook's kernel as in use, to the points being drawn, in the page. plotly.js goes to a page once.
"""

_Columns: TypeAlias = dict[str, Callable[[dict[str, Any]], str]]
"""The columns of a table by their titles: what each shows of a run."""


def main() -> None:
    """Write the page."""
    sections = [
        _INTRODUCTION,
        *_lowering(_read("lowering")),
        *_profiling(_read("profiling")),
        *_growth(_read("growth")),
        *(text for name, section in _SEARCH.items() if (RESULTS / f"{name}.json").exists() for text in section(_read(name))),
    ]
    PAGE.write_text("\n".join(sections), encoding="utf-8")


def _read(name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return values


def _lowering(values: dict[str, Any]) -> Iterable[str]:
    columns: _Columns = {
        "model": lambda run: run["name"],
        "ours (s)": lambda run: _spread(run["ours_s"]),
        "stock (s)": lambda run: _spread(run["stock_s"]),
        "ratio": lambda run: _spread(run["ratio"]),
        "peak memory ours / stock (MB)": lambda run: f"{run['ours_peak_bytes'] / 1e6:.0f} / {run['stock_peak_bytes'] / 1e6:.0f}",
        "kernels ours / stock": lambda run: f"{run['ours_kernels']} / {run['stock_kernels']}",
    }
    return _LOWERING, _columns_of(columns, _named(values)), _origin(values)


def _profiling(values: dict[str, Any]) -> Iterable[str]:
    columns: _Columns = {
        "model": lambda run: run["name"],
        "rows": lambda run: str(run["rows"]),
        "tasks": lambda run: str(run["tasks"]),
        "command (s)": lambda run: f"{run['wall_s']:.1f}",
        "lower (s)": lambda run: f"{run['import_s'] + run['lower_s']:.2f}",
        "measure (s)": lambda run: f"{run['measure_s']:.1f}",
        "end to end (ms)": lambda run: f"{run['total_us'] / 1e3:,.2f}",
        "difference": lambda run: f"{run['difference_percent']:+.2f} %",
        "rounds": lambda run: str(run["rounds"]),
        "overhead": lambda run: _spread(run["overhead_ratio"], digits=3),
        "peak memory (MB)": lambda run: f"{run['peak_bytes'] / 1e6:.0f}",
    }
    return _PROFILING, _columns_of(columns, _named(values)), _origin(values)


def _growth(values: dict[str, Any]) -> Iterable[str]:
    columns: _Columns = {
        "rows": lambda run: f"{int(run['name']):,}",
        "command (s)": lambda run: _spread(run["wall_s"]),
        "lower (s)": lambda run: _spread(run["lower_s"]),
        "measure (s)": lambda run: _spread(run["measure_s"]),
        "link (ms)": lambda run: f"{run['link_s']['median'] * 1e3:.0f}",
        "command a row (ms)": lambda run: f"{run['wall_s']['median'] / int(run['name']) * 1e3:.2f}",
        "peak memory (MB)": lambda run: f"{run['peak_bytes']['median'] / 1e6:.0f}",
        "database (kB)": lambda run: f"{run['database_bytes']['median'] / 1e3:.0f}",
    }
    return _GROWTH, _columns_of(columns, _named(values)), _origin(values)


def _tuning(values: dict[str, Any]) -> Iterable[str]:
    runs = values["figures"]["runs"]
    columns: _Columns = {
        "kernel": lambda run: run["task"],
        "seed": lambda run: str(run["seed"]),
        "stock (s)": lambda run: f"{run['stock_wall_s']:.1f}",
        "ours (s)": lambda run: f"{run['ours']['wall_s']:.1f}",
        "stock / ours": lambda run: f"{run['stock_wall_s'] / run['ours']['wall_s']:.1f}",
        "first (s)": lambda run: f"{run['ours']['first_s']:.1f}",
        "stock's best (us)": lambda run: f"{run['stock_us']:,.1f}",
        "our best (us)": lambda run: f"{run['ours_us']:,.1f}",
        "ratio": lambda run: f"{run['ours_us'] / run['stock_us']:.2f}",
        "ours reached it": lambda run: (
            f"{run['reached_s']:.1f} s, {run['reached_s'] / run['stock_wall_s']:.0%}" if run["reached_s"] is not None else "never"
        ),
    }
    found = values["figures"]["summary"]
    reached = found["time_to_stocks_best_to_stocks_wall"]
    short = sum(run["stock_wall_s"] / run["ours"]["wall_s"] < _LEAST_TIMES_FASTER for run in runs)
    late = sorted({run["task"] for run in runs if run["ours"]["first_s"] > _MOST_FIRST_S})
    summary = (
        f"Stock's wall time a trial to ours: median {_spread(found['stock_wall_to_ours'], digits=1)}. Stock's final best was reached after a median "
        f"{reached['median']:.0%} of its wall time ({reached['not_reached']} of {len(runs)} never did). Final best, ours to stock's: geometric mean "
        f"{found['final_best_ratio_geometric_mean']:.2f}. First trial after {_spread(found['first_trial_s'], digits=1)} s.\n\n"
        f"Aimed at {_LEAST_TIMES_FASTER} times or more: {short} of {len(runs)} pairs stayed below; nearly all of our time is the compiler's, on "
        f"as many builders as there are cores. Aimed at a first trial within {_MOST_FIRST_S} s: missed by {', '.join(late) or 'none'}"
        f"{'; the untuned kernel, which is trial 0, runs for seconds there.' if late else '.'}\n"
    )
    return _TUNING.format(trials=values["figures"]["trials"]), _columns_of(columns, runs), f"\n{summary}", _origin(values)


def _selective(values: dict[str, Any]) -> Iterable[str]:
    header = ("model", "ticked", "of the time", "trials", "search (s)", "untuned (ms)", "tuned (ms)", "all tuned (ms)", "share of the gain")
    rows = [
        (
            name,
            f"{run['arms'][arm]['tasks']} of {run['arms']['all']['tasks']} tasks",
            f"{run['arms'][arm]['covered']:.1%}",
            f"{run['arms'][arm]['trials']} of {run['arms']['all']['trials']}",
            f"{run['arms'][arm]['seconds']:.0f} of {run['arms']['all']['seconds']:.0f}",
            *(_milliseconds(run["times_us"][side]) for side in ("untuned", arm, "all")),
            f"{run['share_of_the_gain'][arm]:.1%}",
        )
        for name, run in values["figures"].items()
        for arm in run["share_of_the_gain"]
    ]
    shares = [(name, arm, share) for name, run in values["figures"].items() for arm, share in run["share_of_the_gain"].items()]
    short = [f"{name} with {arm.removeprefix('hotspots_')} % ticked: {share:.1%}" for name, arm, share in shares if share < _LEAST_SHARE]
    summary = f"Aimed at {_LEAST_SHARE:.0%} of the gain or more; missed by {'; '.join(short) or 'none'}.\n"
    return _SELECTIVE, _table(header, rows), f"\n{summary}", _origin(values)


def _many_trials(values: dict[str, Any]) -> Iterable[str]:
    columns: _Columns = {
        "trials": lambda block: f"{int(block['trials']):,}",
        "wall a trial (ms)": lambda block: f"{block['wall_ms']:.1f}",
        "worker (ms)": lambda block: f"{block['overhead_ms']:.1f}",
        "to the first block": lambda block: f"{block['overhead_to_first']:.2f}",
        "build (ms)": lambda block: f"{block['build_ms']:.1f}",
        "run (ms)": lambda block: f"{block['run_ms']:.1f}",
        "peak memory (MB)": lambda block: f"{block['peak_bytes'] / 1e6:.0f}",
    }
    return _MANY_TRIALS, _columns_of(columns, values["figures"]["blocks"]), _origin(values)


def _transfer(values: dict[str, Any]) -> Iterable[str]:
    figures = values["figures"]
    header = ("kernel", "seed", *(f"after {count}" for count in figures["after"]))
    rows = [(run["task"], str(run["seed"]), *(f"{value:.2f}" for value in run["gain"])) for run in figures["runs"]]
    means = ", ".join(f"{value:.2f} after {count}" for value, count in zip(figures["geometric_mean"], figures["after"], strict=True))
    return _TRANSFER, _table(header, rows), f"\nGeometric means: {means} trials.\n", _origin(values)


def _ansor(values: dict[str, Any]) -> Iterable[str]:
    found = values["figures"]
    claim = found["time_to_claim"]
    rows = [
        ("records of the log that were right", f"{found['records']}"),
        ("translated", f"{found['translated']}"),
        ("of these compiled", f"{found['compiled']}"),
        ("of these compute what the untuned kernel computes", f"{found['right']}"),
        ("fastest in the log (us)", f"{found['best_claimed_us']:,.1f}"),
        ("fastest here (us)", f"{found['best_us']:,.1f}"),
        ("time here / in the log: geometric mean [min, max]", f"{claim['geometric_mean']:.2f} [{claim['min']:.2f}, {claim['max']:.2f}]"),
        ("rank correlation of the times", f"{found['rank_correlation']:.2f}"),
        ("untuned kernel (us)", f"{found['untuned_us']:,.1f}"),
    ]
    searches = [
        (side, *(f"{best_us:,.1f}" for best_us in run["after"].values()), f"{run['best_us']:,.1f}")
        for side, run in found["search"].items()
        if isinstance(run, dict)
    ]
    header = ("search", *(f"best after {count} (us)" for count in found["search"]["with"]["after"]), "last measurement (us)")
    reasons = "".join(f"\nNot translated: {count} x {reason}.\n" for reason, count in found["untranslatable"].items())
    reasons += "".join(f"\nNot compiled: {count} x {reason}.\n" for reason, count in found["uncompilable"].items())
    return _ANSOR, _table(("what", "value"), rows), reasons, _table(header, searches), _origin(values)


def _engines(values: dict[str, Any]) -> Iterable[str]:
    figures = values["figures"]
    columns: _Columns = {
        "engine": lambda run: f"{run['engine']} (TVM {run['tvm']})",
        "seed": lambda run: str(run["seed"]),
        "untuned (us)": lambda run: _microseconds(run["baseline_us"]),
    }
    for count in figures["runs"][0]["after_trials"]:
        columns[f"after {count} (us)"] = lambda run, count=count: _microseconds(run["after_trials"][count])  # type: ignore[misc]
    seconds: _Columns = {
        "engine": lambda run: str(run["engine"]),
        "seed": lambda run: str(run["seed"]),
        "first trial (s)": lambda run: f"{run['first_s']:.1f}",
        "all (s)": lambda run: f"{run['wall_s']:.1f}",
    }
    for limit_s in figures["runs"][0]["after_s"]:
        seconds[f"after {limit_s} s (us)"] = lambda run, limit_s=limit_s: _microseconds(run["after_s"][limit_s])  # type: ignore[misc]
    text = _ENGINES.format(workload=figures["workload"], trials=figures["trials"])
    return text, _columns_of(columns, figures["runs"]), "\nThe same searches by time:\n", _columns_of(seconds, figures["runs"]), _origin(values)


def _microseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _ui_table(values: dict[str, Any]) -> Iterable[str]:
    rows = [
        (line["what"], _spread(line["ms"], digits=0), "" if line["promised_ms"] is None else f"< {line['promised_ms']:,.0f}")
        for line in values["figures"]["lines"]
    ]
    return _UI_TABLE, _table(("what", "measured (ms)", "promised (ms)"), rows), _origin(values)


def _ui_graph(values: dict[str, Any]) -> Iterable[str]:
    header = ("graph", "made in Python (ms)", "shown (ms)", "near, drags (fps)", "all, drags (fps)", "searched (ms)", "selected (ms)")
    keys = ("made_ms", "shown_ms", "pan_near_fps", "pan_all_fps", "search_ms", "select_ms")
    rows = [(name, *(_spread(figures[key], digits=0) for key in keys)) for name, figures in values["figures"].items()]
    rows.append(("promised for 3,000 boxes", "", "< 1,000", ">= 30", ">= 30", "", ""))
    return _UI_GRAPH, _table(header, rows), _origin(values)


def _matching(values: dict[str, Any]) -> Iterable[str]:
    found = values["figures"]["networks"]
    columns: _Columns = {
        "network": lambda run: run["network"],
        "build": lambda run: run["variant"],
        "rows": lambda run: f"{run['rows']}",
        "right": lambda run: f"{run['right']}",
        "unsure": lambda run: f"{run['ambiguous']}",
        "sure and wrong": lambda run: f"{run['sure_and_wrong']}",
        "time (s)": lambda run: f"{run['seconds']:.2f}",
    }
    rows, right = (sum(run[name] for run in found) for name in ("rows", "right"))
    return _MATCHING, _columns_of(columns, found), f"\nAltogether {right:,} of {rows:,} rows of {len(found)} builds are right.\n", _origin(values)


def _ui_monitor(values: dict[str, Any]) -> Iterable[str]:
    found = values["figures"]
    hour, before, after = found["hour"], found["hour"]["before"], found["hour"]["after"]
    rows = [
        ("read all trials out of the session (s)", _spread(found["store_s"]), ""),
        ("first monitor of a page shown (s)", _spread(found["open_first_s"]), "< 2"),
        ("another one shown (s)", _spread(found["open_s"]), "< 2"),
        ("64 trials more, drawn (ms)", _spread(found["update_ms"], digits=0), "< 100"),
        ("of that in the kernel (ms)", _spread(found["update_python_ms"], digits=0), ""),
        ("64 trials more, message (kB)", _spread({name: value / 1e3 for name, value in found["update_bytes"].items()}, digits=1), "< 10"),
        ("snapshot (kB)", f"{found['snapshot_bytes'] / 1e3:,.0f}", ""),
        ("plotly.js on its way (kB)", f"{found['plotly_bytes'] / 1e3:,.0f}", ""),
        (f"{hour['trials']:,} trials more, as in an hour of 20 a second: points on the page", f"{before['points']:,} to {after['points']:,}", ""),
        ("elements of the page", f"{before['elements']:,} to {after['elements']:,}", ""),
        ("its heap (MB)", f"{before['heap_bytes'] / 1e6:.0f} to {after['heap_bytes'] / 1e6:.0f}", ""),
    ]
    return _UI_MONITOR.format(trials=found["trials"]), _table(("what", "measured", "promised"), rows), _origin(values)


def _ui_front(values: dict[str, Any]) -> Iterable[str]:
    found = values["figures"]
    rows = [
        ("import the app (s)", f"{found['import_s']:.2f}", ""),
        ("open a profiled session, import included (s)", f"{found['open_s']:.2f}", "< 2"),
        ("from *Tune* to the first trial, worker ready (s)", f"{found['first_trial_s']:.2f}", "< 3"),
        ("until the death of a killed worker is seen (s)", f"{found['death_seen_s']:.2f}", "< 1"),
        ("the handler of *Tune* itself (ms)", f"{1e3 * found['handler_s']:.1f}", "< 100"),
        ("a trivial cell, nothing shown (ms): median, 99th percentile, largest", _quantiles(found["idle"]), ""),
        (f"a trivial cell, searching (ms), {found['cells']:,} cells", _quantiles(found["searching"]), "99th percentile < 150"),
        ("messages to the page a second", f"{found['messages_per_s']:.1f}", "<= 20"),
    ]
    return _UI_FRONT, _table(("what", "measured", "promised"), rows), _origin(values)


def _quantiles(values: dict[str, float]) -> str:
    return ", ".join(f"{values[name]:.1f}" for name in ("median_ms", "p99_ms", "max_ms"))


def _milliseconds(values: dict[str, float]) -> str:
    return _spread({name: value / 1e3 for name, value in values.items()})


def _spread(values: dict[str, float], digits: int = 2) -> str:
    return f"{values['median']:.{digits}f} [{values['min']:.{digits}f}, {values['max']:.{digits}f}]"


def _named(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The figures of each run with its name."""
    return [{"name": name, **run} for name, run in values["figures"].items()]


def _columns_of(columns: _Columns, runs: Sequence[dict[str, Any]]) -> str:
    """A table with a line a run."""
    return _table(list(columns), [[cell(run) for cell in columns.values()] for run in runs])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _origin(values: dict[str, Any]) -> str:
    machine = values["machine"]
    return (
        f"\n`{values['command']}` on {machine['cpu']}, {machine['physical_cores']} cores, vectors of {machine['vector_width_bits']} bits, "
        f"Python {machine['python']}{', at ' + values['commit'] if 'commit' in values else ''}.\n"
    )


_SEARCH: dict[str, Callable[[dict[str, Any]], Iterable[str]]] = {
    "tuning": _tuning,
    "selective": _selective,
    "many_trials": _many_trials,
    "transfer": _transfer,
    "ansor": _ansor,
    "engines": _engines,
    "matching": _matching,
    "ui_front": _ui_front,
    "ui_table": _ui_table,
    "ui_graph": _ui_graph,
    "ui_monitor": _ui_monitor,
}

if __name__ == "__main__":
    main()
