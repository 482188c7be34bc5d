"""What makes views of recorded schedules without holding up the one who asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from workbench.records.view import ViewText


@dataclass(frozen=True)
class ViewQuestion:
    """Views that are wanted of a kernel with a recorded schedule.

    Attributes:
        kernel: Name of the kernel.
        trace: The schedule in TVM's own form; empty for the baseline.
        views: Which, of `workbench.records.view.VIEWS`.
        expected: Fingerprint of the scheduled module, as its trial has it; empty takes what comes out.
    """

    kernel: str
    trace: str
    views: tuple[str, ...]
    expected: str = ""


class Viewer(Protocol):
    """Makes views in a process of its own, which may crash or hang; to be used from one thread.

    One question at a time. A view that cannot be made says why in its record: a damaged trace, a view that the target does not have, a crash of
    code generation, or a time-out are answers, not errors.
    """

    def begin(self, question: ViewQuestion) -> None:
        """Begin with a question.

        Raises:
            EnvironmentFault: The process cannot be started.
            RuntimeError: Another question is not answered yet.
        """
        ...

    def poll(self) -> tuple[ViewText, ...] | None:
        """The answer, in the order of the question's views; None while it is being made. Does not wait."""
        ...

    def stop(self) -> None:
        """Give up the question at hand, if there is one; the process is killed."""
        ...

    def close(self) -> None:
        """End the process; more than once does no harm."""
        ...
