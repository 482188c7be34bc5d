"""How long the profile's table takes in the browser: ``python benchmarks/ui_table.py`` from the checkout.

Figures are milliseconds in the page, from the command until the browser has drawn the answer: the cell that shows 5,000 rows, a sort, a search,
and the box that ticks them all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import spread, write

from tests.browser.lab import Guard, chromium_browser, jupyter_server, open_in_lab

ROWS = 5_000
ROUNDS = 5
MAKE = f"""
from tests.notebook_samples import profile_of, progress_of
from workbench.notebook import ProfileTable
profile = profile_of({ROWS}, kernels=400)
"""
SHOW = "ProfileTable(profile, progress_of(profile))"

DRAWN = """
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const until = async (done) => {
        const end = performance.now() + 30_000;
        while (!done()) { if (performance.now() > end) throw new Error(String(done)); await frame(); }
        await frame();
    };
    const first = () => document.querySelector('.wb-table .ag-row[row-index="0"] [col-id="node_name"]')?.textContent;
"""
SHOWN = f"""async () => {{ {DRAWN}
    const panel = jupyterapp.shell.currentWidget;
    panel.content.activeCellIndex = 1;
    const start = performance.now();
    jupyterapp.commands.execute("notebook:run-cell");
    await until(first);
    return performance.now() - start;
}}"""
SORTED = f"""async () => {{ {DRAWN}
    const heading = document.querySelector('.wb-table .ag-header-cell[col-id="node_name"]');
    heading.querySelector(".ag-header-cell-label").click();
    await until(() => heading.ariaSort === "ascending");
    const before = first();
    const start = performance.now();
    heading.querySelector(".ag-header-cell-label").click();
    await until(() => first() !== before);
    return performance.now() - start;
}}"""
SEARCHED = f"""async () => {{ {DRAWN}
    const search = document.querySelector(".wb-table .wb-search");
    const start = performance.now();
    search.value = "max_pool2d3";
    search.dispatchEvent(new Event("input"));
    await until(() => first()?.includes("max_pool2d3"));
    return performance.now() - start;
}}"""
TICKED = f"""async () => {{ {DRAWN}
    const start = performance.now();
    document.querySelector(".wb-table .ag-header-select-all input").click();
    await until(() => /tasks\\) ticked/.test(document.querySelector(".wb-ticked").textContent));
    return performance.now() - start;
}}"""
STEPS = {
    f"{ROWS:,} rows, from the cell to the first rows": (SHOWN, 1500),
    f"{ROWS:,} rows sorted by name": (SORTED, 200),
    f"{ROWS:,} rows ticked": (TICKED, None),
    f"{ROWS:,} rows searched in all columns": (SEARCHED, None),
}


def main() -> None:
    """Measure in fresh pages and kernels, and write the medians."""
    times: dict[str, list[float]] = {name: [] for name in STEPS}
    with tempfile.TemporaryDirectory() as home, jupyter_server(Path(home)) as server, chromium_browser() as browser:
        for _ in range(ROUNDS):
            guard, page = Guard(), browser.new_page(viewport={"width": 1400, "height": 900})
            guard.watch(page)
            open_in_lab(page, server, server.write([MAKE, SHOW]))
            page.evaluate("() => { const panel = jupyterapp.shell.currentWidget; panel.content.activeCellIndex = 0; }")
            page.evaluate("() => jupyterapp.commands.execute('notebook:run-cell')")
            measure(page.evaluate, times)
            page.close()
            server.shut_down_kernels()
            if guard.outside or guard.errors:
                raise RuntimeError(f"{guard.outside} {guard.errors}")
    lines = [{"what": name, "ms": spread(times[name]), "promised_ms": promised} for name, (_, promised) in STEPS.items()]
    write("ui_table", {"lines": lines}, "python benchmarks/ui_table.py")


def measure(evaluate: Callable[[str], Any], times: dict[str, list[float]]) -> None:
    """One round: each step once, in order."""
    for name, (step, _) in STEPS.items():
        times[name].append(float(evaluate(step)))


if __name__ == "__main__":
    main()
