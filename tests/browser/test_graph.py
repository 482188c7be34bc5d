"""The graph in JupyterLab, by mouse and keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import run_in_kernel, wait_for_kernel

CELL = """
from tests.graph_samples import network, tangle, transformer
from tests.notebook_samples import progress_of
from workbench.notebook import GraphView
graph, profile = {model}
view = GraphView(graph, profile{options})
view
"""
Open = Callable[..., Any]


@pytest.fixture
def open_graph(shared_notebook: Open) -> Open:
    def open_it(model: str = "network(12)", options: str = "", **page: Any) -> Any:
        made = shared_notebook([CELL.format(model=model, options=options)], **page)
        made.locator(".wb-graph").wait_for()
        made.wait_for_function("() => / boxes/.test(document.querySelector('.wb-graph .wb-bottom').textContent)")
        return made

    return open_it


def window(page: Any) -> Any:
    return page.locator(".wb-graph-window")


def details(page: Any) -> str:
    return str(page.locator(".wb-graph-details").inner_text())


def count_of_boxes(page: Any) -> int:
    found = re.search(r"in ([\d,]+) boxes", page.locator(".wb-graph .wb-bottom").inner_text())
    assert found
    return int(found[1].replace(",", ""))


@dataclass(frozen=True)
class Camera:
    """Where the graph's window looks, read off its canvas.

    Attributes:
        scale: Points of the screen for one of the drawing.
        x, y: The drawing's point in the upper left corner.
        width, height: The window's size.
    """

    scale: float
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2 / self.scale, self.y + self.height / 2 / self.scale


def camera(page: Any) -> Camera:
    return Camera(
        *page.evaluate(
            """() => {
                const canvas = document.querySelector('.wb-graph-canvas');
                const { a, e, f } = canvas.getContext('2d').getTransform();
                return [a / devicePixelRatio, -e / a, -f / a, canvas.clientWidth, canvas.clientHeight];
            }"""
        )
    )


def moved(page: Any, act: Callable[[], None]) -> Camera:
    """Where the window looks after it has been drawn anew."""
    before = camera(page)
    act()
    page.wait_for_function(
        """(before) => {
            const { a, e, f } = document.querySelector('.wb-graph-canvas').getContext('2d').getTransform();
            return [a / devicePixelRatio, -e / a, -f / a].some((value, place) => Math.abs(value - before[place]) > 1e-6);
        }""",
        arg=[before.scale, before.x, before.y],
    )
    return camera(page)


def painted(page: Any) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of what the canvas shows beside its ground, as shares of its size."""
    found = page.evaluate(
        """() => {
            const { width, height } = document.querySelector('.wb-graph-canvas');
            const { data } = document.querySelector('.wb-graph-canvas').getContext('2d').getImageData(0, 0, width, height);
            const points = new Uint32Array(data.buffer);
            let [left, top, right, bottom] = [width, height, 0, 0];
            for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
                if (points[y * width + x] === points[0]) continue;
                [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
            }
            return [left / width, top / height, right / width, bottom / height];
        }"""
    )
    left, top, right, bottom = found
    return left, top, right, bottom


def wait_until_painted(page: Any) -> None:
    """Until the canvas shows more than a few colours."""
    page.wait_for_function(
        """() => {
            const canvas = document.querySelector('.wb-graph-canvas');
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            return new Set(new Uint32Array(data.buffer)).size > 20;
        }"""
    )


def test_keys_walk_along_the_edges_and_the_row_goes_to_python(open_graph: Open) -> None:
    page = open_graph("network(12)")
    wait_until_painted(page)
    window(page).focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "/features/1/conv" in details(page)
    wait_for_kernel(page, "print(view.focus)", "1")
    page.keyboard.press("ArrowUp")
    wait_for_kernel(page, "print(view.focus, view.focus_node)", "0 None")
    page.keyboard.press("g")
    wait_for_kernel(page, "print(view.shown, view.focus)", "kernels 0")
    assert "fused_conv2d_add_relu0" in details(page)
    page.keyboard.press("Escape")
    wait_for_kernel(page, "print(view.focus)", "None")
    assert page.locator(".wb-graph-details").is_hidden()


