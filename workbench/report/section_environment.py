"""Where all of it was measured, and the commands that do it again. No path and no name of a host: a report is there to be sent."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from workbench.records.tuning import DEFAULT_SPACE, TuneRequest
from workbench.report.content import ReportContent
from workbench.report.figures_text import plural
from workbench.report.markup import Markup, block, joined, tag


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
        commands.append(["workbench", "apply"])
    commands.append(["workbench", "report"])
    remark = "Candidates and inputs come from the same seeds; times differ with the machine, and so may the order in which a search tries candidates."
    return joined([tag("pre", block("\n".join(shlex.join(command) for command in commands))), tag("p", remark, class_="muted")])


def _model(content: ReportContent) -> list[str]:
    request = content.request
    if request is None:
        return [content.profile.model]
    source = request.source
    words = [source.workload or PurePath(source.path).name or source.name]
    words += ["--args", json.dumps(list(source.args))] if source.args is not None else []
    words += ["--target", request.target]
    for name, shape in source.shapes.items():
        words += ["--shape", f"{name}={','.join(map(str, shape))}"]
    words += [] if request.fusion else ["--no-fusion"]
    words += ["--repeat", str(request.repeat)] if request.repeat is not None else []
    return [*words, "--threads", str(request.threads), "--seed", str(request.seed)]


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
    words = [word for name, value in pairs if value is not None for word in (name, f"{value:g}" if isinstance(value, float) else str(value))]
    return [*words, *(["--cache-flush"] if measure.cache_flush else []), *(["--trust"] if request.schedule else [])]


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
