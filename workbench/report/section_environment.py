"""Where all of it was measured, and the commands that do it again. No path and no name of a host: a report is there to be sent."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from workbench.models import code_of_its_own
from workbench.records.comparison import Comparison
from workbench.records.request import RELAX, ProfileRequest
from workbench.records.trial import MeasureOptions
from workbench.records.tuning import DEFAULT_SPACE, TuneRequest
from workbench.report.content import ReportContent
from workbench.report.figures_text import plural
from workbench.report.markup import Markup, block, joined, tag

_DEFAULTS = MeasureOptions()
_USUAL_INPUTS = 3
_LIBRARY = ("tvm-workbench", "library")
"""The last folders of the record library's path, below which each kernel has a database of its own."""

_HANDED_OVER = ("function", "ir_json")


def environment(content: ReportContent) -> Markup:
    """Machine, versions, target, lowering, and how trials were measured."""
    facts: list[tuple[str, str]] = []
    machine = content.machine
    if machine is not None:
        vector = f", vectors of {machine.cpu.vector_width_bits} bits" if machine.cpu.vector_width_bits else ""
        facts.append(("Processor", f"{machine.cpu.model}, {plural(machine.cpu.physical_cores, 'core')}{vector}"))
        facts.append(("Memory", f"{machine.memory.total_bytes / 1e9:,.0f} GB"))
        devices = [f"{device.name} ({device.arch})" for device in machine.cuda.devices]
        facts.append(("GPU", ", ".join(devices) or machine.cuda.why_none or "none"))
        facts.append(("System", machine.system))
    facts += [(f"Version of {name}", value) for name, value in _texts(content.manifest.get("versions"))]
    facts.append(("Threads", str(content.profile.threads)))
    if content.search is not None:
        facts += _measuring(content.search)
    facts.append(("Profiled", str(content.manifest.get("profiled_at", "unknown"))))
    table = tag("table", tag("tbody", *(tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in facts)))
    target, lowering = _mapping(content.manifest.get("target")).get("config"), content.manifest.get("lowering")
    return joined(
        [
            tag("div", table, class_="wide"),
            _details("Target, as TVM takes it", target),
            _details("Lowering", lowering),
            tag(
                "p",
                "Conditions of the last search: ",
                tag("code", str(_mapping(content.manifest.get("search")).get("conditions", "none"))),
                class_="muted",
            ),
        ]
    )


def reproduce(content: ReportContent) -> Markup:
    """The commands that lead here."""
    profile = ["workbench", "profile", *_model(content)]
    commands = [profile]
    if content.selection is not None and content.selection.tasks:
        commands.append(["workbench", "select", "--tasks", *(item.task for item in content.selection.tasks)])
    if content.search is not None:
        commands.append(["workbench", "tune", *_tune(content.search)])
    if content.comparison is not None:
        commands.append(["workbench", "apply", *_apply(content.comparison, content.search)])
    commands.append(["workbench", "report"])
    lines = tag("pre", block("\n".join(shlex.join(command) for command in commands)))
    return joined([lines, *(tag("p", remark, class_="muted") for remark in _remarks(content))])


def _remarks(content: ReportContent) -> list[str]:
    """What the commands cannot say."""
    request, search = content.request, content.search
    said = ["Candidates and inputs come from the same seeds; times differ with the machine, and so may the order in which a search tries candidates."]
    if request is not None and request.source.kind in _HANDED_OVER:
        said.append("A Python process handed the model over: there, workbench.open(...) takes the place of workbench profile.")
    if request is not None and request.engine != RELAX:
        said.append("WORKBENCH_RELAY_PYTHON or --python names the Python with the old TVM.")
    taken = [] if search is None else [path for path in search.transfer if _is_of_library(path)]
    if taken:
        said.append(f"The search began with what the record library had of {plural(len(taken), 'kernel')}; another library may have other records.")
    return said


