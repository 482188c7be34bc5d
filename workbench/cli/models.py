"""``workbench models``: lists the models that need no download."""

from __future__ import annotations

import argparse
from typing import Any

from rich.text import Text

from workbench.cli.output import show
from workbench.models import bundled_models


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("models", parents=[shared], help="the bundled models that need no download")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    models = bundled_models()
    width = max(len(model.name) for model in models)
    lines = "\n".join(f"{model.name:<{width}}  {model.kind:<8}  {model.description}" for model in models)
    show([Text(lines)], values=[model.to_dict() for model in models], json_to=options.json)
    return 0
