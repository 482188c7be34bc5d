"""The lowered model in a folder, and back; the optimised module is the truth, and everything else is made of it again."""

from __future__ import annotations

import json
import os
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
    with open(os.path.join(arguments["folder"], MODULE), "w", encoding="utf-8") as file:
        file.write(tvm.ir.save_json(lowered.module))
    with open(os.path.join(arguments["folder"], FACTS), "w", encoding="utf-8") as file:
        json.dump(lowered.facts, file)


def load(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Hold what `save` wrote into ``folder``; the target is held already. The target that the module names is not asked."""
    del blobs, progress
    held.source = held.lowered = None
    try:
        with open(os.path.join(arguments["folder"], MODULE), encoding="utf-8") as file:
            module = tvm.ir.load_json(file.read())
        with open(os.path.join(arguments["folder"], FACTS), encoding="utf-8") as file:
            facts = json.load(file)
        if not isinstance(module, tvm.IRModule) or not isinstance(module["main"], relay.Function):
            raise TypeError("it is no Relay module")
    except Exception as error:
        raise Refusal(SESSION, f"The program of the session cannot be read by the old TVM: {last_line(error)}.", _AGAIN) from error
    if any(name.name_hint != "main" for name in module.get_global_vars()):
        raise Refusal(SESSION, "The program of the session has functions beside its main one.", _AGAIN)
    lowered = take_up(module, held.target)
    lowered.facts = facts
    if [row["kernel"] for row in facts["rows"]] != lowered.calls:
        raise Refusal(SESSION, "The program of the session gives other kernels than it did.", _AGAIN)
    held.lowered = lowered
    return facts


CALLS = {"save": save, "load": load}
