"""The report: everything that the session knows is on the page, nothing on it is code, and it loads nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from workbench.api.report import winner_texts, write_report
from workbench.cli.main import main
from workbench.errors import EnvironmentFault, InputError, SessionError
from workbench.records.comparison import FASTER as COMPARED_FASTER
from workbench.records.comparison import RECORD, Comparison, Difference, KernelComparison, Timing, Verification
from workbench.records.trial import BUILD_ERROR, OK, Check, Trial
from workbench.records.tuning import FASTER, FINISHED, NOT_FASTER, Final, SearchBudget, TaskProgress, TuneRequest
from workbench.report import ReportContent, WinnerText, page, read_content
from workbench.report.markup import block, tag
from workbench.report.scales import linear, logarithmic
from workbench.selection import select
from workbench.session import SessionDirectory

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m"
VOID = {"meta", "link", "br", "hr", "input", "img", "col"}


class Reader(HTMLParser):
    """Reads a page back: its elements in order of opening, its text, and whether all that opened was closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self._open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self._open.pop() == name

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def trial(task: str, number: int, time_us: float, **changes: Any) -> Trial:
    values: dict[str, Any] = {
        "task": task,
        "number": number,
        "status": OK,
        "error": "",
        "fingerprint": f"f{number}",
        "origin": "search" if number else "baseline",
        "conditions": "here",
        "times_us": (time_us,),
        "runs": 1,
        "search_s": 0.0,
        "build_s": 0.0,
        "run_s": 0.0,
        "check": Check(1e-6, 1e-6, 0, 64, 1e-4, 1e-4) if number else None,
        "best_us": time_us,
        "measured_at": 1.7e9 + number,
        "decisions": ("tile 1 4 7 2", HOSTILE),
    }
    return Trial(**{**values, **changes})


@pytest.fixture
def searched(session: SessionDirectory) -> SessionDirectory:
    """A session with a search of two tasks: one faster, one not."""
    with session.store() as store:
        profile = store.profile()
        assert profile is not None
        first, second, _ = profile.tasks
        selection = select(profile, tasks=[first.task, second.task])
        store.write_selection(selection)
        progress = {
            first.task: TaskProgress(
                first.task,
                first.name,
                first.weight,
                state=FINISHED,
                stopped_because="its budget is used up",
                trials=4,
                errors={BUILD_ERROR: 1},
                first_errors={BUILD_ERROR: f"line one\n  line two {HOSTILE}"},
                baseline_us=100.0,
                best=2,
                best_us=40.0,
                final=Final(2, 100.0, 1.0, 40.0, 0.5, 2, 11, FASTER, "2.50x +- 0.02 as fast: 100.0 to 40.0 us"),
            ),
            second.task: TaskProgress(
                second.task, second.name, 1, state=FINISHED, trials=2, baseline_us=50.0, best=1, best_us=49.9,
                final=Final(0, 50.0, 1.0, 49.9, 1.0, 1, 11, NOT_FASTER, "no difference beyond the noise: 50.0 to 49.9 us"),
            ),
        }  # fmt: skip
        for item in (trial(first.task, 0, 100.0), trial(first.task, 1, 60.0), trial(first.task, 2, 40.0)):
            store.trials.add(item, "[[], []]", progress[first.task])
        store.trials.add(replace(trial(first.task, 3, 1.0), status=BUILD_ERROR, times_us=(), error="x"), "", progress[first.task])
        for item in (trial(second.task, 0, 50.0), trial(second.task, 1, 49.9)):
            store.trials.add(item, "[[], []]", progress[second.task])
        request = TuneRequest(selection.tasks, SearchBudget(per_task=64), seed=7)
        entry = {"request": request.to_dict(), "conditions": "abc", "started_at": "2026-11-30T00:00:00+00:00"}
        store.update_manifest({"search": entry, "last_stop": {"command": "tune", "cause": f"all tasks ended {HOSTILE}"}})
    return session


