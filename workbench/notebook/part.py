"""What all parts of the notebook have in common: bundled assets, theme, messages, and errors that are shown in the widget."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import anywidget
import ipywidgets
import traitlets

from workbench.errors import EnvironmentFault, WorkbenchError

Theme = Literal["auto", "light", "dark"]

_STATIC = Path(__file__).parent / "static"
_LOG = logging.getLogger(__name__)


def bundled(name: str) -> Path:
    """The path of a bundle in ``static``, e.g. ``table.js``.

    Raises:
        EnvironmentFault: The bundles were not built; only a source checkout can lack them.
    """
    path = _STATIC / name
    if not path.is_file():
        raise EnvironmentFault(f"The widgets' bundle {name} was not built.", "Run `make venv` in the checkout, or install a wheel.")
    return path


class Part(anywidget.AnyWidget):
    """One part of the workbench in a notebook; takes the whole width.

    A view that opens sends ``ready`` and gets a snapshot: nothing that was sent before it existed is needed. Messages are objects with a
    ``kind``. Callbacks come on whatever thread the kernel uses, also while a cell runs.

    Attributes:
        theme: ``auto`` follows the page; ``light`` and ``dark`` do not.
    """

    theme: Any = traitlets.Enum(("auto", "light", "dark"), default_value="auto").tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        traits.setdefault("layout", ipywidgets.Layout(width="100%"))
        super().__init__(**traits)
        self.on_msg(lambda _widget, content, buffers: self.take_message(content, buffers))
        _answer_where_asked(self.comm)

    def receive(self, kind: str, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """What a view has to say; a part overrides it. An error that it raises is shown in the widget.

        Args:
            kind: ``ready`` when a view opened; the others are the part's own.
            content: The whole message, from the page: to be checked before it is used.
            buffers: Binary data beside it.
        """

    def post(self, kind: str, *, buffers: Sequence[bytes | memoryview] = (), **content: Any) -> None:
        """Send a message to all views; ``part.on(kind, ...)`` takes it there."""
        self.send({**content, "kind": kind}, list(buffers))

    def show_error(self, error: Exception) -> None:
        """Show an error on top of all views, with what to do about it."""
        if isinstance(error, WorkbenchError):
            self.post("error", message=error.message, remedy=error.remedy)
        else:
            self.post("error", message=f"A fault of the workbench: {type(error).__name__}: {error}", remedy="")

    def take_message(self, content: object, buffers: Sequence[memoryview] | None = None) -> None:
        """A message from a view as it came: `receive` gets it, and an error becomes one in the widget.

        A view says ``ready`` until it is welcome, so that none waits for a message that got lost.
        """
        if not isinstance(content, Mapping) or not isinstance(kind := content.get("kind"), str):
            return
        if kind == "ready":
            self.post("welcome")
        try:
            self.receive(kind, content, buffers or ())
        except WorkbenchError as error:
            self.show_error(error)
        except Exception as error:  # noqa: BLE001 - a callback has no caller: what it does not show itself, nobody sees
            _LOG.error("%s could not answer %r", type(self).__name__, kind, exc_info=error)
            self.show_error(error)


def _answer_where_asked(channel: object) -> None:
    """Have messages of a page handled over the subshell that they name.

    A comm of ipykernel 7.4 sends them to the one over which it was last used instead, which has gone with the page before: then no message of a
    page that was loaded again arrives, and its log says "Unknown subshell_id". Other versions have no such rule, and none is touched there.
    """
    if hasattr(channel, "_reply_subshell_for"):
        channel._reply_subshell_for = lambda _data, named: named  # noqa: SLF001 - there is no public way, and without it nothing arrives
