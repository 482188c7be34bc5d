"""Finds the user's old Python, which the relay engine runs TVM in: given as a program or as a Jupyter kernelspec, or by an environment variable.

It never comes from a session directory: strangers write those.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workbench.errors import EnvironmentFault, InputError
from workbench.escaping import plain

VARIABLE = "WORKBENCH_RELAY_PYTHON"
"""Environment variable that names it where nothing is given."""

_TIMEOUT_S = 120.0
_TVM_SIDE = Path(__file__).parent / "engines" / "relay"
_ASK = """
import json, sys
sys.path[0] = sys.argv[1]
from tvm_side import about, failing
try:
    print(json.dumps({"found": about.versions(None, {}, (), None)}))
except failing.Refusal as refusal:
    print(json.dumps({"failure": refusal.message, "remedy": refusal.remedy}))
"""
_INSTALL = "Install TVM 0.8 to 0.18 there: environment-relay.yml says with what."

HOW_TO = f"Name one with --python PATH|KERNELSPEC (python= in Python), or in {VARIABLE}; environment-relay.yml or `make venv-relay` makes one."


def find_old_python(given: str = "") -> str:
    """The program's path; empty if none is given or named.

    Args:
        given: A path, the name of a Jupyter kernelspec, or a name on PATH; empty takes the environment variable's. A name is never that of a file of
            the current folder, which may be a stranger's.

    Raises:
        InputError: What is given is no program and no kernelspec.
    """
    text = given.strip() or os.environ.get(VARIABLE, "").strip()
    if not text:
        return ""
    if os.sep in text:
        path = Path(text).expanduser()
        if not path.is_file() or not os.access(path, os.X_OK):
            raise InputError(f"{plain(text, 200)} is no program.", "Give the Python itself, for example /opt/tvm/bin/python.")
        return str(path.absolute())  # a virtual environment's Python is a link, and is told by its place
    program = _of_kernelspec(text) or shutil.which(text)
    if program is None:
        raise InputError(f"There is no program and no Jupyter kernelspec {plain(text)}.", "See: jupyter kernelspec list. Or give a path.")
    return str(Path(program).absolute())


@dataclass(frozen=True)
class OldPython:
    """What an old Python says of itself.

    Attributes:
        versions: Of TVM and of what it depends on; a package that cannot be imported has its error behind an exclamation mark.
        failure: Why it cannot be used, in one phrase; empty if it can.
        remedy: What to do about that.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    remedy: str = ""


def ask_versions(python: str, timeout_s: float = _TIMEOUT_S) -> OldPython:
    """Ask an old Python for its versions, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            [python, "-c", _ASK, str(_TVM_SIDE)], capture_output=True, text=True, errors="replace", env=environment, timeout=timeout_s, check=False
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        if "failure" in answer:
            return OldPython(failure=plain(str(answer["failure"]).rstrip("."), 400), remedy=plain(str(answer["remedy"]), 300))
        return OldPython({plain(str(name)): plain(str(value), 200) for name, value in answer["found"].items()})
    except subprocess.TimeoutExpired:
        return OldPython(failure=f"no answer within {timeout_s:g} s", remedy=_INSTALL)
    except OSError as error:
        return OldPython(failure=plain(str(error), 200), remedy=_INSTALL)
    except (ValueError, IndexError, AttributeError, KeyError, TypeError):
        words = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return OldPython(failure=plain(words[-1] if words else f"it ended with exit code {done.returncode}", 300), remedy=_INSTALL)


def need_old_python(python: str) -> None:
    """Refuse to go on without one.

    Raises:
        EnvironmentFault: There is none.
    """
    if not python:
        raise EnvironmentFault("The relay engine needs a Python with an old TVM, and none is named.", HOW_TO)


def _of_kernelspec(name: str) -> str | None:
    """The program that a kernelspec starts; None if there is no such kernelspec, or nothing here knows of any."""
    try:
        kernelspec = importlib.import_module("jupyter_client.kernelspec")
    except ImportError:
        return None
    try:
        argv = kernelspec.KernelSpecManager().get_kernel_spec(name).argv
    except kernelspec.NoSuchKernel:
        return None
    return shutil.which(argv[0]) if argv else None
