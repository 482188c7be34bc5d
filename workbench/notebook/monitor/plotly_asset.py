"""plotly.js as the plotly wheel brings it, compressed once a process; a page asks for it once, whatever number of monitors it shows."""

from __future__ import annotations

import functools
import gzip
import importlib.util
from pathlib import Path

from workbench.errors import EnvironmentFault

_REMEDY = "Install the extra: pip install 'tvm-workbench[notebook]'."
_LEVEL = 6


@functools.cache
def plotly_gzip() -> bytes:
    """plotly.js, compressed with gzip.

    Raises:
        EnvironmentFault: plotly is not installed, or its wheel holds no plotly.js.
    """
    found = importlib.util.find_spec("plotly")  # not imported: nothing of it runs here
    if found is None or found.origin is None:
        raise EnvironmentFault("The charts need plotly, which is not installed.", _REMEDY)
    path = Path(found.origin).parent / "package_data" / "plotly.min.js"
    try:
        return gzip.compress(path.read_bytes(), _LEVEL, mtime=0)
    except OSError as error:
        raise EnvironmentFault(f"plotly's own script cannot be read: {error.strerror}.", _REMEDY) from error
