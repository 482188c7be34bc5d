"""The app: its parts on one page, with one selection for all of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ipywidgets
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME

from workbench.api import Session
from workbench.api import open as open_session
from workbench.errors import InputError, WorkbenchError
from workbench.kernel.jupyter_kernel import JupyterKernel
from workbench.notebook.app import choices
from workbench.notebook.app.exports import export
from workbench.notebook.app.model import AppModel
from workbench.notebook.app.parts import Parts
from workbench.notebook.app.shown import shown
from workbench.notebook.app.state import AppState
from workbench.notebook.app.uploads import Upload
from workbench.notebook.shell.shell import Shell
from workbench.records.request import RELAX, RELAY
from workbench.session import latest_session

_live: weakref.WeakSet[Workbench] = weakref.WeakSet()


class Workbench(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """The whole job on one page: profile a model, tick what takes the time, tune it, apply what is faster, read what won.

    What takes long happens in a kernel of its own, the backend kernel, and in threads of this one: cells stay usable. A search goes on when
    the page is closed or this kernel restarts; a workbench that is made again finds it.

    Args:
        session: What to show: a session, or the directory of one; None takes the session of the current folder that was used last, if there
            is any.
        kernel: Name of the Jupyter kernel that TVM runs in unless another one is chosen on the page; None takes this Python's own.
        engine: What the page begins with: ``relax`` (today's TVM), or ``relay`` (TVM 0.8 to 0.18, in a Python of its own).
        python: That Python: a program, or the name of a Jupyter kernelspec; empty takes WORKBENCH_RELAY_PYTHON's.
        theme: ``auto`` follows the page; ``light`` or ``dark``.

    Attributes:
        shell: Model, target, selection and the buttons.
        parts: Table, graph, monitor, inspector and comparison.
        model: What the app does, without a page.
    """

    def __init__(
        self,
        session: Session | str | Path | None = None,
        *,
        kernel: str | None = None,
        engine: str = RELAX,
        python: str | Path = "",
        theme: str = "auto",
    ) -> None:
        engine, _ = choices.read_engine({"engine": engine})
        _, named = choices.read_engine({"engine": RELAY, "python": str(python)})  # for a session that is shown, whatever the next model gets
        self._lock = threading.RLock()
        self._upload: Upload | None = None
        self.shell = Shell(self._act, theme=theme)
        self.model = AppModel(on_state=self._draw, new_host=lambda name: JupyterKernel(name or kernel or NATIVE_KERNEL_NAME))
        self.parts = Parts(self.model, theme=theme)
        super().__init__([self.shell, self.parts.box], _dom_classes=("wb-app",), layout=ipywidgets.Layout(width="100%", overflow="visible"))
        self.shell.choices = {**_choices(), "engine": engine, "python": named or choices.named_python()}
        self.shell.view = shown(self.model.state)
        self.shell.observe(lambda change: self.parts.set_theme(change["new"]), names="theme")
        self.model.do(self._look_around)
        self._begin(session, python=named)
        _live.add(self)

    @property
    def session(self) -> Session | None:
        """The session that is open."""
        return self.model.session

    def close(self) -> None:
        """Take the app off the page; a search goes on for the time of its lease."""
        self.model.close()
        self._close_widgets()

    def _look_around(self) -> None:
        """Offer what takes a while to find."""
        self._offer(targets=choices.target_choices(), kernels=choices.kernel_choices(), pythons=choices.python_choices())

    def _offer(self, **offered: Any) -> None:
        """Offer something else to choose from, or chosen already."""
        with self._lock:
            self.shell.choices = {**self.shell.choices, **offered}

    def _begin(self, session: Session | str | Path | None, *, python: str) -> None:
        """Show a session, the one of an older app of this process included, which then is taken off its page."""
        path = session.path if isinstance(session, Session) else Path(session).absolute() if session is not None else latest_session()
        if path is None:
            return
        handed = _take_over(path.absolute())
        if isinstance(session, Session) or handed is not None:
            self.model.adopt(session if isinstance(session, Session) else handed or open_session(path))
        else:
            self.model.open(choices.Opening(str(path), is_session=True, python=python))

    def _hand_over(self) -> Session | None:
        session = self.model.release()
        self._close_widgets()
        return session

    def _close_widgets(self) -> None:
        self.parts.close()
        self.shell.close()
        super().close()

    # what the page asks for

    def _act(self, kind: str, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """Do what was clicked; all of it returns at once."""
        try:
            self._do(kind, content, buffers)
        except WorkbenchError as error:
            self.model.report(error)

    def _do(self, kind: str, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        model = self.model
        if kind in ("cancel", "pause", "resume", "stop", "apply", "dismiss"):
            getattr(model, kind)()
        elif kind == "open":
            self._open_model(choices.read_opening(content))
        elif kind == "engine":
            model.consider_engine(*choices.read_engine(content))
        elif kind == "tune":
            model.tune(per_task=content.get("per_task"), seconds=content.get("seconds"))
        elif kind == "untick":
            model.untick(_text(content, "task"))
        elif kind == "budget":
            model.set_task_budget(_text(content, "task"), trials=content.get("trials"), seconds=content.get("seconds"))
        elif kind == "import":
            model.import_selection(_text(content, "text"))
        elif kind == "export":
            model.do(lambda: self._export(content.get("what")))
        elif kind == "upload":
            self._receive_file(content, buffers)
        elif kind == "sessions":
            self._offer(sessions=choices.session_choices())

    def _open_model(self, opening: choices.Opening) -> None:
        """Open a model; a page that is loaded anew begins with the same engine."""
        self.model.open(opening)
        if opening.engine == RELAY:
            self._offer(engine=opening.engine, python=opening.python)
        else:
            self._offer(engine=opening.engine)

    def _export(self, what: object) -> None:
        session = self.model.session
        if session is not None:
            file = export(session, what)
            self.shell.offer_file(file.name, file.text, file.media_type)

    def _receive_file(self, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """Take a piece of a file that was dropped; the page sends no further one of a file that is refused."""
        try:
            self._take_piece(content, buffers)
        except WorkbenchError:
            self._upload = None
            self.shell.post("refused")
            raise

    def _take_piece(self, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        if content.get("offset") == 0:
            if self._upload is not None:
                self._upload.drop()
            self._upload = Upload(content.get("name"), content.get("size"))
        upload = self._upload
        if upload is None or not buffers:
            raise InputError("The file arrived in disorder.", "Drop it again.")
        if upload.take(buffers[0], offset=content.get("offset")):
            self._upload = None
            self.shell.post("uploaded", path=str(upload.path))
        else:
            self.shell.post("uploading", received=upload.received)

    # what is shown

    def _draw(self, state: AppState) -> None:
        self.shell.view = shown(state)
        self.parts.show(state)


def _take_over(path: Path) -> Session | None:
    """The session of an app of this process that shows the same; that app is closed."""
    for app in list(_live):
        if app.session is not None and app.session.path == path:
            _live.discard(app)
            return app._hand_over()  # noqa: SLF001 - one app to another
    return None


def _choices() -> dict[str, Any]:
    return {
        "models": choices.model_choices(),
        "sessions": choices.session_choices(),
        "targets": [],
        "layouts": list(choices.LAYOUTS),
        "engines": choices.engine_choices(),
        "pythons": [],
        "kernels": [],
    }


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        raise InputError("The page sent something that makes no sense.", "Reload the page.")
    return value
