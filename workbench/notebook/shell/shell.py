"""The app's head: model and target, worker, progress, problems, the selection and the buttons. It shows a state and tells what was clicked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import traitlets

from workbench.errors import InputError
from workbench.notebook.part import Part, bundled

OnAction = Callable[[str, Mapping[str, Any], Sequence[memoryview]], None]

ACTIONS = (
    "open",
    "engine",
    "cancel",
    "tune",
    "pause",
    "resume",
    "stop",
    "apply",
    "untick",
    "budget",
    "import",
    "export",
    "dismiss",
    "upload",
    "sessions",
)
"""What a page may ask for; each message has the arguments beside its ``kind``."""


class Shell(Part):
    """The head of the app.

    Args:
        on_action: Told what the user wants: one of `ACTIONS`, its arguments from the page, and buffers. It returns at once; what it raises is
            shown.

    Attributes:
        view: What `workbench.notebook.app.shown.shown` makes of a state.
        choices: ``models``, ``sessions``, ``targets``, ``layouts``, ``engines``, ``pythons``, ``kernels`` to choose from; ``engine`` and ``python``
            that are chosen to begin with.
    """

    _esm = bundled("shell.js")
    _css = bundled("shell.css")

    view: Any = traitlets.Dict().tag(sync=True)
    choices: Any = traitlets.Dict().tag(sync=True)

    def __init__(self, on_action: OnAction, **traits: Any) -> None:
        self._on_action = on_action
        super().__init__(**traits)

    def offer_file(self, name: str, text: str, media_type: str) -> None:
        """Have the page save a file."""
        self.post("download", name=name, text=text, media_type=media_type)

    def receive(self, kind: str, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """Take what was clicked."""
        if kind == "ready":
            return  # all that is shown are traits, which a new view has already
        if kind not in ACTIONS:
            raise InputError("The page asked for something that the app does not do.", "Reload the page.")
        self._on_action(kind, content, buffers)
