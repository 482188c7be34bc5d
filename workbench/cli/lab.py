"""``workbench lab`` and ``workbench dashboard``: the notebook in JupyterLab, and as a page of its own; on this machine alone, with a token."""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import sys
from pathlib import Path
from typing import Any, NoReturn

import workbench
from workbench.cli.arguments import port
from workbench.cli.output import note
from workbench.cli.starter import find_notebook
from workbench.errors import EnvironmentFault, InputError
from workbench.escaping import plain

_HERE = "127.0.0.1"
_LAB_PORT, _DASHBOARD_PORT = 8888, 8866
_TOKEN = "JUPYTER_TOKEN"  # noqa: S105 - the name of a variable
_CULL_AFTER_S = 1800
_CULL_LOOK_S = 60
_TEMPLATES = Path(workbench.__file__).parent / "notebook" / "voila"

_QUIET_LAB = ("--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.extension_manager=readonly")
"""Nothing is asked of the outside: no news, no updates, no catalogue of extensions."""


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add both commands to the parser."""
    lab = commands.add_parser("lab", parents=[shared], help="the notebook in JupyterLab")
    _add_options(lab, default=_LAB_PORT, otherwise=", or the next free one")
    lab.set_defaults(run=_run_lab)
    dashboard = commands.add_parser("dashboard", parents=[shared], help="the notebook as a page of its own, with Voila")
    _add_options(dashboard, default=_DASHBOARD_PORT)
    dashboard.set_defaults(run=_run_dashboard)


def _add_options(parser: argparse.ArgumentParser, *, default: int, otherwise: str = "") -> None:
    parser.add_argument("notebook", nargs="?", metavar="NOTEBOOK", help="another notebook than the workbench's own")
    parser.add_argument("--port", type=port, default=default, metavar="N", help=f"port on this machine (default: {default}{otherwise})")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def _run_lab(options: argparse.Namespace) -> NoReturn:
    _need("jupyterlab")
    notebook, root = _notebook(options.notebook), os.geteuid() == 0
    if root:
        note("This is root: JupyterLab is started with --allow-root, and what its notebooks run may do everything.", quiet=options.quiet)
    _become("jupyterlab", *lab_arguments(notebook, port=options.port, browser=not options.no_browser, root=root))


def _run_dashboard(options: argparse.Namespace) -> NoReturn:
    _need("voila")
    notebook, token = _notebook(options.notebook), secrets.token_hex(24)
    note(f"http://{_HERE}:{options.port}/?token={token}", quiet=options.quiet)
    os.environ[_TOKEN] = token  # not on the command line, which all users of this machine can read
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, (str(_TEMPLATES), os.environ.get("JUPYTER_PATH", ""))))
    _become("voila", *dashboard_arguments(notebook, port=options.port, browser=not options.no_browser))


def lab_arguments(notebook: Path, *, port: int, browser: bool, root: bool) -> list[str]:
    """Arguments of JupyterLab; it makes a token of its own, and wants to be told that it may run as root."""
    server = [f"--ServerApp.ip={_HERE}", f"--ServerApp.port={port}", "--ServerApp.allow_remote_access=False", "--ServerApp.root_dir=."]
    return [str(notebook), *server, *_QUIET_LAB, *(["--allow-root"] if root else []), *([] if browser else ["--no-browser"])]


def dashboard_arguments(notebook: Path, *, port: int, browser: bool) -> list[str]:
    """Arguments of Voila: whoever opens a page starts a kernel, so the environment's token keeps others out, and kernels that nobody looks at end."""
    culling = [
        f"--MappingKernelManager.cull_idle_timeout={_CULL_AFTER_S}",
        f"--MappingKernelManager.cull_interval={_CULL_LOOK_S}",
        "--MappingKernelManager.cull_connected=False",
    ]
    server = [f"--Voila.ip={_HERE}", f"--port={port}", "--Voila.port_retries=0", "--Voila.auto_token=True", "--template=workbench"]
    return [str(notebook), *server, *culling, *([] if browser else ["--no-browser"])]


def _notebook(given: str | None) -> Path:
    if given is None:
        return find_notebook()
    path = Path(given)
    if not path.is_file():
        raise InputError(f"There is no notebook {plain(given, 120)}.", "Give a file, or none for the workbench's own.")
    return path


def _need(package: str) -> None:
    """Raise EnvironmentFault unless a package is installed."""
    if importlib.util.find_spec(package) is None:
        raise EnvironmentFault(f"{package} is not installed.", "Install the extra: pip install 'tvm-workbench[notebook]'.")


def _become(module: str, *arguments: str) -> NoReturn:
    """Run a module instead of this program: it gets Ctrl-C, and its exit code is ours."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606 - there is nothing for a shell to do
