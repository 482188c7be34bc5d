"""The table's Python side: what it sends to a view, and what ticks, focus and progress mean."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.notebook_samples import HOSTILE, profile_of, progress_of
from workbench.errors import SelectionError
from workbench.notebook import ProfileTable
from workbench.notebook.table.snapshot import snapshot
from workbench.records.profile import DEBUG_RUNTIME_COLUMNS


class Seen(list[dict[str, Any]]):
    """The messages that a widget sends to its views, from now on."""

    def __init__(self, widget: Any) -> None:
        super().__init__()
        widget.send = lambda content, buffers=None: self.append(json.loads(json.dumps(content, allow_nan=False)))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self if message["kind"] == kind]


@pytest.fixture
def table() -> ProfileTable:
    return ProfileTable(profile_of(20))


def test_a_view_that_opens_gets_every_row_and_the_debug_runtimes_columns(table: ProfileTable) -> None:
    seen = Seen(table)
    table.receive("ready", {}, ())
    (message,) = seen.of("snapshot")
    assert message["columns"]["row"] == list(range(21))
    assert set(DEBUG_RUNTIME_COLUMNS) <= set(message["columns"])
    assert {len(column) for column in message["columns"].values()} == {21}
    assert message["columns"]["node_name"][-1] == "runtime"


def test_a_row_stands_for_its_task(table: ProfileTable) -> None:
    table.ticked = [0]
    assert table.ticked == [0, 7, 14]
    assert table.selection is not None
    assert [item.task for item in table.selection.tasks] == [table.profile.tasks[0].task]


def test_rows_that_cannot_be_tuned_or_do_not_exist_stay_unticked(table: ProfileTable) -> None:
    table.ticked = [6, 20, 99, -1]
    assert table.ticked == []
    assert table.selection is None


def test_the_focus_is_a_row_or_none(table: ProfileTable) -> None:
    table.focus = 20
    assert table.focus == 20
    table.focus = 99
    assert table.focus is None


def test_ticking_a_share_ticks_the_hottest_tasks_and_says_which_rule_it_was(table: ProfileTable) -> None:
    seen = Seen(table)
    table.receive("tick_share", {"share": 0.5}, ())
    assert 0 in table.ticked
    assert sum(table.profile.rows[row].time_percent or 0 for row in table.ticked) >= 50
    assert "share 0.5" in seen.of("say")[0]["text"]


@pytest.mark.parametrize("share", [None, "0.8", True, float("nan"), 0, 1.01])
def test_a_share_that_is_none_is_refused_in_the_widget(table: ProfileTable, share: object) -> None:
    with pytest.raises(SelectionError):
        table.receive("tick_share", {"share": share}, ())
    seen = Seen(table)
    table.take_message({"kind": "tick_share", "share": share})
    assert "share" in seen.of("error")[0]["message"]
    assert table.ticked == []


def test_only_tasks_whose_state_changed_are_sent(table: ProfileTable) -> None:
    progress = progress_of(table.profile)
    seen = Seen(table)
    table.update_progress(progress)
    table.update_progress(progress)
    table.update_progress([replace(progress[2], trials=13, best_us=300.0)])
    assert [[state["place"] for state in message["states"]] for message in seen.of("progress")] == [[0, 1, 2], [2]]


def test_the_gain_is_that_of_the_last_measurement_and_a_kernel_that_stays_gains_nothing(table: ProfileTable) -> None:
    seen = Seen(table)
    table.update_progress(progress_of(table.profile))
    faster, same, running = seen.of("progress")[0]["states"]
    assert faster["state"] == "faster"
    assert faster["gain"] == pytest.approx(1200 / 700)
    assert (same["state"], same["gain"]) == ("not faster", 1.0)
    assert (running["state"], running["best_us"]) == ("searching", 310.0)


def test_progress_of_tasks_that_the_profile_does_not_have_is_left_out(table: ProfileTable) -> None:
    seen = Seen(table)
    table.update_progress([replace(progress_of(table.profile)[0], task="another")])
    assert not seen


def test_a_view_that_opens_later_gets_the_progress_so_far(table: ProfileTable) -> None:
    table.update_progress(progress_of(table.profile))
    seen = Seen(table)
    table.receive("ready", {}, ())
    assert [state["state"] for state in seen[0]["states"][:3]] == ["faster", "not faster", "searching"]


def test_another_profile_keeps_the_ticks_that_it_has(table: ProfileTable) -> None:
    table.ticked = [0, 1]
    table.focus = 20
    seen = Seen(table)
    table.show_profile(profile_of(8))
    assert table.ticked == [0, 1, 7]
    assert table.focus is None
    assert len(seen.of("snapshot")) == 1


def test_without_a_device_there_are_no_times_and_the_reason_is_said() -> None:
    message = snapshot(profile_of(5, measured=False), {})
    assert set(message["columns"]["time_us"]) == {None}
    assert message["header"]["unmeasured"] == "no CUDA device is here"


def test_names_are_sent_as_text_without_invisible_characters() -> None:
    profile = profile_of(2, hostile=True)
    row = replace(profile.rows[0], node_name="a\u202eb\x1b[31m\nc")
    message = snapshot(replace(profile, rows=(row, *profile.rows[1:])), {0: 42.5})
    assert message["columns"]["node_name"][0] == "a\\u202eb\\x1b[31m\\nc"
    assert HOSTILE in message["columns"]["node_name"][1]
    assert message["columns"]["limit_percent"] == [42.5, None, None]


def test_what_is_no_number_is_sent_as_unknown() -> None:
    profile = profile_of(2)
    rows = (replace(profile.rows[0], time_us=float("nan"), gflops=float("inf")), *profile.rows[1:])
    message = json.loads(json.dumps(snapshot(replace(profile, rows=rows), {1: float("inf")}), allow_nan=False))
    assert message["columns"]["time_us"][0] is message["columns"]["gflops"][0] is message["columns"]["limit_percent"][1] is None


def test_a_message_that_no_view_sends_is_ignored(table: ProfileTable) -> None:
    seen = Seen(table)
    for content in ({}, {"kind": 3}, {"kind": "unknown"}, [], "ready"):
        table.take_message(content)
    assert not seen


def test_the_table_takes_the_whole_width(table: ProfileTable) -> None:
    assert table.layout.width == "100%"


def test_times_that_are_noise_are_said_to_be_such() -> None:
    profile = replace(profile_of(3), resolution_us=1e6)
    assert any("shorter than what timing one call can tell apart" in note for note in snapshot(profile, {})["header"]["notes"])
