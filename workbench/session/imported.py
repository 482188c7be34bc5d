"""What an imported session holds beside its profile; a session of a model that was profiled here has none of it."""

from __future__ import annotations

from workbench.records.decode import DecodeError
from workbench.records.match import MATCHES_DOCUMENT, RowMatch, RowMatches
from workbench.records.old_search import OLD_SEARCH_DOCUMENT, OldSearch
from workbench.store import Store


def stored_matches(store: Store) -> dict[int, RowMatch]:
    """How surely each row is tied to the program, by row number; empty if that is not known, or damaged."""
    stored = store.document(MATCHES_DOCUMENT)
    try:
        return {} if stored is None else RowMatches.from_dict(stored).by_row
    except DecodeError:
        return {}


def stored_old_search(store: Store) -> OldSearch:
    """What is left of an old search of the whole model; empty if nothing is, or it is damaged."""
    stored = store.document(OLD_SEARCH_DOCUMENT)
    try:
        return OldSearch() if stored is None else OldSearch.from_dict(stored)
    except DecodeError:
        return OldSearch()
