"""Process entry in a Jupyter kernel: a front has it call `serve`, which turns the kernel into the worker of a session until nobody wants it."""

from __future__ import annotations

import base64
import contextlib
import faulthandler
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from workbench.errors import EnvironmentFault
from workbench.escaping import plain
from workbench.records.decode import decode
from workbench.session import SessionDirectory
from workbench.version import __version__
from workbench.worker.presence import LEASE_S, LeasedFronts
from workbench.worker.serving import serve_session


@dataclass(frozen=True)
class Hosting:
    """What a front tells the kernel.

    Attributes:
        session: The session directory.
        first: The command that the worker was started for.
        trust: True if the front's user allowed the model's own code to run.
        function: A pickled TE function of the front's process, in base64; empty if there is none.
        version: Version of the front's workbench: another one may understand commands differently.
        lease_s: How long a search goes on after the last front has gone.
        python: The old Python that the relay engine runs TVM in; empty if there is none.
    """

    session: str
    first: int
    trust: bool
    function: str
    version: str
    lease_s: float = LEASE_S
    python: str = ""

    def code(self) -> str:
        """Python that has a kernel serve the session; nothing that lies in the current folder by chance is imported."""
        settings = json.dumps(asdict(self))
        return f"import sys\nsys.path[:] = [entry for entry in sys.path if entry]\nfrom workbench.worker.hosted import serve\nserve({settings!r})\n"


def serve(settings: str) -> None:
    """Serve a session, then end the process; does not return.

    Args:
        settings: A `Hosting` as JSON.

    Raises:
        EnvironmentFault: The workbench of this kernel is of another version.
    """
    hosting = decode(Hosting, json.loads(settings))
    if hosting.version != __version__:
        raise EnvironmentFault(
            f"The kernel has workbench {__version__}, and the notebook has {plain(hosting.version)}.",
            "Install the same version in both, or choose another kernel.",
        )
    _print_into_the_log(SessionDirectory(Path(hosting.session)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for whoever types; a search is stopped through the store
    code = serve_session(
        Path(hosting.session),
        first=hosting.first,
        trust=hosting.trust,
        function=lambda: base64.b64decode(hosting.function),
        presence=lambda directory: _fronts(directory, hosting),
        warm=True,
        python=hosting.python,
    )
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _fronts(directory: SessionDirectory, hosting: Hosting) -> LeasedFronts:
    """Who attends the session; a front that leaves in order says so by SIGTERM."""
    fronts = LeasedFronts(directory, lease_s=hosting.lease_s)
    signal.signal(signal.SIGTERM, lambda _number, _frame: fronts.dismiss())
    return fronts


def _print_into_the_log(directory: SessionDirectory) -> None:
    """Send what this process and TVM print into the session's log: nobody reads the kernel's messages, and a crash leaves its last words there."""
    with directory.open_log() as log:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    sys.stderr = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    faulthandler.enable(sys.stderr)