def comparison(content: ReportContent, **changes: Any) -> Comparison:
    task = content.profile.tasks[0]
    timing = {"baseline_us": 100.0, "tuned_us": 40.0, "ratio": 2.5, "ratio_error": 0.1, "verdict": COMPARED_FASTER, "text": "2.50x +- 0.10 as fast"}
    kernel = KernelComparison(**timing, kernel=HOSTILE, task=task.task, name=task.name, weight=2, used=RECORD, trial=2, why="because")
    total = Timing(baseline_us=1000.0, tuned_us=880.0, ratio=1.14, ratio_error=0.01, verdict=COMPARED_FASTER, text="1.14x +- 0.01 as fast")
    values: dict[str, Any] = {
        "model": "net",
        "engine": "relax",
        "target": "cpu",
        "total": total,
        "kernels": (kernel,),
        "verification": Verification(verified=True, seeds=(0, 1), max_abs_err=1e-6, max_rel_err=1e-5, onnxruntime="agrees"),
        "applied": True,
        "applied_at": 1.7e9,
    }
    return Comparison(**{**values, **changes})


def test_the_page_says_what_was_tuned_why_and_what_came_out(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1.2.3")
    read = Reader(page(content))
    for words in (
        "2.50x +- 0.02 as fast: 100.0 to 40.0 us",
        "no difference beyond the noise",
        "its budget is used up",
        "tile 1 4 7 2",
        "untuned kernel stays",
        "build error: 1",
        "random weights",
        "--seed 7",
        "workbench select --tasks",
        "1.2.3",
    ):
        assert words in read.text, words
    anchors = {attributes["id"] for name, attributes in read.elements if name == "section"}
    linked = {str(attributes["href"]).removeprefix("#") for name, attributes in read.elements if name == "a"}
    assert linked == anchors == {"result", "selection", "search", "failures", "winners", "profile", "environment", "reproduce"}


def test_the_page_loads_nothing_and_runs_nothing_whatever_strangers_wrote(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1", texts=[WinnerText(content_task(searched), {"source": f"</pre><script>{HOSTILE}"}, HOSTILE)])
    content = replace(content, comparison=comparison(content), profile=replace(content.profile, model=HOSTILE, notes=(HOSTILE,)))
    html = page(content)
    read = Reader(html)
    names = {name for name, _ in read.elements}
    assert names.isdisjoint({"script", "img", "iframe", "object", "embed", "base", "form"})
    for _, attributes in read.elements:
        assert not any(name.startswith("on") for name in attributes)
        assert not any(re.match(r"\s*(https?:|//|javascript:)", value or "") for value in attributes.values())
    assert "\x1b" not in html
    assert not re.search(r"https?://|url\(", re.sub(r"<pre>.*?</pre>", "", html, flags=re.DOTALL))
    assert "</pre><script>" in read.text


def content_task(session: SessionDirectory) -> str:
    with session.store() as store:
        return store.trials.progress()[0].task


def test_once_the_winners_are_applied_the_measured_times_take_the_place_of_the_forecast(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    assert "not applied yet" in Reader(page(content)).text
    with searched.store() as store:
        store.write_document("comparison", comparison(content).to_dict())
    read = Reader(page(read_content(searched, version="1")))
    assert "not applied yet" not in read.text
    assert "1.14x +- 0.01 as fast" in read.text
    assert "agree on 2 random inputs" in read.text
    assert "onnxruntime: agrees" in read.text


def test_an_agreement_that_proves_little_says_so(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    verification = Verification(verified=True, seeds=(0,), reason="agreement proves little: every element is the same")
    assert "agreement proves little" in Reader(page(replace(content, comparison=comparison(content, verification=verification)))).text


def test_a_failed_verification_is_told_first_and_names_the_kernel(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    wrong = Difference("output 0", "untuned", 0, "fused_conv", 3, 1.0, 1.0, 5, 64, 1e-4, 1e-4, (0, 1), "2.0", "1.0")
    verification = Verification(
        verified=False, seeds=(0,), differences=(wrong,), faulty=("fused_conv",), reason="fused_conv computes something else."
    )
    read = Reader(page(replace(content, comparison=comparison(content, verification=verification, applied=False))))
    assert "RESULTS DIFFER" in read.text
    assert "fused_conv computes something else" in read.text
    assert "5 of 64 elements" in read.text


def test_a_session_that_was_only_profiled_has_a_report_too(session: SessionDirectory) -> None:
    read = Reader(page(read_content(session, version="1")))
    assert "nothing searched yet" in read.text
    assert "Nothing is selected" in read.text
    assert "workbench tune" not in read.text


def test_an_unmeasured_profile_says_why(session: SessionDirectory) -> None:
    content = read_content(session, version="1")
    bare = replace(content.profile, unmeasured="no CUDA device", total_us=None, rows_us=None)
    assert "Nothing was measured: no CUDA device." in Reader(page(replace(content, profile=bare))).text


def test_a_hundred_thousand_trials_make_a_page_below_five_megabytes(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    task = content.profile.tasks[0].task
    points = [
        replace_point(index, task) for index in range(100_000)
    ]  # fmt: skip
    content.columns.extend(points)
    assert len(page(content).encode()) < 1_000_000


def replace_point(index: int, task: str) -> Any:
    from workbench.records.trial_point import TrialPoint  # noqa: PLC0415 - only here

    failed = index % 5 == 0
    return TrialPoint(
        1000 + index, task, 10 + index, BUILD_ERROR if failed else OK, "search", "here", 1.7e9 + index, None if failed else 50.0 + index % 91
    )


def test_winners_texts_are_those_of_the_tasks_that_save_most_and_what_fails_says_why(searched: SessionDirectory) -> None:
    asked = []

    def inspect(task: str, view: str, trial: int) -> str:
        asked.append((task, view, trial))
        if view == "source":
            raise SessionError("It is damaged.", "Search again.")
        return "text"

    (found,) = winner_texts(searched, inspect)
    assert asked == [(found.task, "schedule", 2), (found.task, "source", 2)]
    assert found.texts == {"schedule": "text"}
    assert found.why_none == "No source: It is damaged. Search again."


def test_a_report_is_written_whole_or_not_at_all(searched: SessionDirectory, tmp_path: Path) -> None:
    path = write_report(searched, tmp_path / "a.html", version="1", texts=[])
    assert path.read_text(encoding="utf-8").endswith("</html>\n")
    with pytest.raises(InputError):
        write_report(searched, tmp_path, version="1", texts=[])
    with pytest.raises(EnvironmentFault):
        write_report(searched, tmp_path / "missing" / "a.html", version="1", texts=[])
    assert [item.name for item in tmp_path.glob("*.html")] == ["a.html"]


def test_the_command_writes_the_page_and_says_where(searched: SessionDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "page.html"
    assert main(["report", "--session", str(searched.path), "-o", str(target), "--no-sources"]) == 0
    assert str(target) in capsys.readouterr().out
    assert main(["report", "--session", str(searched.path), "-o", str(tmp_path), "--no-sources"]) == 2


# the parts


def test_text_is_never_markup() -> None:
    assert tag("p", HOSTILE, title=f'"{HOSTILE}') == (
        '<p title="&quot;&lt;img src=x onerror=alert(1)&gt;\\x1b[31m">&lt;img src=x onerror=alert(1)&gt;\\x1b[31m</p>'
    )
    assert tag("p", tag("b", "<"), None, 3) == "<p><b>&lt;</b>3</p>"
    assert block("a\n\n\t<b>") == "a\n\n    &lt;b&gt;"


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (0.5, 2.0), (3.0, 4.0), (1e-3, 1e5), (900.0, 1100.0)])
def test_an_axis_has_some_round_ticks_within_it(low: float, high: float) -> None:
    for scale in (linear([low, high], 0.0, 100.0), logarithmic([low, high], 100.0, 0.0)):
        ticks = scale.ticks(5)
        assert 1 <= len(ticks) <= 7
        assert all(scale.low <= tick <= scale.high * (1 + 1e-9) for tick in ticks)
        assert scale.place(scale.low) == pytest.approx(scale.start)
        assert scale.place(scale.high) == pytest.approx(scale.end)
