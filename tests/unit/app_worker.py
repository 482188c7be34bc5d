"""A stand-in for the worker of a session, for tests of the app: a thread that holds the lock and answers through the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Self

from workbench.records.command import Command
from workbench.records.trial import OK, Trial
from workbench.records.tuning import FASTER, Final, TaskProgress
from workbench.session import SessionDirectory
from workbench.store import Store
from workbench.worker import READY

HANG_S = 60


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class StandIn:
    """Serves a session: answers everything at once but a search, which goes on until it is stopped or told to end."""

    def __init__(self, directory: SessionDirectory) -> None:
        self.directory = directory
        self.taken: list[Command] = []
        self.answers = threading.Event()
        self.answers.set()
        self._end = threading.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(HANG_S)
        return self

    def __exit__(self, *exception: object) -> None:
        self.die()

    def die(self) -> None:
        """End in the middle of whatever it does."""
        self._end.set()
        self._thread.join(HANG_S)
        assert not self._thread.is_alive()

    def kinds(self) -> list[str]:
        return [command.kind for command in self.taken]

    def asked(self, kind: str) -> Command:
        """The newest command of a kind that it took; others, like a warm-up, may have come after it."""
        return next(command for command in reversed(self.taken) if command.kind == kind)

    def finish_search(self, *, final: bool = True) -> None:
        with self.directory.store() as store:
            found = store.last_command("tune")
            assert found is not None
            for task in store.trials.progress() if final else ():
                store.trials.set_progress(replace(task, state="finished", final=Final(1, 100.0, 1.0, 50.0, 1.0, 1, 11, FASTER, "twice as fast")))
            store.finish_command(found.command, result={"trials": 2, "seconds": 1.0, "stopped_because": "enough", "tasks": []})

    def measure(self, task: str, name: str, number: int, time_us: float) -> None:
        with self.directory.store() as store:
            trial = Trial(task, number, OK, "", "f00d", "search", "here", (time_us,), 1, 0.0, 0.1, 0.1, None, time_us, 1.0)
            store.trials.add(trial, "[]", TaskProgress(task, name, 1, state="searching", trials=number + 1, best=number, best_us=time_us))

    def _serve(self) -> None:
        with self.directory.lock() as mine, self.directory.store() as store:
            assert mine
            store.set_worker(1, READY)
            self._started.set()
            while not self._end.is_set():
                command = store.take_command() if self.answers.is_set() else None
                if command is None:
                    self._end_cancelled(store)
                    time.sleep(0.002)
                    continue
                self.taken.append(command)
                if command.kind != "tune":
                    store.finish_command(command.command, result={})

    @staticmethod
    def _end_cancelled(store: Store) -> None:
        for number in store.open_commands():
            if store.command(number).cancelled:
                store.finish_command(number, cancelled=True)