def _model(content: ReportContent) -> list[str]:
    request = content.request
    if request is None:
        return [content.profile.model]
    source = request.source
    words = [source.workload or PurePath(source.path).name or source.name]
    words += ["--args", json.dumps(list(source.args))] if source.args is not None else []
    words += ["--target", request.target]
    words += ["--layout", request.layout]
    for name, shape in source.shapes.items():
        words += ["--shape", f"{name}={','.join(map(str, shape))}"]
    words += [] if request.fusion else ["--no-fusion"]
    words += ["--repeat", str(request.repeat)] if request.repeat is not None else []
    words += ["--threads", str(request.threads), "--seed", str(request.seed)]
    return [*words, *_engine(request), *(["--trust"] if code_of_its_own(source) else [])]


def _engine(request: ProfileRequest) -> list[str]:
    return [] if request.engine == RELAX else ["--engine", request.engine]


def _tune(request: TuneRequest) -> list[str]:
    budget, measure = request.budget, request.measure
    pairs = [
        ("--trials", budget.trials),
        ("--seconds", budget.seconds),
        ("--per-task", budget.per_task),
        ("--flat-after", budget.flat_after or 0),
        ("--dry-run", request.dry_run),
        ("--seed", request.seed),
        ("--space", request.space or None),
        ("--schedule", request.schedule or None),
        ("--repeat", measure.repeat),
        ("--number", measure.number),
        ("--min-repeat-ms", measure.min_repeat_ms),
    ]
    unusual = [
        ("--timeout", measure.timeout_s, _DEFAULTS.timeout_s),
        ("--build-timeout", measure.build_timeout_s, _DEFAULTS.build_timeout_s),
        ("--cooldown-ms", measure.cooldown_ms, _DEFAULTS.cooldown_ms),
        ("--device", measure.device, _DEFAULTS.device),
        ("--builders", request.builders, None),
    ]
    pairs += [(name, value) for name, value, usual in unusual if value != usual]
    words = [word for name, value in pairs if value is not None for word in (name, f"{value:g}" if isinstance(value, float) else str(value))]
    words += [*(["--cache-flush"] if measure.cache_flush else []), *_transfer(request)]
    return [*words, *(["--trust"] if request.schedule else [])]


def _transfer(request: TuneRequest) -> list[str]:
    """Where the search took schedules from: what the user named, by its last name, and whether the record library was asked."""
    named = [PurePath(path).name for path in request.transfer if not _is_of_library(path)]
    without = [] if len(named) < len(request.transfer) else ["--no-library"]
    return [*(["--transfer", *named] if named else []), *without]


def _is_of_library(path: str) -> bool:
    return PurePath(path).parts[-4:-2] == _LIBRARY


def _apply(comparison: Comparison, search: TuneRequest | None) -> list[str]:
    inputs = len(comparison.verification.seeds) or _USUAL_INPUTS
    words = ["--inputs", str(inputs)] if inputs != _USUAL_INPUTS else []
    return [*words, *(["--trust"] if search is not None and search.schedule else [])]


def _measuring(request: TuneRequest) -> list[tuple[str, str]]:
    measure = request.measure
    caches = "cold caches" if measure.cache_flush else "warm caches"
    runs = "as many runs as that takes" if measure.number is None else plural(measure.number, "run")
    times = f"up to {plural(measure.repeat, 'measured time')}, each at least {measure.min_repeat_ms:g} ms long ({runs})"
    return [
        ("A trial", f"{times}, {caches}, device {measure.device}"),
        (
            "Search space",
            f"{request.space or DEFAULT_SPACE}{f', schedule function {request.schedule}' if request.schedule else ''}, seed {request.seed}",
        ),
    ]


def _details(title: str, value: Any) -> Markup | None:
    if not value:
        return None
    return tag("details", tag("summary", title), tag("pre", block(json.dumps(value, indent=2, ensure_ascii=True))))


def _texts(value: Any) -> list[tuple[str, str]]:
    return [(str(name), str(item)) for name, item in _mapping(value).items()]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
