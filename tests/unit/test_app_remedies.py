"""Remedies in the words of the app."""

from __future__ import annotations

import pytest

from workbench.errors import ModelError
from workbench.notebook.app.remedies import in_the_app
from workbench.notebook.app.state import Problem
from workbench.old_python import HOW_TO


@pytest.mark.parametrize(
    ("remedy", "expected"),
    [
        (
            "If you trust its author, allow it: --trust, or trust=True from Python.",
            'If you trust its author, tick "Trust the model\'s own code" under More.',
        ),
        ("Give them numbers, e.g. --shape x=1,3,224,224.", "Give them numbers, in Shapes, under More: x=1,3,224,224."),
        ("Check the sizes in the arguments (--args).", "Check the sizes in the arguments (Arguments, under More)."),
        ("What was measured is saved: go on with --resume.", "What was measured is saved: press Resume."),
        ("Go on with --resume.", "Press Resume."),
        ("Give another directory: --session DIR.", "Start the notebook in another folder: its sessions lie beside it."),
        (
            "Free some space, or give another --session DIR.",
            "Free some space, or start the notebook in another folder: its sessions lie beside it.",
        ),
        ("Search first: workbench select --share 0.8, then workbench tune.", "Tick some kernels and press Tune."),
        (HOW_TO, "Name one in Python, beside Engine under More, or in WORKBENCH_RELAY_PYTHON; environment-relay.yml or `make venv-relay` makes one."),
        (
            "Use --dry-run N, or a machine that has the device.",
            "Run `workbench tune --dry-run N` in a terminal, which builds and checks candidates, or use a machine that has the device.",
        ),
        ("See: workbench tasks.", "Choose one of the table."),
        ("Apply again: workbench apply.", "Press Apply."),
        ("Profile the model: workbench profile MODEL.", "Choose a model and press Profile."),
        (
            "Run `workbench doctor`. If it finds nothing, please report it.",
            "Run `workbench doctor` in a terminal. If it finds nothing, please report it.",
        ),
        ("Choose one from the list, type a file's path, or drop a file.", "Choose one from the list, type a file's path, or drop a file."),
        ("e.g. a file. of yours", "e.g. a file. of yours"),
        ("", ""),
    ],
)
def test_a_remedy_names_what_the_app_has(remedy: str, expected: str) -> None:
    assert in_the_app(remedy) == expected


def test_a_problem_of_the_app_tells_it_so() -> None:
    assert Problem.of(ModelError("It has dynamic dimensions: x.", "Give them numbers, e.g. --shape x=1,3.")).remedy.endswith("under More: x=1,3.")
