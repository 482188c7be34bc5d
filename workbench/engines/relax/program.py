"""The program: a model after import, before lowering."""

from __future__ import annotations

from dataclasses import dataclass, field

import tvm

from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.source_graph import SourceGraph


@dataclass(frozen=True)
class Program:
    """One IRModule whose ``main`` takes the model's inputs only (weights are constants), and where its bindings came from.

    Attributes:
        module: Relax module, not legalised; every binding of ``main`` carries an origin name (see `OriginTable`).
        origins: The source operators the names refer to.
        random_weights: True if the model's text carried no weights and random ones stand in for them.
        notes: What else a reader must know of how the model was read.
        graph: What the source operators read and give.
    """

    module: tvm.IRModule
    origins: OriginTable
    random_weights: bool = False
    notes: tuple[str, ...] = ()
    graph: SourceGraph = field(default_factory=SourceGraph)
