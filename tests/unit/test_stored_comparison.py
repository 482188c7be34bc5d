"""A comparison is about one profile: where the session holds another one, nobody shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import workbench
from tests.unit.test_apply_cli import COMPARISON
from workbench.errors import SessionError
from workbench.notebook.app import state
from workbench.notebook.app.exports import export
from workbench.notebook.app.session_view import SessionView, read_view
from workbench.notebook.app.standing import LocalWork, app_state
from workbench.session import COMPARISON as DOCUMENT
from workbench.session import SessionDirectory, stored_comparison


@pytest.fixture
def applied(session: SessionDirectory) -> SessionDirectory:
    """A session whose model was applied to the profile that it holds."""
    with session.store() as store:
        store.write_document(DOCUMENT, COMPARISON.to_dict())
    return session


@pytest.fixture
def opened(applied: SessionDirectory) -> Iterator[workbench.Session]:
    with workbench.open(applied.path) as session:
        yield session


def profile_again(directory: SessionDirectory) -> None:
    with directory.store() as store:
        store.update_manifest({"profile_id": "2"})


def look(directory: SessionDirectory, before: SessionView | None = None) -> SessionView:
    with directory.store() as store:
        return read_view(directory, store, before)


def next_step(view: SessionView) -> str:
    return app_state(view, LocalWork(), ()).next_step


def test_a_comparison_of_the_stored_profile_is_shown(applied: SessionDirectory, opened: workbench.Session) -> None:
    with applied.store() as store:
        assert stored_comparison(store).comparison == COMPARISON
    assert opened.comparison is not None
    assert opened.comparison.record == COMPARISON
    view = look(applied)
    assert view.comparison_id == "1000000000.0 of 1"
    assert view.applied.why_none == ""
    assert export(opened, "comparison").name == "net-comparison.json"


def test_a_comparison_of_an_older_profile_is_shown_nowhere_and_said_so(applied: SessionDirectory, opened: workbench.Session) -> None:
    before = look(applied)
    profile_again(applied)
    with applied.store() as store:
        found = stored_comparison(store)
    assert found.comparison is None
    assert "profiled again" in found.why_none
    assert opened.comparison is None
    view = look(applied, before)  # though no command has ended since
    assert view.comparison_id == ""
    assert "profiled again" in next_step(view)
    assert "below" not in app_state(view, LocalWork(), ()).next_step
    with pytest.raises(SessionError, match="profiled again"):
        export(opened, "comparison")


@pytest.mark.parametrize("phase", [state.TUNED, state.APPLIED])
def test_the_app_does_not_send_its_user_to_a_comparison_that_is_not_there(phase: str) -> None:
    shown = state.AppState(phase=phase)
    outdated = replace(shown, why_no_comparison="It is outdated.")
    assert outdated.next_step.startswith("It is outdated. ")
    assert "below" not in outdated.next_step


@pytest.mark.parametrize("damage", [{"applied": "yes"}, {"kernels": None}])
def test_a_damaged_comparison_is_an_error_of_its_own_and_hides_nothing_else(
    applied: SessionDirectory, opened: workbench.Session, damage: dict[str, Any]
) -> None:
    with applied.store() as store:
        store.write_document(DOCUMENT, {**COMPARISON.to_dict(), **damage})
    with pytest.raises(SessionError, match="is damaged"):
        _ = opened.comparison
    view = look(applied)
    assert view.profile is not None
    assert view.comparison_id == ""
    assert "is damaged" in next_step(view)
