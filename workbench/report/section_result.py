"""What came out: the whole model and each kernel before and after, with verdicts, and whether the results are right."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.forecast import model_forecast_us
from workbench.analysis.roofline import limit_percent
from workbench.charts.bars import KernelTime, applied, searched
from workbench.records.comparison import Comparison
from workbench.report.content import ReportContent
from workbench.report.drawing import before_after_drawing, share_drawing
from workbench.report.figures_text import NONE, microseconds, milliseconds, percent, plural, times
from workbench.report.markup import Markup, joined, tag

_MOST_BARS = 24
_MOST_FAULTS = 20
_MOST_NAMES = 3

_Card = tuple[str, str, str]


def headline(content: ReportContent) -> Markup:
    """The result in a few large figures; that it is wrong comes before all of them."""
    comparison = content.comparison
    if comparison is None:
        cards = _forecast_cards(content)
    elif comparison.verification.verified:
        cards = _measured_cards(comparison)
    else:
        cards = _refused_cards(content, comparison)
    made = [
        tag("div", tag("span", name, class_="what"), tag("strong", value), tag("span", remark, class_="remark"), class_="card")
        for name, value, remark in cards
    ]
    return tag("div", *made, class_="cards")


def _measured_cards(comparison: Comparison) -> list[_Card]:
    total = comparison.total
    return [
        ("untuned", milliseconds(total.baseline_us), "measured by turns"),
        ("tuned", milliseconds(total.tuned_us), total.text),
        ("gain", times(total.baseline_us, total.tuned_us), "results agree"),
    ]


def _refused_cards(content: ReportContent, comparison: Comparison) -> list[_Card]:
    """What was refused has no times: it was not measured."""
    found = comparison.verification
    names = ", ".join(found.faulty[:_MOST_NAMES]) + (", ..." if len(found.faulty) > _MOST_NAMES else "")
    word = "RESULTS DIFFER" if found.failures else "NOT VERIFIED"
    return [
        ("untuned", milliseconds(content.profile.total_us), "end to end, without instrumentation"),
        ("tuned", word, "nothing was applied"),
        ("kernel", names, found.reason) if names else ("gain", NONE, found.reason),
    ]


def _forecast_cards(content: ReportContent) -> list[_Card]:
    now = model_forecast_us(content.profile, content.tasks) if content.tasks else None
    applied_now = "applied to an older profile" if content.why_no_comparison else "not applied yet"
    return [
        ("untuned", milliseconds(content.profile.total_us), "end to end, without instrumentation"),
        ("forecast", milliseconds(now), f"from the kernels alone; {applied_now}" if now else "nothing was searched yet"),
        ("gain", times(content.profile.total_us, now), "forecast"),
    ]


def result(content: ReportContent) -> Markup:
    """Whether what was applied is right, kernels before and after, and what was not used."""
    profile, comparison = content.profile, content.comparison
    if profile.unmeasured:
        return tag("p", f"Nothing was measured: {profile.unmeasured}.")
    if comparison is None:
        said = tag("p", content.why_no_comparison, class_="note") if content.why_no_comparison else None
        return joined([said, _kernels(content, searched(profile, content.tasks))])
    refused = comparison.verification.verified is not True
    return joined(
        [
            _verification(comparison),
            *(tag("p", note, class_="note") for note in comparison.notes),
            None if refused else _kernels(content, applied(comparison)),
            _not_used(comparison),
        ]
    )


def _kernels(content: ReportContent, kernels: Sequence[KernelTime]) -> Markup:
    """Kernels before and after, as drawings and as a table."""
    if not kernels:
        return tag("p", _why_no_kernel(content.comparison))
    shown = kernels[:_MOST_BARS]
    how = (
        "Both models were measured by turns, kernel by kernel, inside the model."
        if content.comparison is not None
        else "Times before are those of the profile; times now are what the search forecasts for the same calls: nothing was applied yet."
    )
    whole = tag("figcaption", "One run of the model, untuned and now. Grey is what was not tuned.")
    each = tag("figcaption", "All calls of a kernel in one run of the model: untuned above, now below.")
    return joined(
        [
            tag("p", how),
            tag("figure", share_drawing(shown, rest_us=_rest_us(content, shown)), whole),
            tag("figure", before_after_drawing(shown), each),
            _table(content, kernels),
        ]
    )


def _why_no_kernel(comparison: Comparison | None) -> str:
    if comparison is None:
        return "No kernel has another schedule yet: nothing was searched, or nothing was faster than the untuned kernels."
    if comparison.used_records:
        return "The kernels were not measured in the model."
    return "No kernel of the applied model has a schedule of the search: it is the untuned model."


def _not_used(comparison: Comparison) -> Markup | None:
    """The winners of searches that applying looked at and took back, and why."""
    if not comparison.not_used:
        return None
    items = [tag("li", tag("strong", kernel.kernel), f" trial {kernel.considered} was not applied: {kernel.why}") for kernel in comparison.not_used]
    return joined([tag("p", f"{plural(len(items), 'kernel')} kept the untuned schedule though the search named a winner:"), tag("ul", *items)])


def _rest_us(content: ReportContent, shown: Sequence[KernelTime]) -> float:
    """What one run spends on everything that is not shown, of the same measurement."""
    if content.comparison is None:
        return max((content.profile.rows_us or 0.0) - sum(kernel.before_us for kernel in shown), 0.0)
    names = {kernel.name for kernel in shown}
    others = [kernel for kernel in content.comparison.kernels if kernel.kernel not in names]
    return sum((kernel.tuned_us or 0.0) * kernel.weight for kernel in others)


def _table(content: ReportContent, kernels: Sequence[KernelTime]) -> Markup:
    limits = [_limit_percent(content, kernel) for kernel in kernels]
    known = any(limit is not None for limit in limits)
    rows = [
        tag(
            "tr",
            tag("th", kernel.name, scope="row"),
            tag("td", str(kernel.weight), class_="number"),
            tag("td", microseconds(kernel.before_us), class_="number"),
            tag("td", microseconds(kernel.after_us), class_="number"),
            tag("td", times(kernel.before_us, kernel.after_us), class_="number"),
            tag("td", percent(limit), class_="number") if known else None,
            tag("td", kernel.text),
        )
        for kernel, limit in zip(kernels, limits, strict=True)
    ]
    limit_name = [("Of the limit", "number")] if known else []
    numbers = [("Calls", "number"), ("Untuned (us)", "number"), ("Now (us)", "number"), ("Gain", "number"), *limit_name]
    names = [("Kernel", ""), *numbers, ("Verdict", "")]
    head = tag("tr", *(tag("th", name, scope="col", class_=kind or None) for name, kind in names))
    meant = tag("p", f"Of the limit: the least time that the device could take, in percent of the time now. {_device(content)}", class_="muted")
    return joined([tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="wide"), meant if known else None])


def _limit_percent(content: ReportContent, kernel: KernelTime) -> float | None:
    """How close a kernel is now to what the device can do at most."""
    task = next((task for task in content.profile.tasks if task.task == kernel.task), None)
    if task is None or not kernel.weight:
        return None
    return limit_percent(
        content.peaks, flop=task.flop, moved_bytes=task.tensor_bytes, time_us=content.profile.resolved_us(kernel.after_us / kernel.weight)
    )


def _device(content: ReportContent) -> str:
    return "" if content.peaks is None else f"Limits as measured: {content.peaks.device}."


def _verification(comparison: Comparison) -> Markup:
    """Whether the tuned model computes what the untuned one does."""
    found = comparison.verification
    if found.verified is None:
        return tag("p", f"The results were not compared: {found.reason or 'nothing could be run'}.", class_="bad")
    if not found.verified:
        wrong = [tag("li", str(difference)) for difference in found.failures[:_MOST_FAULTS]]
        word = "is wrong" if wrong else "could not be verified"
        return joined([tag("p", f"The tuned model {word} and was not applied: {found.reason}", class_="bad"), tag("ul", *wrong) if wrong else None])
    largest = NONE if found.max_abs_err is None else f"{found.max_abs_err:.2g}"
    relative = NONE if found.max_rel_err is None else f"{found.max_rel_err:.2g}"
    said = (
        f"The outputs of the tuned and the untuned model agree on {plural(len(found.seeds), 'random input')}: "
        f"largest absolute difference {largest}, largest relative difference {relative}."
    )
    return joined(
        [
            tag("p", said, class_="good"),
            tag("p", f"With random weights: {found.random_weights}", class_="muted") if found.random_weights else None,
            tag("p", f"onnxruntime: {found.onnxruntime}", class_="muted") if found.onnxruntime else None,
            tag("p", found.reason, class_="note") if found.reason else None,
        ]
    )