def test_a_click_selects_a_box_and_python_selects_in_the_graph(open_graph: Open) -> None:
    page = open_graph("network(12)", ", shown='kernels', ticked=[0, 7]")
    box = window(page).bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 45)
    wait_for_kernel(page, "print(view.focus)", "None")
    run_in_kernel(page, "view.focus = 9")
    page.wait_for_function("() => /\\b9\\b/.test(document.querySelector('.wb-graph-details').innerText)")
    page.get_by_role("button", name="Conv /features/9/conv").click()
    wait_for_kernel(page, "print(view.shown, view.focus)", "operators 9")
    assert "kernel_shape" in details(page)


def test_repeated_blocks_expand_step_by_step_and_collapse_again(open_graph: Open) -> None:
    page = open_graph("transformer(12)")
    collapsed = count_of_boxes(page)
    assert collapsed < 10
    window(page).focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
        if "12 \u00d7" in details(page):
            break
    assert "12 \u00d7" in details(page)
    page.keyboard.press("Enter")
    assert count_of_boxes(page) == collapsed + 11
    assert "block 1 of 12" in details(page)
    page.keyboard.press("Enter")
    assert count_of_boxes(page) > collapsed + 11
    page.get_by_role("button", name="Collapse all of them").click()
    assert count_of_boxes(page) == collapsed


def test_a_match_inside_a_block_is_shown_by_expanding_to_it(open_graph: Open) -> None:
    page = open_graph("transformer(12)")
    page.get_by_role("searchbox").fill(r"layer\.7/Gelu")
    page.locator(".wb-graph-found", has_text="1 match").wait_for()
    page.keyboard.press("Enter")
    assert "/encoder/layer.7/Gelu" in details(page)
    page.get_by_role("button", name="Expand to it").click()
    page.wait_for_function("() => document.querySelector('.wb-graph-details').innerText.includes('Collapse the block')")
    assert "/encoder/layer.7/Gelu" in details(page)


def test_a_pattern_that_never_ends_is_ended_and_the_page_lives(open_graph: Open) -> None:
    page = open_graph("tangle(200)")
    search = page.get_by_role("searchbox")
    for pattern, answer in [
        (r"([a-z./0-9_]+)+!", "takes too long"),
        ("(", "no regular expression"),
        (r"node_(3|77)$", "2 matches"),
        ("BLOCK.12/", "6 matches"),
    ]:
        search.fill(pattern)
        page.locator(".wb-graph-found", has_text=answer).wait_for()


def test_much_at_once_is_asked_about_first(open_graph: Open) -> None:
    page = open_graph("transformer(120)")
    before = count_of_boxes(page)
    page.get_by_role("button", name="Show every copy of the repeated blocks").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel").click()
    assert count_of_boxes(page) == before
    page.get_by_role("button", name="Show every copy of the repeated blocks").click()
    page.get_by_role("alertdialog").get_by_role("button", name=re.compile("^Show")).click()
    page.wait_for_function("() => / in \\d,\\d+ boxes/.test(document.querySelector('.wb-graph .wb-bottom').textContent)")
    assert count_of_boxes(page) > 3000


def test_names_of_strangers_are_text_everywhere(open_graph: Open) -> None:
    page = open_graph("network(12, hostile=True)", ", focus=0")
    page.wait_for_function("() => document.querySelector('.wb-graph-details').innerText.includes('<img')")
    page.locator("select[aria-label='What the colours show']").select_option("task")
    assert "<img" in page.locator(".wb-graph-legend").inner_text()
    assert page.locator(".wb-graph img").count() == 0
    assert page.evaluate("() => document.body.dataset.hacked") is None


