"""The monitor of a search: its trials live, what they mean for the model, one line a task, and the means to steer it."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import traitlets

from workbench.errors import WorkbenchError
from workbench.notebook.monitor.feed import Feed, StoreFeed
from workbench.notebook.monitor.packing import Message
from workbench.notebook.monitor.plotly_asset import plotly_gzip
from workbench.notebook.monitor.steering import Request, Steer, StoreSteering, read_request
from workbench.notebook.monitor.stream import Stream
from workbench.notebook.part import Part, bundled
from workbench.session import SessionDirectory

_LOG = logging.getLogger(__name__)
_INTERVAL_S = 0.25
_PATIENCE_S = 5.0


class TuningMonitor(Part):
    """Shows a session's search, whoever runs it; also one that has ended.

    A thread of its own reads the feed and talks to the page, so that a running cell holds nothing up and a callback never computes.
    It ends with `close`.

    Attributes:
        task: Identifier of the task whose trials the chart shows; empty for all tasks.
        focus_trial: ``[task, number]`` of the trial that was clicked last; empty before.
        ticked: Identifiers of the tasks that are searched, or that are selected while no search runs. Only Python sets it.
        steer: Does what the user asks for; None leaves the means to steer out.

    Args:
        feed: Where trials come from.
        steer: As the attribute.
        interval_s: Time between two looks at the feed.
    """

    _esm = bundled("monitor.js")
    _css = bundled("monitor.css")

    task: Any = traitlets.Unicode("").tag(sync=True)
    focus_trial: Any = traitlets.List([]).tag(sync=True)
    ticked: Any = traitlets.List([])
    can_steer: Any = traitlets.Bool(default_value=False).tag(sync=True)

    def __init__(self, feed: Feed, steer: Steer | None = None, *, interval_s: float = _INTERVAL_S, **traits: Any) -> None:
        self.steer = steer
        self._stream = Stream(feed)
        self._interval_s = interval_s
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._turn = threading.Lock()
        self._is_open = False
        self._last_error = ""
        self._thread: threading.Thread | None = None
        self._steering = ThreadPoolExecutor(1, thread_name_prefix="workbench-steer")
        super().__init__(can_steer=steer is not None, **traits)
        self._stream.task = self.task
        self.observe(self._on_task, names="task")

    @classmethod
    def of(cls, directory: SessionDirectory, **traits: Any) -> Self:
        """The monitor of a session directory, already running."""
        monitor = cls(StoreFeed(directory), StoreSteering(directory), **traits)
        monitor.start()
        return monitor

    def start(self) -> None:
        """Begin to read the feed, in a thread; a second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="workbench-monitor", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread and the widget."""
        thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE_S)
        self._steering.shutdown(wait=False, cancel_futures=True)
        super().close()

    def receive(self, kind: str, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """What the page has to say is done by the thread, in order; only what the user asks of the search may take longer."""
        del buffers
        if kind == "request":
            self._steering.submit(self._ask, read_request(content))
            return
        handlers = {"ready": self._open, "plotly": self._send_plotly, "stale": self._send_snapshot}
        if kind in handlers:
            self._inbox.put(handlers[kind])
        elif kind in ("hover", "click") and isinstance(content.get("x"), int):
            handler, x = (self._send_detail if kind == "hover" else self._focus), int(content["x"])
            self._inbox.put(lambda: handler(x))
        elif kind == "view":
            self._inbox.put(lambda: self._show_view(content.get("range")))
        self._wake.set()

    def poll(self) -> None:
        """Do once what the thread does again and again: answer the page, read the feed, tell what is new."""
        with self._turn:
            self._read()
            while not self._inbox.empty():
                self._guarded(self._inbox.get())
            if self._is_open and self._stream.standing is not None and (update := self._stream.update()) is not None:
                self._post(update)

    def _run(self) -> None:
        while self._thread is threading.current_thread():
            self._guarded(self.poll)
            self._wake.wait(self._interval_s)
            self._wake.clear()

    def _read(self) -> None:
        """Take in what is new; an error is told once, and goes when the session can be read again."""
        try:
            self._stream.read()
        except WorkbenchError as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                self.show_error(error)
            return
        self._last_error = ""
        ticked = self._stream.ticked()
        if ticked != self.ticked:
            self.ticked = ticked

    def _guarded(self, act: Callable[[], None]) -> None:
        """Do something in the thread; what goes wrong is shown in the widget, and the thread lives on."""
        try:
            act()
        except WorkbenchError as error:
            self.show_error(error)
        except Exception as error:  # noqa: BLE001 - a thread has no caller: what it does not show itself, nobody sees
            _LOG.error("The monitor failed", exc_info=error)
            self.show_error(error)

    def _ask(self, request: Request) -> None:
        """Have the search steered; says so when it is done, or why it is not."""
        if self.steer is not None:
            steer = self.steer
            self._guarded(lambda: steer(request))
        self.post("done", request=request.kind, task=request.task)
        self._wake.set()

    def _open(self) -> None:
        self._is_open = True
        self._send_snapshot()

    def _send_snapshot(self) -> None:
        if self._stream.standing is not None:  # else it was told why not, and the first snapshot comes when the session can be read
            self._post(self._stream.snapshot())

    def _send_plotly(self) -> None:
        self.post("plotly", buffers=[plotly_gzip()])

    def _send_detail(self, x: int) -> None:
        self._post(self._stream.detail(x))

    def _focus(self, x: int) -> None:
        place = self._stream.place(x)
        if place is not None:
            self.focus_trial = list(place)

    def _show_view(self, ends: Any) -> None:
        """Show a part of the axis in full, or all of it again."""
        both = isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, int | float) for end in ends)
        self._stream.view = (float(ends[0]), float(ends[1])) if both else None
        self._send_snapshot()

    def _on_task(self, change: Any) -> None:
        def show() -> None:
            self._stream.task, self._stream.view = str(change["new"]), None
            if self._is_open:
                self._send_snapshot()

        self._inbox.put(show)
        self._wake.set()

    def _post(self, message: Message) -> None:
        self.post(message.kind, buffers=message.buffers, **message.content)
