"""The graph's widget without a page: what a view gets when it opens, and what of the page's wishes is taken."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.graph_samples import network, tangle, transformer
from tests.notebook_samples import HOSTILE, progress_of
from workbench.errors import InputError
from workbench.notebook import GraphView

Sent = list[tuple[dict[str, Any], list[bytes]]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a view whose messages but for the welcome are kept, as if a page had opened it."""

    def make(*arguments: Any, **traits: Any) -> tuple[GraphView, Sent]:
        view = GraphView(*arguments, **traits)
        sent: Sent = []

        def keep(content: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
            if content["kind"] != "welcome":
                sent.append((content, list(buffers)))

        monkeypatch.setattr(view, "send", keep)
        view.take_message({"kind": "ready"})
        return view, sent

    return make


def snapshot_of(sent: Sent) -> dict[str, Any]:
    (content, (buffer,)) = sent[0]
    assert content["kind"] == "snapshot"
    data: dict[str, Any] = json.loads(buffer)
    return data


def test_a_view_that_opens_gets_both_graphs_with_rows_and_tasks(opened: Any) -> None:
    graph, profile = network()
    _, sent = opened(graph, profile)
    data = snapshot_of(sent)
    assert data["operators"]["nodes"]["op"][2:4] == ["Conv", "Relu"]
    assert len(data["operators"]["nodes"]["op"]) == len(graph.source)
    assert data["operators"]["units"]["nodes"][2] == [2, 3]
    assert data["operators"]["units"]["constant"].count(True) == 1
    assert data["kernels"]["units"]["row"] == [None, *range(12), None]
    assert data["rows"]["kernel"] == [row.kernel for row in profile.rows]
    assert [data["tasks"]["task"][place] for place in data["rows"]["task"] if place is not None] == [row.task for row in profile.kernel_rows]


def test_names_of_strangers_are_shown_as_text_on_one_line(opened: Any) -> None:
    graph, profile = network(hostile=True)
    bidi = replace(graph.source[2], attributes={"a\n\u202eb": "x" * 5000})
    graph = replace(graph, source=(*graph.source[:2], bidi, *graph.source[3:]))
    data = snapshot_of(opened(graph, profile)[1])
    assert any(HOSTILE[:30] in name for name in data["operators"]["nodes"]["name"])
    ((name, value),) = data["operators"]["nodes"]["attributes"][2].items()
    assert name == "a\\n\\u202eb"
    assert len(value) < 250


def test_layers_come_as_a_repeat_with_the_heads_inside(opened: Any) -> None:
    data = snapshot_of(opened(*transformer(12))[1])
    for name in ("operators", "kernels"):
        (layers,) = data[name]["repeats"]
        assert layers["copies"] == 12
    assert data["operators"]["repeats"][0]["inner"] == [{"start": 1, "size": 7, "copies": 4, "inner": []}]


def test_progress_goes_to_the_view_once_and_comes_with_a_snapshot(opened: Any) -> None:
    graph, profile = network()
    view, sent = opened(graph, profile)
    progress = progress_of(profile)
    view.update_progress(progress)
    view.update_progress(progress)
    view.take_message({"kind": "ready"})
    kinds = [content["kind"] for content, _ in sent]
    assert kinds == ["snapshot", "progress", "snapshot"]
    assert sent[1][0]["progress"] == sent[2][0]["progress"]
    assert {item["task"] for item in sent[1][0]["progress"]} == {item.task for item in progress}
    assert json.dumps(sent[1][0])


def test_only_tasks_that_changed_are_sent_and_a_view_that_opens_gets_them_all(opened: Any) -> None:
    graph, profile = network()
    view, sent = opened(graph, profile)
    progress = progress_of(profile)
    view.update_progress(progress)
    view.update_progress([progress[0], replace(progress[2], trials=13)])
    view.take_message({"kind": "ready"})
    assert [[item["trials"] for item in content["progress"]] for content, _ in sent[1:]] == [[64, 64, 12], [13], [64, 64, 13]]


def test_what_the_page_says_is_taken_only_where_it_is_there() -> None:
    graph, profile = network()
    view = GraphView(graph, profile, focus=3, focus_node=2, ticked=[0, 5])
    assert (view.focus, view.focus_node, view.ticked) == (3, 2, [0, 5])
    view.set_state({"focus": 99, "focus_node": -1, "ticked": [0, 99, -5]})
    assert (view.focus, view.focus_node, view.ticked) == (None, None, [0])


def test_a_graph_of_another_profile_is_refused() -> None:
    graph, _ = network(12)
    _, other = network(11)
    with pytest.raises(InputError, match="not that of the profile"):
        GraphView(graph, other)


def test_a_large_graph_stays_small_on_its_way_to_the_page(opened: Any) -> None:
    graph, profile = tangle(4000)
    _, sent = opened(graph, profile)
    assert len(sent[0][1][0]) < 400 * 4000
