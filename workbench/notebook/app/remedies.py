"""Says what to do in the words of the app: remedies are written for all fronts, and name options of the command line."""

from __future__ import annotations

import re
from functools import partial

_TRUST = 'tick "Trust the model\'s own code" under More'
_FOLDER = "start the notebook in another folder: its sessions lie beside it"
_WORDS = (
    (r"Name one with --python PATH\|KERNELSPEC \(python= in Python\), or in (\w+)", r"name one in Python, beside Engine under More, or in \1"),
    (r"allow it: --trust, or trust=True from Python\b", _TRUST),
    (r"(?:Allow it|try again) with --trust\b", _TRUST),
    (
        r"(?:e\.g\. |Give its shape: |Give the shape of each of these parameters: shapes=.*?, )?--shape ([^\s;]+=[^\s;]+?)(?=\.?$)",
        r"in Shapes, under More: \1",
    ),
    (r"Use --dry-run N, or\b", "run `workbench tune --dry-run N` in a terminal, which builds and checks candidates, or use"),
    (r"Check --shape\b", "check Shapes under More"),
    (r"\(--args\)", "(Arguments, under More)"),
    (r"(?:[Gg]o on(?: later)?|[Ss]tart it again) with (?:resume=True \()?--resume\)?", "press Resume"),
    (r"[Gg]ive (?:a|another)(?: (?:directory|place):)? --session DIR\b", _FOLDER),
    (r"Leave --session out\b", _FOLDER),
    (r"Search first: workbench select --share 0\.8, then workbench tune\b", "tick some kernels and press Tune"),
    (r"Select some(?:thing first)?: (?:session\.profile\(\)\.select\(share=0\.8\), or )?workbench select --share 0\.8", "tick some kernels first"),
    (r"(?:See|Give the identifier of one): workbench tasks\b", "choose one of the table"),
    (r"(?:Tune it to the end first|Start one with): workbench tune\b", "press Tune"),
    (r"(?:Search them first|Apply[\w ]*): workbench apply\b", "press Apply"),
    (r"(?:Make one with|Profile the model): workbench profile MODEL\b", "choose a model and press Profile"),
    (r"(?:Run|See) `?workbench doctor`?(?: in a terminal)?", "run `workbench doctor` in a terminal"),
)
_RULES = tuple((re.compile(pattern), words) for pattern, words in _WORDS)


def in_the_app(remedy: str) -> str:
    """A remedy with buttons and fields of the app in the place of commands and options; one that knows no better way stays as it is."""
    for pattern, words in _RULES:
        remedy = pattern.sub(partial(_replaced, words), remedy)
    return remedy


def _replaced(words: str, found: re.Match[str]) -> str:
    """The words, with a capital where a sentence begins."""
    said = found.expand(words)
    begins = found.string[: found.start()].rstrip().endswith((".", "!", "?")) or found.start() == 0
    return said[:1].upper() + said[1:] if begins else said