def test_png_and_svg_are_saved(open_graph: Open, tmp_path: Path) -> None:
    page = open_graph("network(12, hostile=True)", ", shown='kernels'")
    for name, beginning in (("Save a picture of the graph", b"\x89PNG"), ("Save the graph as a drawing", b"<svg xmlns=")):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=name).click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        assert path.read_bytes().startswith(beginning)
        assert re.fullmatch(r"[A-Za-z0-9._-]+", path.name)
        assert b"<img" not in path.read_bytes()


def test_the_buttons_zoom_and_fit_and_the_small_map_moves_the_view(open_graph: Open) -> None:
    page = open_graph("tangle(200)")
    wait_until_painted(page)
    small = page.locator(".wb-graph-map")
    small.wait_for()

    def press(name: str) -> Camera:
        return moved(page, page.get_by_role("button", name=name, exact=True).click)

    start = camera(page)
    closer = press("Zoom in")
    assert closer.scale == pytest.approx(1.25 * start.scale)
    assert closer.middle == pytest.approx(start.middle)
    back = press("Zoom out")
    assert (back.scale, *back.middle) == pytest.approx((start.scale, *start.middle))

    whole = press("Show all")
    left, top, right, bottom = painted(page)
    assert 0 < left < right < 1 - 1 / whole.width
    assert 0 < top < bottom < 1 - 1 / whole.height
    assert max(right - left, bottom - top) > 0.8, "and no smaller than it must be"
    assert small.is_hidden(), "what is all in sight needs no map"

    wide, high = (2 * middle for middle in whole.middle)
    for _ in range(4):
        press("Zoom in")
    small.wait_for()
    place = small.bounding_box()

    def at(across: float, down: float) -> tuple[float, float]:
        return place["x"] + 4 + across * (place["width"] - 8), place["y"] + 4 + down * (place["height"] - 8)

    def looks_at(seen: Camera, across: float, down: float) -> bool:
        x, y = seen.middle
        return abs(x / wide - across) < 3 / (place["width"] - 8) and abs(y / high - down) < 3 / (place["height"] - 8)  # points of the map

    clicked = moved(page, lambda: page.mouse.click(*at(0.5, 0.8)))
    assert looks_at(clicked, 0.5, 0.8)
    page.mouse.move(*at(0.5, 0.8))
    page.mouse.down()
    dragged = moved(page, lambda: page.mouse.move(*at(0.4, 0.2)))
    page.mouse.up()
    assert looks_at(dragged, 0.4, 0.2)
    assert dragged.scale == clicked.scale


def test_colours_follow_the_search(open_graph: Open) -> None:
    page = open_graph("network(12)", ", colors='state'")
    legend = page.locator(".wb-graph-legend")
    assert "not searched" in legend.inner_text()
    run_in_kernel(page, "view.update_progress(progress_of(profile))")
    page.wait_for_function("() => document.querySelector('.wb-graph-legend').innerText.includes('faster')")
    run_in_kernel(page, "view.colors = 'time'")
    page.wait_for_function("() => document.querySelector('.wb-graph-legend').innerText.includes(' us')")


def test_the_graph_says_what_it_is_and_how_it_is_used(open_graph: Open) -> None:
    page = open_graph("network(12)")
    spoken = page.evaluate(
        """() => {
            const element = document.querySelector('.wb-graph-window');
            const help = document.getElementById(element.getAttribute('aria-describedby'));
            return [element.getAttribute('role'), element.getAttribute('aria-label'), help.textContent, element.tabIndex];
        }"""
    )
    assert spoken[0] == "application"
    assert spoken[1].startswith("Graph of the operators of squeezenet")
    assert "Arrow keys" in spoken[2]
    assert spoken[3] == 0
    unnamed = page.locator(".wb-graph button").evaluate_all("all => all.filter((one) => !(one.getAttribute('aria-label') || one.innerText)).length")
    assert json.dumps(unnamed) == "0"
