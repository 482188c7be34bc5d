"""Runs in a Python with old TVM: has the relay engine's own side optimise models, and writes its links beside what the constants tell.

As in `old_tvm_truth`, every weight is filled with a number of its own, which survives folding and changes of layout: the constants that a row reads
tell the operators that it computes, without any span. Usage: ``link_truth.py FOLDER_OF_TVM_SIDE REQUESTS``, a file of JSON.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

from old_tvm_truth import marked, named
from tvm import relay

sys.path.insert(1, sys.argv[1])

from tvm_side import importing, lowering, targets
from tvm_side.graph import is_reshape
from tvm_side.held import Held, Source


def readers(source: Source, numbers: dict[str, float]) -> dict[str, list[int]]:
    """The operators that read each marked weight."""
    owners = {number: place for place, operator in enumerate(source.operators) for number in operator.calls}
    found: dict[str, list[int]] = {name: [] for name in numbers}
    for call in importing.dataflow(source.module["main"].body):
        if isinstance(call, relay.Call):
            for item in call.args:
                if isinstance(item, relay.Var) and item.name_hint in found:
                    found[item.name_hint].append(owners[importing.number_of(call)])
    return found


def truth(held: Held, request: dict[str, Any]) -> dict[str, Any]:
    """The links of one model, and what its constants tell."""
    importing.import_model(held, request, (), None)
    source = held.source
    assert source is not None
    values, numbers = marked(source.module, source.params)
    source.params = {name: value.numpy() for name, value in values.items()}
    read_by = readers(source, numbers)
    facts = lowering.lower(held, {"fusion": True}, (), lambda phase, share: None)
    calls = [call for call in lowering.primitive_calls(held.ready().module["main"].body) if not is_reshape(call.op)]
    assert len(calls) == len(facts["rows"])
    for call, row in zip(calls, facts["rows"]):  # noqa: B905 - Python 3.8 knows no strict
        found = {named(item.data, numbers) for item in call.args if isinstance(item, relay.Constant)}
        row["parameters"] = sorted(name for name in found if name)
    return {
        "rows": facts["rows"],
        "operators": facts["operators"],
        "builtins": facts["builtins"],
        "eliminated": facts["eliminated"],
        "readers": read_by,
    }


def main() -> None:
    """Answer all requests in this one process."""
    asked = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    held = Held()
    targets.take(held, asked["target"], (), None)
    answers = {name: truth(held, request) for name, request in asked["models"].items()}
    sys.stdout.write("\n" + json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
