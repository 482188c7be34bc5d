"""The schedules that won: how sure that is, the decisions, and the texts that could be had."""

from __future__ import annotations

from workbench.records.comparison import BASELINE, Comparison
from workbench.records.trial import Trial
from workbench.records.tuning import FASTER, Final, TaskProgress
from workbench.report.content import ReportContent, WinnerText
from workbench.report.markup import Markup, block, joined, tag

_NAMES = {
    "schedule": "Schedule, as Python that makes it again",
    "tir": "TIR",
    "source": "Source",
    "asm": "Assembly",
    "lowered": "Lowered TIR",
    "ptx": "PTX",
    "sass": "SASS",
}


def winners(content: ReportContent) -> Markup | None:
    """Each task's verdict with its schedule; None if no task has one."""
    times_us = {task.task: task.time_us or 0.0 for task in content.profile.tasks}
    decided = sorted((task for task in content.tasks if task.final is not None), key=lambda task: -times_us.get(task.task, 0.0))
    if not decided:
        return None
    texts = {item.task: item for item in content.texts}
    intro = (
        "At its end a search measures the best trials of each task again, by turns with the untuned kernel. "
        "One that is not faster by more than the noise does not win: the untuned kernel stays."
    )
    return joined([tag("p", intro), *(_winner(content, task, texts.get(task.task)) for task in decided)])


def _winner(content: ReportContent, task: TaskProgress, text: WinnerText | None) -> Markup:
    final, trial = task.final, content.winners.get(task.task)
    assert final is not None  # noqa: S101 - the caller chose those that have one
    words, look, remark = _standing(task.task, final, content.comparison)
    title = joined([tag("strong", task.name), " ", tag("span", words, class_=look), f" {final.why}"])
    inner: list[Markup | None] = [tag("p", remark, class_="note") if remark else None]
    if trial is not None:
        inner.append(_facts(trial))
        if trial.decisions:
            inner.append(tag("ol", *(tag("li", decision) for decision in trial.decisions), class_="decisions"))
    if text is not None:
        inner += [tag("details", tag("summary", _NAMES.get(name, name)), tag("pre", block(source))) for name, source in text.texts.items()]
        inner.append(tag("p", text.why_none, class_="muted") if text.why_none else None)
    return tag("div", tag("p", title), *inner, class_="winner")


def _standing(task: str, final: Final, comparison: Comparison | None) -> tuple[str, str, str]:
    """What became of a winner: the words on its chip, the chip's look, and what is to be said besides."""
    if final.verdict != FASTER:
        return "untuned kernel stays", "chip", ""
    named = f"trial {final.winner}"
    if comparison is None:
        return named, "chip good", ""
    kernels = [kernel for kernel in comparison.kernels if kernel.task == task and kernel.considered == final.winner]
    if not kernels:
        return f"{named}: not applied yet", "chip", "It was named after the model was applied."
    back = next((kernel for kernel in kernels if kernel.used == BASELINE), None)
    if back is not None:
        return f"{named}: not applied", "chip", back.why
    verification = comparison.verification
    if any(kernel.kernel in verification.faulty for kernel in kernels):
        return f"{named}: wrong, not applied", "chip bad", verification.reason
    return (named, "chip good", "") if verification.verified else (f"{named}: not applied", "chip", "The model with it was not verified.")


def _facts(trial: Trial) -> Markup:
    """How right its output is, and how it came about."""
    check = trial.check
    checked = "its output was not compared alone"
    if check is not None:
        largest = "not a number" if check.max_abs is None else f"{check.max_abs:.2g}"
        checked = (
            f"{check.elements:,} elements compared with the untuned kernel's, largest difference {largest}, {check.mismatches:,} beyond the tolerance"
        )
    return tag("p", f"{checked}; from {trial.origin}; fingerprint {trial.fingerprint}", class_="muted")
