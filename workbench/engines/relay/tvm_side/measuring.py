"""Runs built kernels on arrays that it keeps; compares and decides nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm

from .building import ENTRY
from .held import Held
from .wire import Blob

_FLUSH = {"cpu": "cache_flush_cpu_non_first_arg", "cuda": "l2_cache_flush_cuda"}
_KEPT = "measuring"
_MOST_LIBRARIES = 8


@dataclass
class Kept:
    """What this process keeps.

    Attributes:
        device: Where kernels run.
        kind: Of the device.
        arguments: Arrays on the device, by kernel.
        libraries: The last ones that were loaded, by path.
    """

    device: Any
    kind: str
    arguments: dict[str, list[Any]] = field(default_factory=dict)
    libraries: dict[str, Any] = field(default_factory=dict)


def begin(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Use the device of a ``kind`` and an ``index``."""
    del blobs, progress
    held.tasks[_KEPT] = Kept(tvm.device(arguments["kind"], arguments["index"]), arguments["kind"])


def hold(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Keep the arrays in the blobs as the arguments of a ``kernel``."""
    del progress
    kept = _kept(held)
    kept.arguments[arguments["kernel"]] = [tvm.nd.array(array, kept.device) for array in blobs]


def forget(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Let go of the arguments of a ``kernel``."""
    del blobs, progress
    _kept(held).arguments.pop(arguments["kernel"], None)


def run(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> tuple[float, list[Any]]:
    """Run the library ``path`` once on a kernel's arguments: write the blobs to those at ``write`` before, and return those at ``read`` after it.

    Returns:
        Microseconds, and the arrays.
    """
    del progress
    kept = _kept(held)
    own = kept.arguments[arguments["kernel"]]
    for place, array in zip(arguments["write"], blobs):
        own[place].copyfrom(array)
    kernel = _library(kept, arguments["path"])[ENTRY]
    kept.device.sync()
    started = time.perf_counter()
    kernel(*own)
    kept.device.sync()
    time_us = (time.perf_counter() - started) * 1e6
    return time_us, [own[place].numpy() for place in arguments["read"]]


def evaluate(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> list[float]:
    """Microseconds of each of ``repeat`` times of the library ``path``, the mean of ``number`` runs; with ``flush``, of cold caches."""
    del blobs, progress
    kept = _kept(held)
    preparation = _FLUSH.get(kept.kind, "") if arguments["flush"] else ""
    library = _library(kept, arguments["path"])
    evaluator = library.time_evaluator(
        ENTRY, kept.device, number=arguments["number"], repeat=arguments["repeat"], min_repeat_ms=0, f_preproc=preparation
    )
    return [float(seconds) * 1e6 for seconds in evaluator(*kept.arguments[arguments["kernel"]]).results]


def changed(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> list[int]:
    """Those of a kernel's arguments at ``places`` that differ from the blobs in any bit."""
    del progress
    own = _kept(held).arguments[arguments["kernel"]]
    return [place for place, array in zip(arguments["places"], blobs) if own[place].numpy().tobytes() != np.ascontiguousarray(array).tobytes()]


def _kept(held: Held) -> Kept:
    kept: Kept = held.tasks[_KEPT]
    return kept


def _library(kept: Kept, path: str) -> Any:
    """A library; the oldest ones are let go of."""
    if path not in kept.libraries:
        while len(kept.libraries) >= _MOST_LIBRARIES:
            kept.libraries.pop(next(iter(kept.libraries)))
        kept.libraries[path] = tvm.runtime.load_module(path)
    return kept.libraries[path]


CALLS = {"begin": begin, "hold": hold, "forget": forget, "run": run, "evaluate": evaluate, "changed": changed}
