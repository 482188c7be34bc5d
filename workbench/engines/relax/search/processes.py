"""Which code the processes run that build and measure; loads no TVM, so that they can load it while the worker still does."""

from __future__ import annotations

from workbench.isolation import Nursery

BUILD_ENTRY = "workbench.engines.relax.search.build_job:serve"
MEASURE_ENTRY = "workbench.engines.relax.search.measure_job:serve"


def new_nursery() -> Nursery:
    """A nursery whose processes can build and measure at once; it starts to load what they need now."""
    nursery = Nursery((BUILD_ENTRY.partition(":")[0], MEASURE_ENTRY.partition(":")[0]))
    nursery.warm()
    return nursery
