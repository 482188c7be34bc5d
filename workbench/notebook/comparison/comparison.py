"""The tuned model beside the untuned one: the whole, each kernel, and whether the results are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from workbench.notebook.comparison.snapshot import snapshot
from workbench.notebook.part import Part, bundled
from workbench.records.comparison import Comparison


class ComparisonView(Part):
    """What applying the winners gave.

    Args:
        comparison: What to show.

    Attributes:
        focus: Number of the row that is looked at; None for none. A click on a kernel makes it the first row of that kernel.
        theme: ``auto``, ``light`` or ``dark``.
    """

    _esm = bundled("comparison.js")
    _css = bundled("comparison.css")

    focus: Any = traitlets.Int(allow_none=True, default_value=None).tag(sync=True)

    def __init__(self, comparison: Comparison, **traits: Any) -> None:
        self._comparison = comparison
        super().__init__(**traits)

    def show(self, comparison: Comparison) -> None:
        """Show another one."""
        self._comparison = comparison
        self.post("snapshot", **snapshot(comparison))

    def receive(self, kind: str, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """Answer a view that opens with everything."""
        del content, buffers
        if kind == "ready":
            self.show(self._comparison)
