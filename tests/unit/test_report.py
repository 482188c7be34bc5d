"""The report: everything that the session knows is on the page, nothing on it is code, and it loads nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from workbench.api.report import MOST_WINNERS, winner_texts, write_report
from workbench.cli.main import main
from workbench.errors import EnvironmentFault, InputError, SessionError
from workbench.records.comparison import BASELINE, RECORD, UNCHANGED, Comparison, Difference, KernelComparison, Timing, Verification
from workbench.records.comparison import FASTER as COMPARED_FASTER
from workbench.records.peaks import Bandwidth, Peaks, Rate
from workbench.records.trial import BUILD_ERROR, OK, Check, MeasureOptions, Trial
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
    kernel = KernelComparison(**timing, kernel=HOSTILE, task=task.task, name=task.name, weight=2, used=RECORD, trial=2, considered=2, why="because")
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
        "profile_id": "1",
    }
    return Comparison(**{**values, **changes})


def refused(content: ReportContent, verification: Verification, **changes: Any) -> Comparison:
    """What applying really gives when a verification fails: nothing was measured."""
    task = content.profile.tasks[0]
    kernel = KernelComparison(kernel=task.name, task=task.task, name=task.name, weight=2, used=RECORD, trial=2, considered=2, why="trial 2: it won")
    values: dict[str, Any] = {"total": Timing(), "kernels": (kernel,), "verification": verification, "applied": False}
    return comparison(content, **{**values, "notes": ("Nothing was applied.",), **changes})


def chips(html: str) -> list[str]:
    """What stands on the chips of the winners, those that look good with a plus."""
    found = re.findall(r'<span class="(chip[^"]*)">([^<]*)</span>', html)
    return [f"+{words}" if "good" in look else words for look, words in found]


def read_of(content: ReportContent, comparison: Comparison) -> Reader:
    return Reader(page(replace(content, comparison=comparison)))


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


def test_times_that_are_noise_are_said_to_be_such(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    noisy = replace(content, profile=replace(content.profile, resolution_us=1e6))
    assert "shorter than what timing one call can tell apart" in Reader(page(noisy)).text


def test_an_agreement_that_proves_little_says_so(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    verification = Verification(
        verified=True, seeds=(0,), reason="agreement proves little: every element is the same", random_weights="largest 3e-05"
    )
    text = Reader(page(replace(content, comparison=comparison(content, verification=verification)))).text
    assert "agreement proves little" in text
    assert "With random weights: largest 3e-05" in text


def test_a_failed_verification_is_told_first_and_names_the_kernel(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    name = content.profile.tasks[0].name
    wrong = Difference("output 0", "untuned", 0, name, 3, 1.0, 1.0, 5, 64, 1e-4, 1e-4, (0, 1), "2.0", "1.0")
    verification = Verification(verified=False, seeds=(0,), differences=(wrong,), faulty=(name,), reason=f"wrong result of kernel {name}: {wrong}")
    html = page(replace(content, comparison=refused(content, verification)))
    text = Reader(re.sub("<style>.*?</style>", "", html, flags=re.DOTALL)).text
    header = text[: text.index("Before and after")]
    assert "RESULTS DIFFER" in header
    assert f"wrong result of kernel {name}" in header
    assert f"The tuned model is wrong and was not applied: wrong result of kernel {name}" in text
    assert "5 of 64 elements" in text
    assert "Nothing was applied." in text
    assert "forecast" not in text[: text.index("The search")]
    assert "nothing was faster" not in text
    assert chips(html) == ["trial 2: wrong, not applied", "untuned kernel stays"]


@pytest.mark.parametrize("faulty", [True, False])
def test_a_model_that_crashed_or_was_not_built_was_not_verified_and_is_not_called_different(searched: SessionDirectory, faulty: bool) -> None:
    content = read_content(searched, version="1")
    names = (content.profile.tasks[0].name,) if faulty else ()
    verification = Verification(verified=False, seeds=(0,), faulty=names, reason="The process died with SIGSEGV.")
    html = page(replace(content, comparison=refused(content, verification)))
    text = Reader(html).text
    assert "NOT VERIFIED" in text
    assert "RESULTS DIFFER" not in text
    assert "The tuned model could not be verified and was not applied: The process died with SIGSEGV." in text
    assert chips(html)[0] == ("trial 2: wrong, not applied" if faulty else "trial 2: not applied")


def test_what_applying_took_back_is_told_with_the_reason(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    why = f"slower in the model: trial 2: slower: 100.0 to 140.0 us {HOSTILE}"
    used = comparison(content).kernels[0]
    back = replace(used, used=BASELINE, trial=None, verdict=UNCHANGED, why=why, tuned_us=100.0)
    html = page(replace(content, comparison=comparison(content, kernels=(back,), notes=("No kernel has a schedule of the search.",))))
    text = Reader(html).text
    assert text.count("slower in the model: trial 2: slower: 100.0 to 140.0 us") == 2  # beside the result, and beside the winner
    assert "1 kernel kept the untuned schedule though the search named a winner" in text
    assert "it is the untuned model" in text
    assert "nothing was searched, or nothing was faster" not in text
    assert chips(html) == ["trial 2: not applied", "untuned kernel stays"]
    assert chips(page(replace(content, comparison=comparison(content)))) == ["+trial 2", "untuned kernel stays"]


def test_a_winner_that_was_named_after_the_model_was_applied_is_not_called_applied(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    older = replace(comparison(content).kernels[0], trial=1, considered=1)
    assert chips(page(replace(content, comparison=comparison(content, kernels=(older,)))))[0] == "trial 2: not applied yet"


def test_a_comparison_of_another_profile_is_left_out_and_said_so(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    with searched.store() as store:
        store.write_document("comparison", comparison(content).to_dict())
        store.update_manifest({"profile_id": "2"})
    content = read_content(searched, version="1")
    assert content.comparison is None
    text = Reader(page(content)).text
    assert "The model was profiled again since it was applied" in text
    assert "1.14x" not in text
    with searched.store() as store:
        store.write_document("comparison", {"applied": "yes"})
    assert "The comparison in the session is damaged" in Reader(page(read_content(searched, version="1"))).text


def test_the_distance_to_the_limit_stands_beside_what_was_tuned(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    assert "Of the limit" not in read_of(content, comparison(content)).text
    peaks = Peaks("a processor", "k", 2, Rate(1e12, 9e11, 1e10, 15), (Bandwidth(Rate(1e11, 9e10, 1e9, 15), 10**9, "memory"),), "how", 1.7e9)
    task = replace(content.profile.tasks[0], flop=20_000_000, tensor_bytes=1000)  # 20 us at the peak, and it takes 40
    content = replace(content, peaks=peaks, profile=replace(content.profile, tasks=(task, *content.profile.tasks[1:])))
    text = read_of(content, comparison(content)).text
    assert "Of the limit" in text
    assert "50.0 %" in text
    assert "a processor" in text


def test_a_session_that_was_only_profiled_has_a_report_too(session: SessionDirectory) -> None:
    read = Reader(page(read_content(session, version="1")))
    assert "nothing searched yet" in read.text
    assert "Nothing is selected" in read.text
    assert "workbench tune" not in read.text


def test_an_unmeasured_profile_says_why(session: SessionDirectory) -> None:
    content = read_content(session, version="1")
    bare = replace(content.profile, unmeasured="no CUDA device", total_us=None, rows_us=None)
    assert "Nothing was measured: no CUDA device." in Reader(page(replace(content, profile=bare))).text


def commands(content: ReportContent) -> list[str]:
    """What stands under "how to do this again"."""
    html = page(content)
    return unescape(re.findall(r"<pre>(.*?)</pre>", html[html.index('id="reproduce"') :], flags=re.DOTALL)[0]).split("\n")


def test_the_commands_that_lead_here_say_everything_that_decided_the_result(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    assert content.request is not None
    assert content.search is not None
    assert commands(content)[0] == "workbench profile matmul --args '[64, 64, 64]' --target cpu --layout keep --threads 2 --seed 0"
    assert commands(content)[2].endswith("--min-repeat-ms 10 --no-library")
    source = replace(content.request.source, workload="mine:f")
    measure = MeasureOptions(timeout_s=3.0, build_timeout_s=7.5, cooldown_ms=20.0, device=1)
    library = "/home/u/.local/share/tvm-workbench/library/cpu/0a1b"
    search = replace(content.search, measure=measure, builders=3, transfer=("/home/u/other session", library), schedule="mine:tile")
    request = replace(content.request, source=source, engine="relay", layout="keep")
    verification = Verification(verified=True, seeds=(0, 1))
    content = replace(content, request=request, search=search, comparison=comparison(content, verification=verification))
    profile, _, tune, apply, _ = commands(content)
    assert profile.startswith("workbench profile mine:f ")
    assert profile.endswith("--engine relay --trust")
    wanted = ("--timeout 3", "--build-timeout 7.5", "--cooldown-ms 20", "--device 1", "--builders 3", "--transfer 'other session'", "--trust")
    for words in wanted:
        assert words in tune, words
    assert "--no-library" not in tune
    assert apply == "workbench apply --inputs 2 --trust"
    text = Reader(page(content)).text
    assert "/home/u" not in text
    assert "what the record library had of 1 kernel" in text
    assert "the Python with the old TVM" in text
    handed = replace(content, request=replace(request, source=replace(source, kind="function")))
    assert "A Python process handed the model over" in Reader(page(handed)).text


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


def test_the_longest_texts_of_eight_winners_leave_the_page_below_five_megabytes(searched: SessionDirectory) -> None:
    content = read_content(searched, version="1")
    with searched.store() as store:
        (progress,) = [task for task in store.trials.progress() if task.final is not None and task.final.winner]
    long = "  %1 = fmul float %0, 0x3FF0000000000000\n" * 50_000
    (found,) = winner_texts(searched, lambda task, view, trial: long)
    assert all(len(text) < 250_000 and text.endswith("more characters") for text in found.texts.values())
    one = len(page(replace(content, texts=(found,))).encode()) - len(page(content).encode())
    assert progress.task == found.task
    assert MOST_WINNERS * one < 4_000_000


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
