"""plotly.js, compressed once a process; a page asks for it once, whatever number of monitors it shows."""

from __future__ import annotations

import functools
import gzip

from workbench.notebook.part import bundled

_LEVEL = 6


@functools.cache
def plotly_gzip() -> bytes:
    """plotly.js with what the charts need of it (its ``gl2d`` edition), compressed with gzip.

    Raises:
        EnvironmentFault: The bundles were not built; only a source checkout can lack them.
    """
    return gzip.compress(bundled("plotly.js").read_bytes(), _LEVEL, mtime=0)
