"""Which code the processes run that build, measure and make views; loads no TVM, so that they can load it while the worker still does."""

from __future__ import annotations

from workbench.isolation import Nursery

BUILD_ENTRY = "workbench.engines.relax.search.build_job:serve"
MEASURE_ENTRY = "workbench.engines.relax.search.measure_job:serve"
VIEW_ENTRY = "workbench.engines.relax.view_job:serve"

_PRELOADED = tuple(entry.partition(":")[0] for entry in (BUILD_ENTRY, MEASURE_ENTRY, VIEW_ENTRY))


def new_nursery(*, warm: bool = True) -> Nursery:
    """A nursery whose processes can build, measure and make views at once.

    Args:
        warm: True starts to load what they need now; False, when the first one is wanted.
    """
    nursery = Nursery(_PRELOADED)
    if warm:
        nursery.warm()
    return nursery
