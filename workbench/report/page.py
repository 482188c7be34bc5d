"""The page: its head, its headline, and its sections in their order. It loads nothing and runs no script."""

from __future__ import annotations

from importlib import resources

from workbench.links import resolution_note
from workbench.report.content import ReportContent
from workbench.report.figures_text import plural
from workbench.report.markup import Markup, joined, tag
from workbench.report.section_environment import environment, reproduce
from workbench.report.section_profile import profile_table, selection_section
from workbench.report.section_result import headline, result
from workbench.report.section_search import failures, old_search_section, search_section
from workbench.report.section_winners import winners

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(content: ReportContent) -> str:
    """The report as one HTML file."""
    sections = [section for section in _sections(content) if section is not None]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{content.profile.model} on {content.profile.target}: kernel tuning report"),
        tag("style", Markup(resources.files("workbench.report").joinpath("report.css").read_text(encoding="utf-8"))),
    )
    body = tag(
        "body",
        tag("header", tag("h1", content.profile.model), _subtitle(content), headline(content)),
        tag("nav", *(tag("a", name, href=f"#{anchor}") for anchor, name, _ in sections), aria_label="Sections"),
        tag("main", *(tag("section", tag("h2", name), inner, id=anchor) for anchor, name, inner in sections)),
        tag("footer", f"Made by workbench {content.version} on {content.made_at:%Y-%m-%d %H:%M} UTC."),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _sections(content: ReportContent) -> list[tuple[str, str, Markup] | None]:
    return [
        ("result", "Before and after", result(content)),
        ("selection", "What was tuned, and why", selection_section(content)),
        _if("search", "The search", search_section(content)),
        _if("old-search", "The search of old TVM", old_search_section(content)),
        _if("failures", "Trials that failed", failures(content)),
        _if("winners", "The schedules that won", winners(content)),
        ("profile", "The profile", profile_table(content)),
        ("environment", "Environment", environment(content)),
        ("reproduce", "How to do this again", reproduce(content)),
    ]


def _if(anchor: str, name: str, inner: Markup | None) -> tuple[str, str, Markup] | None:
    return None if inner is None else (anchor, name, inner)


def _subtitle(content: ReportContent) -> Markup:
    profile = content.profile
    trials = len(content.columns)
    facts = [
        profile.target,
        plural(len(profile.kernel_rows), "kernel call"),
        plural(len(profile.tasks), "task"),
        plural(trials, "trial") if trials else "nothing searched yet",
    ]
    notes = [tag("p", note, class_="note") for note in filter(None, (*profile.notes, resolution_note(profile)))]
    return joined([tag("p", " · ".join(facts), class_="subtitle"), *notes])
