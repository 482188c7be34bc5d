"""The applied model of a session: has the worker build, verify and compare it, and reads what came of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.api.answers import decoded
from workbench.api.comparison import Comparison
from workbench.api.given import whole_number
from workbench.errors import SessionError
from workbench.kernel import OnEvent
from workbench.records.comparison import Comparison as ComparisonRecord
from workbench.records.comparison import Verification
from workbench.records.request import MOST_ROUNDS
from workbench.session import SessionDirectory, stored_comparison

Run = Callable[..., dict[str, Any]]


class Applier:
    """Applies the winners of one session; its methods are those of `workbench.api.Session` of the same names.

    Args:
        directory: The session.
        run: Has the worker do something: its kind, its arguments, and ``on_event``.
    """

    def __init__(self, directory: SessionDirectory, run: Run) -> None:
        self._directory = directory
        self._run = run

    def apply(self, *, inputs: int, rounds: int | None, anew: bool, on_event: OnEvent | None) -> Comparison:
        """Build, verify and compare the model with the winners, and keep it."""
        arguments = {
            "inputs": whole_number("inputs", inputs, least=1, most=MOST_ROUNDS),
            "rounds": None if rounds is None else whole_number("rounds", rounds, least=1, most=MOST_ROUNDS),
            "anew": bool(anew),
        }
        answer = self._run("apply", arguments, on_event=on_event)
        return Comparison(decoded(ComparisonRecord.from_dict, answer, self._directory.path), self._directory.tuned)

    def comparison(self) -> Comparison | None:
        """What applying gave last."""
        with self._directory.store() as store:
            found = stored_comparison(store)
        if found.is_damaged:
            raise SessionError(found.why_none)
        return None if found.comparison is None else Comparison(found.comparison, self._directory.tuned)

    def verify(self, *, inputs: int, on_event: OnEvent | None) -> Verification:
        """Verify again what is applied."""
        answer = self._run("verify", {"inputs": whole_number("inputs", inputs, least=1, most=MOST_ROUNDS)}, on_event=on_event)
        return decoded(Verification.from_dict, answer, self._directory.path)
