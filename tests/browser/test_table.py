"""The profile's table, by mouse and keyboard in JupyterLab."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import run_in_kernel, wait_for_kernel
from tests.browser.rows import box, cell, shown

CELL = """
from tests.notebook_samples import profile_of, progress_of
from workbench.notebook import ProfileTable
profile = profile_of({rows}{options})
table = ProfileTable(profile, progress_of(profile))
table
"""

Open = Callable[..., Any]
WIDE = (2400, 900)  # all columns are in sight; the grid makes no others


@pytest.fixture
def open_table(shared_notebook: Open) -> Open:
    def open_it(rows: int = 20, options: str = "", **page: Any) -> Any:
        made = shared_notebook([CELL.format(rows=rows, options=options)], size=WIDE, **page)
        made.locator(".wb-table .ag-row").first.wait_for()
        return made

    return open_it


def ticked(page: Any) -> list[int]:
    return list(json.loads(run_in_kernel(page, "print(table.ticked)")))


def test_a_tick_ticks_the_whole_task_in_python_too_and_a_click_on_a_row_ticks_nothing(open_table: Open) -> None:
    page = open_table()
    cell(page, 1, "node_name").click()
    wait_for_kernel(page, "print(table.focus, table.ticked)", "1 []")
    box(page, 0).click()
    wait_for_kernel(page, "print(table.ticked, table.focus)", "[0, 7, 14] 1")
    assert box(page, 7).is_checked()
    assert "the 2 other rows of its task" in page.locator(".wb-table [role=status]").inner_text()
    assert "3 rows (1 task) ticked" in page.locator(".wb-ticked").inner_text()


def test_python_leads_the_view(open_table: Open) -> None:
    page = open_table()
    run_in_kernel(page, "table.ticked = [1]; table.focus = 3")
    box(page, 8).and_(page.locator(":checked")).wait_for()
    page.locator('.wb-table .ag-row.wb-focused[row-id="3"]').first.wait_for()
    assert not box(page, 0).is_checked()


def test_rows_that_cannot_be_tuned_say_why_and_have_no_box_to_tick(open_table: Open) -> None:
    page = open_table()
    assert box(page, 6).is_disabled()
    assert "cannot be tuned: it has a dynamic shape" in (page.locator('.wb-table [row-id="6"] [col-id="remarks"]').text_content() or "")


def test_sorting_puts_the_hottest_first_and_unknown_values_last(open_table: Open) -> None:
    page = open_table()
    heading = page.locator('.wb-table .ag-header-cell[col-id="gain"]')
    heading.scroll_into_view_if_needed()
    heading.click()
    page.locator('.wb-table .ag-header-cell[col-id="gain"][aria-sort="descending"]').wait_for()
    assert shown(page, "gain")[:3] == ["1.71x"] * 3
    heading.click()
    page.locator('.wb-table .ag-header-cell[col-id="gain"][aria-sort="ascending"]').wait_for()
    assert shown(page, "gain")[:3] == ["1.00x"] * 3


def test_the_box_of_the_heading_ticks_what_the_search_left(open_table: Open) -> None:
    page = open_table()
    page.get_by_label("Search all columns").fill("max_pool2d")
    page.wait_for_function("() => document.querySelectorAll('.wb-table .ag-row:not(.ag-row-pinned)').length === 3")
    page.locator(".wb-table .ag-header-select-all input").click()
    wait_for_kernel(page, "print(table.ticked)", "[3, 10, 17]")
    page.get_by_role("button", name="Untick all").click()
    wait_for_kernel(page, "print(table.ticked)", "[]")


def test_ticking_until_a_share_follows_the_rule_of_the_selection(open_table: Open) -> None:
    page = open_table()
    page.get_by_label("Share of the time in percent").fill("50")
    page.get_by_role("button", name="Tick until").click()
    page.locator(".wb-table [role=status]", has_text="share 0.5").wait_for()
    wanted = run_in_kernel(page, "from workbench.selection import select; print(list(select(profile, share=0.5).rows))")
    assert ticked(page) == json.loads(wanted)


def test_a_share_that_makes_no_sense_is_an_error_in_the_widget(open_table: Open) -> None:
    page = open_table()
    page.get_by_label("Share of the time in percent").fill("300")
    page.get_by_role("button", name="Tick until").click()
    alert = page.locator(".wb-table [role=alert]")
    alert.wait_for()
    assert "not above 0 and at most 1" in alert.inner_text()


def test_the_keyboard_ticks_and_looks_and_the_notebook_leaves_the_keys_alone(open_table: Open) -> None:
    page = open_table()
    cell(page, 0, "ops").click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    wait_for_kernel(page, "print(table.focus)", "1")
    page.keyboard.press("Space")
    wait_for_kernel(page, "print(table.ticked)", "[1, 8, 15]")
    assert page.locator(".wb-table [role=grid], .wb-table [role=treegrid]").first.get_attribute("aria-label") == "Rows of squeezenet"


def test_what_is_saved_is_what_is_shown(open_table: Open, tmp_path: Path) -> None:
    page = open_table()
    page.get_by_role("button", name="Columns").click()
    page.locator(".wb-menu-list").get_by_label("Kernel", exact=True).check()
    page.locator(".wb-menu-list").get_by_label("Shape", exact=True).uncheck()
    page.keyboard.press("Escape")
    page.get_by_label("Search all columns").fill("dense")
    page.wait_for_function("() => document.querySelectorAll('.wb-table .ag-row:not(.ag-row-pinned)').length === 3")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").click()
    waiting.value.save_as(tmp_path / "table.csv")
    assert waiting.value.suggested_filename == "squeezenet-profile.csv"
    lines = list(csv.DictReader((tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()))
    assert [line["Row"] for line in lines] == ["2", "9", "16"]
    assert "Kernel" in lines[0]
    assert "Shape" not in lines[0]
    with page.expect_download() as waiting:
        page.get_by_role("button", name="JSON").click()
    waiting.value.save_as(tmp_path / "table.json")
    saved = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert [row["Row"] for row in saved["rows"]] == [2, 9, 16]
    assert saved["rows"][0]["Time(us)"] == 400.0
    page.get_by_role("button", name="Copy", exact=True).click()
    page.locator(".wb-table [role=status]", has_text="Copied 3 rows").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()").count("\n") == 3


def test_progress_appears_where_the_task_is_and_moves_nothing_else(open_table: Open) -> None:
    page = open_table()
    run_in_kernel(page, "from dataclasses import replace; table.update_progress([replace(progress_of(profile)[2], best_us=200.0, trials=30)])")
    page.locator('.wb-table [row-id="2"] [col-id="gain"]', has_text="2.00x").wait_for()
    assert shown(page, "row")[:4] == ["0", "1", "2", "3"]


def test_another_view_of_the_table_and_another_profile_leave_it_arranged_as_it_was(open_table: Open) -> None:
    page = open_table()
    first = page.locator(".wb-table").first
    first.get_by_label("Search all columns").fill("dense")
    first.locator('.ag-header-cell[col-id="row"]').click()
    first.locator('.ag-header-cell[col-id="row"][aria-sort="descending"]').wait_for()
    rows = shown(page, "row")
    assert rows == sorted(rows, key=int, reverse=True)
    assert 0 < len(rows) < 20
    run_in_kernel(page, "table.take_message({'kind': 'ready'})")  # as another view sends it
    run_in_kernel(page, "print(len(profile.rows))")
    assert shown(page, "row") == rows
    run_in_kernel(page, "table.show_profile(profile, progress_of(profile), limit_percent={row: 40.0 + row for row in range(20)})")
    page.locator('.wb-table .ag-header-cell[col-id="limit_percent"]').wait_for()
    assert shown(page, "row") == rows
    assert page.get_by_label("Search all columns").input_value() == "dense"


def test_names_that_are_markup_show_as_text(open_table: Open) -> None:
    page = open_table(8, ", hostile=True, broken=True")
    assert "<img src=x onerror=" in cell(page, 0, "node_name").inner_text()
    box(page, 0).click()
    page.locator(".wb-table [role=status]", has_text="Ticked").wait_for()
    assert "<img src=x" in cell(page, 0, "origins").inner_text()
    page.get_by_role("button", name="Columns").click()
    assert page.locator(".wb-part img").count() == 0
    assert page.evaluate("() => document.body.dataset.hacked") is None
    assert "NaN 12" in (page.locator('.wb-table [row-id="1"] [col-id="remarks"]').text_content() or "")


def test_without_times_the_table_says_why_and_ticks_by_operations(open_table: Open) -> None:
    page = open_table(20, ", measured=False")
    assert "not measured: no CUDA device is here" in page.locator(".wb-heading").inner_text()
    page.get_by_role("button", name="Tick until").click()
    page.locator(".wb-ticked", has_text="% of the FLOP").wait_for()


def test_a_widget_that_is_shown_again_and_one_that_is_removed_leave_nothing_behind(open_table: Open) -> None:
    page = open_table()
    run_in_kernel(page, "table.ticked = [0]")
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.locator(".wb-table .ag-row").first.wait_for()
    assert page.locator(".wb-part").count() == 1
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    page.wait_for_function("() => document.querySelectorAll('.wb-part, .ag-root').length === 0")


def test_the_theme_follows_the_page(open_table: Open) -> None:
    page = open_table(theme="dark")
    part = page.locator(".wb-table")
    assert part.get_attribute("data-wb-theme") == "dark"
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")
    page.locator('.wb-table[data-wb-theme="light"]').wait_for()
    run_in_kernel(page, "table.theme = 'dark'")
    page.locator('.wb-table[data-wb-theme="dark"]').wait_for()
