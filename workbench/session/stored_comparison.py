"""What applying gave last, as a document of the store; decides whether it is about the profile that the session holds now."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.escaping import plain
from workbench.records.comparison import Comparison
from workbench.records.decode import DecodeError
from workbench.store import Store

COMPARISON = "comparison"
"""Name of the document."""

OUTDATED = "The model was profiled again since it was applied, so that the comparison of then is not shown. Apply again."


@dataclass(frozen=True)
class StoredComparison:
    """What a session says of the model that was applied last.

    Attributes:
        comparison: The comparison; None if nothing was applied to the profile that the session holds.
        why_none: Why one that is there is not shown, in a sentence; empty if there is none.
        is_damaged: True if it cannot be read.
    """

    comparison: Comparison | None = None
    why_none: str = ""
    is_damaged: bool = False


NO_COMPARISON = StoredComparison()
"""Nothing was applied yet."""


def stored_comparison(store: Store) -> StoredComparison:
    """The last comparison, if it is about the stored profile: kernels of another one may have the same names and be others."""
    found = store.document(COMPARISON)
    if found is None:
        return NO_COMPARISON
    try:
        comparison = Comparison.from_dict(found)
    except DecodeError as error:
        why = f"The comparison in the session is damaged: {plain(str(error), 200)}. Apply again."
        return StoredComparison(why_none=why, is_damaged=True)
    if comparison.profile_id != store.manifest().get("profile_id"):
        return StoredComparison(why_none=OUTDATED)
    return StoredComparison(comparison)
