"""The limits of the session's device, as a document of the store."""

from __future__ import annotations

from workbench.records.decode import DecodeError
from workbench.records.peaks import Peaks
from workbench.store import Store

PEAKS = "peaks"
"""Name of the document."""


def stored_peaks(store: Store) -> Peaks | None:
    """What the session's device can do at most; None if that is not known, or damaged."""
    stored = store.document(PEAKS)
    try:
        return None if stored is None else Peaks.from_dict(stored)
    except DecodeError:
        return None
