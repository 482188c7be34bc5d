"""The rows of the profile's table in a page."""

from __future__ import annotations

from typing import Any


def cell(page: Any, row: int, column: str) -> Any:
    return page.locator(f'.wb-table .ag-row[row-id="{row}"] .ag-cell[col-id="{column}"]')


def box(page: Any, row: int) -> Any:
    return page.locator(f'.wb-table .ag-row[row-id="{row}"] .ag-selection-checkbox input')


def shown(page: Any, column: str) -> list[str]:
    """What a column shows from top to bottom."""
    rows = page.locator(".wb-table .ag-row:not(.ag-row-pinned)")
    texts = rows.evaluate_all(
        """(rows, column) => rows.map((row) => [Number(row.getAttribute('row-index')), row.querySelector(`[col-id="${column}"]`)?.textContent])""",
        column,
    )
    return [text for _, text in sorted(texts)]
