"""Makes views of a kernel with a recorded schedule, and libraries of it; each call brings the kernel along, so that nothing has to be held."""

from __future__ import annotations

from typing import Any, Callable

from . import view_code, view_schedule
from .building import target_of
from .failing import MODEL, Refusal
from .held import Held, Kernel
from .kernel_code import from_text
from .replaying import Scheduled, dag_of, lowered, unscheduled
from .wire import Blob

_LAST = "viewing"


def view(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """One ``view`` of a kernel, whose ``name`` is given and whose function is the first blob, for a ``target`` with the schedule of a ``trace``.

    Returns:
        ``text``; ``knobs`` for the decisions.
    """
    del progress
    which = str(arguments["view"])
    target = target_of(arguments["target"])
    kernel = _kernel(arguments, blobs)
    if which == "compute_dag":
        return {"text": _compute_dag(kernel, target)}
    found = _scheduled(held, arguments, blobs, kernel, target)
    if which == "decisions":
        return {"text": "", "knobs": view_schedule.decisions(found)}
    makers: dict[str, Callable[[], str]] = {
        "schedule": lambda: view_schedule.schedule_text(found),
        "tir_before": lambda: view_code.script(unscheduled(found)),
        "tir": lambda: view_code.tir_text(found),
        "lowered": lambda: view_code.lowered_text(found, target),
        "source": lambda: view_code.cpu_code(found, target, "ll") if target.kind.name == "llvm" else view_code.device_source(found, target),
        "asm": lambda: view_code.cpu_code(found, target, "asm"),
    }
    return {"text": makers[which]()}


def library(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Compile a kernel, given as for `view`, into the library ``path``."""
    del progress
    target = target_of(arguments["target"])
    view_code.write_library(_scheduled(held, arguments, blobs, _kernel(arguments, blobs), target), target, arguments["path"])


def _kernel(arguments: dict[str, Any], blobs: tuple[Blob, ...]) -> Kernel:
    name = str(arguments["name"])
    return Kernel(name, f"tvmgen_default_{name}", from_text(bytes(blobs[0]).decode()), "")


def _scheduled(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], kernel: Kernel, target: Any) -> Scheduled:
    """The kernel with its schedule; the last one is kept, since several views of one trial are asked for in a row."""
    trace = str(arguments["trace"])
    key = (bytes(blobs[0]), str(arguments["target"]), trace)
    last: Any = held.tasks.get(_LAST)
    if last is None or last[0] != key:
        last = (key, lowered(kernel, target, trace))
        held.tasks[_LAST] = last
    found: Scheduled = last[1]
    return found


def _compute_dag(kernel: Kernel, target: Any) -> str:
    dag = dag_of(kernel, target)
    if dag is None:
        raise Refusal(MODEL, "auto_scheduler has no view of this kernel: its shapes are not fixed.")
    return str(dag)


CALLS = {"view": view, "library": library}
