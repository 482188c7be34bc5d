"""The lowered model in a folder, and back; the optimised module is the truth, and everything else is made of it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tvm
from tvm import relay

from .failing import SESSION, Refusal
from .held import Held
from .lowering import take_up
from .targets import last_line
from .wire import Blob

MODULE, FACTS = "module.json", "kernels.json"
_AGAIN = "Profile the model again."


def save(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Write what is held into ``folder``; its weights are constants of the module."""
    del blobs, progress
    lowered = held.ready()
    with (Path(arguments["folder"]) / MODULE).open("w", encoding="utf-8") as file:
        file.write(tvm.ir.save_json(lowered.module))
    with (Path(arguments["folder"]) / FACTS).open("w", encoding="utf-8") as file:
        json.dump(lowered.facts, file)


def load(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Hold what `save` wrote into ``folder``; the target is held already. The target that the module names is not asked."""
    del blobs, progress
    held.source = held.lowered = None
    try:
        module = tvm.ir.load_json((Path(arguments["folder"]) / MODULE).read_text(encoding="utf-8"))
        main = module["main"]
        facts: dict[str, Any] = json.loads((Path(arguments["folder"]) / FACTS).read_text(encoding="utf-8"))
    except Exception as error:
        raise Refusal(SESSION, f"The program of the session cannot be read by the old TVM: {last_line(error)}.", _AGAIN) from error
    if not isinstance(main, relay.Function) or any(name.name_hint != "main" for name in module.get_global_vars()):
        raise Refusal(SESSION, "The program of the session has functions beside its main one.", _AGAIN)
    lowered = take_up(module, held.target)
    lowered.facts = facts
    if [row["kernel"] for row in facts["rows"]] != lowered.calls:
        raise Refusal(SESSION, "The program of the session gives other kernels than it did.", _AGAIN)
    held.lowered = lowered
    return facts


CALLS = {"save": save, "load": load}
