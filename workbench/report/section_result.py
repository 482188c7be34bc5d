"""What came out: the whole model and each kernel before and after, with verdicts, and whether the results are right."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.forecast import model_forecast_us
from workbench.charts.bars import KernelTime, applied, searched
from workbench.records.comparison import Comparison
from workbench.report.content import ReportContent
from workbench.report.drawing import before_after_drawing, share_drawing
from workbench.report.figures_text import NONE, microseconds, milliseconds, plural, times
from workbench.report.markup import Markup, joined, tag

_MOST_BARS = 24


def headline(content: ReportContent) -> Markup:
    """The result in a few large figures."""
    comparison = content.comparison
    if comparison is not None and comparison.total.tuned_us is not None:
        total = comparison.total
        verified = {True: "results agree", False: "RESULTS DIFFER", None: "results not compared"}[comparison.verification.verified]
        cards = [
            ("untuned", milliseconds(total.baseline_us), "measured by turns"),
            ("tuned", milliseconds(total.tuned_us), total.text),
            ("gain", times(total.baseline_us, total.tuned_us), verified),
        ]
    else:
        now = model_forecast_us(content.profile, content.tasks) if content.tasks else None
        cards = [
            ("untuned", milliseconds(content.profile.total_us), "end to end, without instrumentation"),
            ("forecast", milliseconds(now), "from the kernels alone; not applied yet" if now else "nothing was searched yet"),
            ("gain", times(content.profile.total_us, now), "forecast"),
        ]
    made = [
        tag("div", tag("span", name, class_="what"), tag("strong", value), tag("span", remark, class_="remark"), class_="card")
        for name, value, remark in cards
    ]
    return tag("div", *made, class_="cards")


def result(content: ReportContent) -> Markup:
    """Kernels before and after, and the verification."""
    profile, comparison = content.profile, content.comparison
    if profile.unmeasured:
        return tag("p", f"Nothing was measured: {profile.unmeasured}.")
    kernels = applied(comparison) if comparison is not None else searched(profile, content.tasks)
    if not kernels:
        return tag("p", "No kernel has another schedule yet: nothing was searched, or nothing was faster than the untuned kernels.")
    shown = kernels[:_MOST_BARS]
    rest = _rest_us(content, shown)
    how = (
        "Both models were measured by turns, kernel by kernel, inside the model."
        if comparison is not None
        else "Times before are those of the profile; times now are what the search forecasts for the same calls: nothing was applied yet."
    )
    return joined(
        [
            tag("p", how),
            _verification(comparison) if comparison is not None else None,
            tag(
                "figure", share_drawing(shown, rest_us=rest), tag("figcaption", "One run of the model, untuned and now. Grey is what was not tuned.")
            ),
            tag("figure", before_after_drawing(shown), tag("figcaption", "All calls of a kernel in one run of the model: untuned above, now below.")),
            _table(kernels),
        ]
    )


def _rest_us(content: ReportContent, shown: Sequence[KernelTime]) -> float:
    """What one run spends on everything that is not shown, of the same measurement."""
    if content.comparison is None:
        return max((content.profile.rows_us or 0.0) - sum(kernel.before_us for kernel in shown), 0.0)
    names = {kernel.name for kernel in shown}
    others = [kernel for kernel in content.comparison.kernels if kernel.kernel not in names]
    return sum((kernel.tuned_us or 0.0) * kernel.weight for kernel in others)


def _table(kernels: Sequence[KernelTime]) -> Markup:
    rows = [
        tag(
            "tr",
            tag("th", kernel.name, scope="row"),
            tag("td", str(kernel.weight), class_="number"),
            tag("td", microseconds(kernel.before_us), class_="number"),
            tag("td", microseconds(kernel.after_us), class_="number"),
            tag("td", times(kernel.before_us, kernel.after_us), class_="number"),
            tag("td", kernel.text),
        )
        for kernel in kernels
    ]
    names = (("Kernel", ""), ("Calls", "number"), ("Untuned (us)", "number"), ("Now (us)", "number"), ("Gain", "number"), ("Verdict", ""))
    head = tag("tr", *(tag("th", name, scope="col", class_=kind or None) for name, kind in names))
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="wide")


def _verification(comparison: Comparison) -> Markup:
    """Whether the tuned model computes what the untuned one does."""
    found = comparison.verification
    if found.verified is None:
        return tag("p", f"The results were not compared: {found.reason or 'nothing could be run'}.", class_="bad")
    if not found.verified:
        wrong = [tag("li", str(difference)) for difference in found.differences if not difference.passed][:20]
        return joined([tag("p", f"The tuned model is wrong and was not applied: {found.reason}", class_="bad"), tag("ul", *wrong)])
    largest = NONE if found.max_abs_err is None else f"{found.max_abs_err:.2g}"
    relative = NONE if found.max_rel_err is None else f"{found.max_rel_err:.2g}"
    said = (
        f"The outputs of the tuned and the untuned model agree on {plural(len(found.seeds), 'random input')}: "
        f"largest absolute difference {largest}, largest relative difference {relative}."
    )
    return joined(
        [
            tag("p", said, class_="good"),
            tag("p", f"onnxruntime: {found.onnxruntime}", class_="muted") if found.onnxruntime else None,
            *(tag("p", note, class_="note") for note in (found.reason, *comparison.notes) if note),
        ]
    )
