"""The graph in a real page: until a large one is shown, frames while it is moved, search, selection, expansion.

``python benchmarks/ui_graph.py [ROUNDS]`` writes ``results/ui_graph.json``. Chromium without a GPU, JupyterLab and its kernel on the same machine.
``shown`` is from running the cell that displays the widget until the graph is painted; ``pan`` is frames a second while the pointer
drags, with all of the graph in sight (``all``) and where names can be read (``near``).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import spread, write

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.lab import Server, chromium_browser, jupyter_server, open_in_lab  # noqa: E402 - the tests' own server and browser

MODELS = {
    "3,000 boxes": "tangle(6000)",
    "10,000 boxes": "tangle(20000)",
    "a transformer of 3,000 operators": "transformer(74, heads=5)",
    "5,000 kernels": "tangle(10000)",
}
CELLS = (
    "from tests.graph_samples import tangle, transformer\nfrom workbench.notebook import GraphView\nimport time",
    (
        "graph, profile = {model}\nstarted = time.perf_counter()\n"
        "view = GraphView(graph, profile, shown='{shown}')\nprint(time.perf_counter() - started)"
    ),
)
SHOW = """async () => {
    const kernel = window.jupyterapp.shell.currentWidget.content;
    kernel.activeCellIndex = kernel.widgets.length - 1;
    const started = performance.now();
    window.jupyterapp.commands.execute('notebook:run-cell');
    const painted = () => / boxes/.test(document.querySelector('.wb-graph .wb-bottom')?.textContent ?? '');
    while (!painted()) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now() - started;
}"""
PAN = """async ({fit}) => {
    const canvas = document.querySelector('.wb-graph-canvas');
    const host = document.querySelector('.wb-graph-window');
    host.focus();
    if (fit) host.dispatchEvent(new KeyboardEvent('keydown', {key: '0', bubbles: true}));
    await new Promise(requestAnimationFrame);
    const box = canvas.getBoundingClientRect();
    const at = (kind, x, y) =>
        canvas.dispatchEvent(new PointerEvent(kind, {clientX: box.x + x, clientY: box.y + y, pointerId: 1, bubbles: true, buttons: 1}));
    canvas.setPointerCapture = () => {};
    at('pointerdown', 300, 200);
    const times = [];
    let before = performance.now();
    for (let frame = 0; frame < 60; frame++) {
        at('pointermove', 300 - 2 * (frame % 30), 200 - 4 * (frame % 30));
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        times.push(now - before);
        before = now;
    }
    at('pointerup', 300, 200);
    return times;
}"""
SEARCH = """async (pattern) => {
    const input = document.querySelector('.wb-graph-search');
    const found = document.querySelector('.wb-graph-found');
    const started = performance.now();
    input.value = pattern;
    input.dispatchEvent(new Event('input'));
    while (!/match/.test(found.textContent)) await new Promise(requestAnimationFrame);
    const taken = performance.now() - started;
    input.value = '';
    input.dispatchEvent(new Event('input'));
    return taken;
}"""
KEY = """async (key) => {
    const host = document.querySelector('.wb-graph-window');
    const started = performance.now();
    host.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    await new Promise(requestAnimationFrame);
    return performance.now() - started;
}"""


def main() -> None:
    """Measure each graph in pages of its own, by turns."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in MODELS}
    with tempfile.TemporaryDirectory() as folder, jupyter_server(Path(folder)) as server, chromium_browser() as browser:
        for _ in range(rounds):
            for name, model in MODELS.items():
                figures[name].append(measure(browser, server, model, "kernels" if "kernels" in name else "operators"))
                sys.stderr.write(f"{name}: {figures[name][-1]}\n")
    table = {name: {key: spread([one[key] for one in many]) for key in many[0]} for name, many in figures.items()}
    write("ui_graph", table, "python benchmarks/ui_graph.py")


def measure(browser: Any, server: Server, model: str, shown: str) -> dict[str, float]:
    """All figures of one graph, in milliseconds and frames a second."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    name = server.write([CELLS[0], CELLS[1].format(model=model, shown=shown), "view"])
    open_in_lab(page, server, name)
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:move-cursor-up')")
    for index in range(2):
        page.evaluate("async (index) => { const book = window.jupyterapp.shell.currentWidget.content; book.activeCellIndex = index; }", index)
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell')")
    made_s = float(page.locator(".jp-OutputArea-output").first.inner_text())
    figures = {"made_ms": 1e3 * made_s, "shown_ms": page.evaluate(SHOW)}
    figures["pan_near_fps"] = 1e3 / statistics.median(page.evaluate(PAN, {"fit": False}))
    figures["pan_all_fps"] = 1e3 / statistics.median(page.evaluate(PAN, {"fit": True}))
    figures["search_ms"] = page.evaluate(SEARCH, "node_1.*7$|layer.1/")
    figures["select_ms"] = page.evaluate(KEY, "End")
    context.close()
    server.shut_down_kernels()
    return figures


if __name__ == "__main__":
    main()
