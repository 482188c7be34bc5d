"""The notebook that shows the app, for folders that have none."""

from __future__ import annotations

import json
from pathlib import Path

from workbench.errors import EnvironmentFault
from workbench.escaping import plain

NAME = "workbench.ipynb"
IN_CHECKOUT = Path("notebooks") / NAME

_TEXT = """# TVM workbench

Choose a model and press *Profile*; tick what takes the time; *Tune*; *Apply*. Nothing else has to be typed. What is measured is kept in \
`workbench-sessions`, and running the cell again shows it again, a running search included."""
_CODE = """from workbench.notebook import Workbench

Workbench()"""


def starter() -> str:
    """The notebook as the text of its file."""
    cells = [
        {"cell_type": "markdown", "id": "about", "metadata": {}, "source": _lines(_TEXT)},
        {"cell_type": "code", "execution_count": None, "id": "app", "metadata": {}, "outputs": [], "source": _lines(_CODE)},
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1) + "\n"


def find_notebook() -> Path:
    """The notebook of this folder; it is written if there is none.

    Raises:
        EnvironmentFault: It cannot be written.
    """
    if IN_CHECKOUT.is_file():
        return IN_CHECKOUT
    path = Path(NAME)
    if not path.exists():
        try:
            path.write_text(starter(), encoding="utf-8")
        except OSError as error:
            raise EnvironmentFault(f"{plain(str(path.absolute()), 120)} cannot be written: {error.strerror}.", "Go to a folder of yours.") from error
    return path


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
