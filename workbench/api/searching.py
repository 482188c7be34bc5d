"""What goes on in a session, whichever front began it: begins searches, finds the one that runs, and ends what has no answer yet."""

from __future__ import annotations

from dataclasses import replace

from workbench.api.library import library_databases
from workbench.api.search import Search
from workbench.kernel import Pending, WorkerProcess
from workbench.library import Library
from workbench.records.command import FINAL_STATES, RUNNING
from workbench.records.tuning import TuneRequest
from workbench.session import SessionDirectory
from workbench.worker import SEARCH


class Searches:
    """What a front has begun, or finds going on, in one session.

    Args:
        directory: The session.
        worker: Its worker.
    """

    def __init__(self, directory: SessionDirectory, worker: WorkerProcess) -> None:
        self._directory = directory
        self._worker = worker

    def begin(self, request: TuneRequest, *, library: bool) -> Search:
        """Have the worker search; `library` has it try what the record library knows of the same kernels."""
        if library:
            places = library_databases(self._directory, Library(), {item.task for item in request.tasks})
            request = replace(request, transfer=(*request.transfer, *map(str, places)))
        return Search(self._directory, self._worker, request, self._worker.begin(SEARCH, request.to_dict()))

    def running(self) -> Search | None:
        """The search that runs; None if there is none."""
        if not self._directory.is_served():
            return None
        with self._directory.store() as store:
            command = store.last_command(SEARCH)
            last_event = store.last_event()
        if command is None or command.state in FINAL_STATES:
            return None
        asked = {name: value for name, value in command.arguments.items() if name != "expects_trust"}
        pending = Pending(command.kind, command.arguments, number=command.command, last_event=last_event)
        return Search(self._directory, self._worker, TuneRequest.from_dict(asked), pending)

    def cancel(self, *kinds: str) -> bool:
        """End the newest command of some kinds, or what the worker is at; see `workbench.api.Session.cancel_running`."""
        with self._directory.store() as store:
            found = [store.command(number) for number in store.open_commands()]
        wanted = [command for command in found if (command.kind in kinds if kinds else command.state == RUNNING)]
        if not wanted:
            return False
        self._worker.cancel(Pending(wanted[-1].kind, wanted[-1].arguments, number=wanted[-1].command))
        return True
