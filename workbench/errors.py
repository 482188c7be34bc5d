"""The errors a caller can act on; every message says what happened and what to do.

::

    WorkbenchError
    ├── InputError            what the user gave cannot be used            (exit code 2)
    │   ├── ModelError        a model file or workload
    │   ├── TargetError       a target
    │   ├── SelectionError    rows, tasks or rules of a selection
    │   └── SessionError      a session directory
    ├── EnvironmentFault      this machine lacks or refuses something      (exit code 3)
    │   └── WorkerDied        the worker process ended without an answer
    ├── InternalError         a fault of the workbench or of TVM itself    (exit code 3)
    └── Interrupted           stopped by the user; the state was saved     (exit code 130)
"""


class WorkbenchError(Exception):
    """Base of all errors raised by the workbench.

    Args:
        message: One sentence that says what happened.
        remedy: One sentence that says what the user can do about it.
    """

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class InputError(WorkbenchError):
    """What the user gave cannot be used."""

    exit_code = 2


class ModelError(InputError):
    """A model file or workload cannot be read, imported or lowered."""


class TargetError(InputError):
    """A target is unknown, malformed or incomplete."""


class SelectionError(InputError):
    """A selection names rows, tasks or operators that do not exist, or selects nothing."""


class SessionError(InputError):
    """A session directory is missing, damaged, or written by a newer version."""


class EnvironmentFault(WorkbenchError):
    """This machine lacks or refuses something: a package, disk space, a device, permission."""

    exit_code = 3


class WorkerDied(EnvironmentFault):
    """The worker process ended without an answer (crash of TVM, out of memory, killed)."""


class InternalError(WorkbenchError):
    """The workbench or TVM failed in a way that nobody foresaw; not the user's fault, and not an answer either."""

    exit_code = 3


class Interrupted(WorkbenchError):
    """The user stopped the work; what was finished is saved."""

    exit_code = 130
