"""The inspector, by mouse and keyboard in JupyterLab."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.lab import run_in_kernel

CELL = """
from tests.notebook_samples import FakeSource, HOSTILE, TIR, profile_of, progress_of
from workbench.notebook import Inspector
profile = profile_of(20{options})
source = FakeSource()
inspector = Inspector(source, profile, progress_of(profile), task=profile.tasks[0].task)
inspector
"""

Open = Callable[..., Any]


@pytest.fixture
def open_inspector(shared_notebook: Open) -> Open:
    def open_it(options: str = "", **page: Any) -> Any:
        made = shared_notebook([CELL.format(options=options)], **page)
        made.locator(".wb-inspector .cm-content").first.wait_for()
        return made

    return open_it


def tab(page: Any, name: str) -> Any:
    return page.locator(".wb-inspector").get_by_role("tab", name=name, exact=True)


def text(page: Any) -> str:
    return str(page.locator(".wb-inspector .cm-content").first.inner_text())


def test_the_best_trial_is_shown_first_and_any_other_can_be_chosen(open_inspector: Open) -> None:
    page = open_inspector()
    assert "decision=[8, 17]" in text(page)
    page.get_by_role("button", name="Untuned").first.click()
    page.locator(".cm-content", has_text="decision=[8, 0]").wait_for()
    page.get_by_label("Trial: number of the trial").fill("7")
    page.keyboard.press("Enter")
    page.locator(".cm-content", has_text="decision=[8, 7]").wait_for()
    assert run_in_kernel(page, "print(inspector.trial)").strip() == "7"


def test_python_leads_the_view(open_inspector: Open) -> None:
    page = open_inspector()
    run_in_kernel(page, "inspector.show(profile.tasks[1].task, 9, 'asm')")
    page.locator(".cm-content", has_text="vfmadd231ps").wait_for()
    assert tab(page, "Assembly").get_attribute("aria-selected") == "true"
    assert page.get_by_label("Trial: number of the trial").input_value() == "9"


def test_the_keyboard_moves_between_the_tabs(open_inspector: Open) -> None:
    page = open_inspector()
    tab(page, "Schedule").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".wb-facts-table").wait_for()
    assert tab(page, "Decisions").get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowRight")
    page.locator(".cm-content", has_text="T.parallel").wait_for()
    assert page.evaluate("() => document.activeElement.textContent") == "TIR"


def test_what_is_not_here_says_why(open_inspector: Open) -> None:
    page = open_inspector()
    tab(page, "Resources").click()
    page.locator(".wb-absent", has_text="Not here: the resources of this kernel cannot be counted.").wait_for()
    tab(page, "Assembly").click()
    page.get_by_role("button", name="PTX").click()
    page.locator(".wb-absent", has_text="a kernel for llvm has no PTX. Look at asm.").wait_for()


def test_a_name_is_marked_in_every_view_and_its_lines_are_found(open_inspector: Open) -> None:
    page = open_inspector()
    tab(page, "TIR").click()
    page.locator(".cm-line", has_text="for ff_0").click(position={"x": 80, "y": 8})
    page.locator(".wb-names .wb-name", has_text="ff_0").wait_for()
    assert page.locator(".cm-content .wb-name").count() == 2
    assert page.locator(".cm-content .wb-linked").count() == 5
    page.get_by_role("button", name="loop ff_0").wait_for()
    tab(page, "Source").click()
    page.locator(".cm-content .wb-name", has_text="ff_0").wait_for()
    page.locator(".wb-names").get_by_role("button", name="TIR 2").wait_for()
    page.get_by_role("button", name="Take the mark away").click()
    assert page.locator(".cm-content .wb-name").count() == 0


def test_two_trials_stand_side_by_side_with_their_names_and_decisions(open_inspector: Open) -> None:
    page = open_inspector()
    tab(page, "Diff").click()
    page.locator(".cm-mergeView").wait_for()
    assert page.locator(".wb-side").all_inner_texts() == ["trial 0 (untuned), 1,200.0 us", "trial 17, 700.0 us"]
    assert "decision=[8, 0]" in page.locator(".cm-merge-a .cm-changedLine").inner_text()
    assert "decision=[8, 17]" in page.locator(".cm-merge-b .cm-changedLine").inner_text()
    page.locator(".wb-decided summary").click()
    assert page.locator(".wb-decided tbody tr").count() == 2
    page.get_by_label("What to compare").select_option("lowered")
    page.locator(".wb-empty", has_text="is the same on both sides").wait_for()


def test_a_rerun_says_how_far_the_trial_is_from_its_record(open_inspector: Open) -> None:
    page = open_inspector()
    tab(page, "Re-run").click()
    page.get_by_role("button", name="Measure trial 17 again").click()
    page.locator(".wb-facts", has_text="1.8 % slower than the record").wait_for()
    assert "all 200,704 elements" in page.locator(".wb-facts").inner_text()


def test_effects_and_decisions_are_tables_of_text(open_inspector: Open) -> None:
    page = open_inspector(", hostile=True")
    tab(page, "Decisions").click()
    page.locator(".wb-facts-table", has_text="<img src=x").wait_for()
    tab(page, "Effects").click()
    page.locator(".wb-facts-table", has_text="3.10x (2.20 to 4.40)").wait_for()
    run_in_kernel(page, "source.text_of_tir = f'# {HOSTILE}\\n' + TIR")
    tab(page, "TIR").click()
    page.locator(".cm-content", has_text="<img src=x").wait_for()
    assert page.locator(".wb-part img").count() == 0
    assert page.evaluate("() => document.body.dataset.hacked") is None


def test_an_error_stands_where_the_text_would_and_the_next_view_works(open_inspector: Open) -> None:
    page = open_inspector()
    run_in_kernel(page, "inspector.trial = 13")
    alert = page.locator(".wb-inspector .wb-failure")
    alert.wait_for()
    assert "<b>block</b> conv2d_nchw is missing" in alert.inner_text()
    assert "Search the task again." in alert.inner_text()
    page.get_by_role("button", name="Best").first.click()
    page.locator(".cm-content", has_text="decision=[8, 17]").wait_for()


def test_a_trial_that_failed_says_so_with_its_full_text_above_every_view(open_inspector: Open) -> None:
    page = open_inspector()
    failed = page.locator(".wb-inspector .wb-failed")
    failed.wait_for(state="hidden")
    run_in_kernel(page, "from tests.notebook_samples import FAILED_TRIAL; inspector.trial = FAILED_TRIAL")
    failed.locator("summary", has_text="build error").wait_for()
    assert "no such intrinsic" in failed.inner_text()
    failed.locator("summary").click()
    failed.locator("pre", has_text="Traceback of the build").wait_for()
    tab(page, "TIR").click()
    page.locator(".cm-content", has_text="T.parallel").wait_for()
    assert "<img src=x" in failed.locator("pre").inner_text()
    page.get_by_role("button", name="Untuned").first.click()
    failed.wait_for(state="hidden")
    assert page.locator(".wb-part img").count() == 0


def test_a_rerun_can_be_cancelled_and_one_that_another_replaces_leaves_no_error(open_inspector: Open) -> None:
    page = open_inspector()
    run_in_kernel(page, "import asyncio; source.gate = asyncio.Event()")
    tab(page, "Re-run").click()
    page.get_by_role("button", name="Measure trial 17 again").click()
    page.locator(".wb-empty", has_text="waited for").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Measure trial 17 again").and_(page.locator(":enabled")).click()
    page.get_by_role("button", name="Cancel").wait_for()
    page.get_by_role("button", name="Untuned").first.click()
    page.get_by_role("button", name="Measure the untuned kernel again").click()
    page.get_by_role("button", name="Cancel").wait_for()
    page.get_by_role("button", name="Best").first.click()
    page.get_by_role("button", name="Measure trial 17 again").and_(page.locator(":enabled")).wait_for()
    assert page.locator(".wb-inspector .wb-failure").count() == 0


def test_the_front_answers_while_a_text_is_being_made(open_inspector: Open) -> None:
    page = open_inspector()
    run_in_kernel(page, "import asyncio; source.gate = asyncio.Event()")
    tab(page, "TIR").click()
    page.locator(".wb-empty", has_text="Asking the worker").wait_for()
    assert run_in_kernel(page, "print(6 * 7)").strip() == "42"
    page.locator(".wb-empty", has_text="The worker is busy").wait_for()
    run_in_kernel(page, "from workbench.notebook.background import background_loop; background_loop().call_soon_threadsafe(source.gate.set)")
    page.locator(".cm-content", has_text="T.parallel").wait_for()


def test_a_better_trial_is_offered_and_does_not_move_what_is_read(open_inspector: Open) -> None:
    page = open_inspector()
    run_in_kernel(page, "from dataclasses import replace; inspector.update_progress([replace(progress_of(profile)[0], best=31, final=None)])")
    offer = page.get_by_role("button", name="Trial 31 is the best now: show it")
    offer.wait_for()
    number = page.get_by_label("Trial: number of the trial")
    best = page.get_by_role("group", name="Trial").get_by_role("button", name="Best")
    assert "decision=[8, 17]" in text(page)
    assert (number.input_value(), best.get_attribute("aria-pressed")) == ("17", "false"), "the controls say what is read"
    offer.click()
    page.locator(".cm-content", has_text="decision=[8, 31]").wait_for()
    assert (number.input_value(), best.get_attribute("aria-pressed")) == ("31", "true")


def test_a_text_of_three_thousand_lines_and_its_difference_are_shown(open_inspector: Open) -> None:
    page = open_inspector()
    run_in_kernel(page, "source.text_of_tir = '\\n'.join(f'x{i} = T.float32({i})' for i in range(3000))")
    tab(page, "TIR").click()
    page.locator(".cm-line", has_text="x1 = T.float32(1)").first.wait_for()
    assert page.locator(".cm-line").count() < 300


def test_an_inspector_that_is_removed_leaves_nothing_behind(open_inspector: Open) -> None:
    page = open_inspector()
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    page.wait_for_function("() => document.querySelectorAll('.wb-part, .wb-editor').length === 0")
