"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import argparse
import functools
import math
from typing import Any, NoReturn

from workbench.errors import InputError
from workbench.escaping import plain
from workbench.records.request import ENGINES, MOST_THREADS, RELAX
from workbench.workloads import parse_arguments

_MAX_DIMENSIONS = 16
_MAX_SIZE = 2**31 - 1
_MOST_DIGITS = 20
_MESSAGE_LIMIT = 600


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, and which guesses no abbreviations: scripts would break with the next option."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the options are listed; exit code 2."""
        self.exit(InputError.exit_code, f"workbench: {plain(message, _MESSAGE_LIMIT)}. See: {self.prog} --help\n")


def add_profile_options(parser: argparse.ArgumentParser) -> None:
    """Options that decide what a profile shows."""
    parser.add_argument("--target", default="auto", metavar="T", help="auto, cpu, cuda[:sm_90], a TVM tag, JSON, or TVM's old string form")
    parser.add_argument("--layout", default="keep", choices=["keep"], help="data layout (default: the model's own)")
    parser.add_argument("--no-fusion", action="store_true", help="one kernel per operator")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,224,224", help="shape of an input with dynamic dimensions")
    parser.add_argument("--args", metavar="JSON", help="arguments of a TE workload, e.g. '[1, 7, 7]'")
    parser.add_argument(
        "--repeat", type=positive, metavar="N", help="measured rounds (default: until 3 to 8 seconds have passed, at least 2, at most 30)"
    )
    parser.add_argument("--threads", type=_threads, metavar="N", help="threads that run the kernels (default: all physical cores)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of random inputs and weights")
    parser.add_argument("--trust", action="store_true", help="allow the model's own code to run")
    parser.add_argument("--engine", default=RELAX, choices=ENGINES, help="relax: today's TVM; relay: TVM 0.8 to 0.18, in a Python of its own")
    add_python_option(parser)


def add_python_option(parser: argparse.ArgumentParser) -> None:
    """The option of every command that may start a worker."""
    parser.add_argument(
        "--python", default="", metavar="PATH|KERNELSPEC", help="the Python with the old TVM of the relay engine (default: WORKBENCH_RELAY_PYTHON)"
    )


def shape_options(texts: list[str]) -> dict[str, tuple[int, ...]]:
    """Shapes from ``NAME=1,3,224,224`` texts.

    Raises:
        InputError: A text has another form; it is named.
    """
    shapes = {}
    for text in texts:
        name, separator, sizes = text.rpartition("=")
        parts = [part.strip() for part in sizes.split(",")]
        valid = (
            separator
            and name
            and len(parts) <= _MAX_DIMENSIONS
            and all(part.isascii() and part.isdigit() and len(part) <= _MOST_DIGITS for part in parts)
        )
        if not valid or not all(0 < int(part) <= _MAX_SIZE for part in parts):
            raise InputError(f"--shape {plain(text)} is no shape.", "Write NAME=1,3,224,224 with positive sizes.")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def json_arguments(text: str | None) -> tuple[Any, ...] | None:
    """Arguments of a TE workload from a JSON list."""
    return None if text is None else parse_arguments(text)


def _whole_number(text: str, *, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{plain(text)} is not a whole number from {least} to {most}")
    return int(text)


def _number(text: str, *, above: float | None) -> float:
    """A number of at least 0, or above `above`."""
    try:
        number = float(text) if len(text) <= _MOST_DIGITS else math.nan
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number <= _MAX_SIZE and (number > above if above is not None else number >= 0.0)):
        kind = "a number of at least 0" if above is None else f"a number above {above:g}"
        raise argparse.ArgumentTypeError(f"{plain(text)} is not {kind}")
    return number


positive = functools.partial(_whole_number, least=1, most=_MAX_SIZE)
count = functools.partial(_whole_number, least=0, most=_MAX_SIZE)
seed = functools.partial(_whole_number, least=0, most=2**63 - 1)
positive_number = functools.partial(_number, above=0.0)
port = functools.partial(_whole_number, least=1, most=65535)
amount = functools.partial(_number, above=None)
_threads = functools.partial(_whole_number, least=1, most=MOST_THREADS)
