"""Which decisions a GPU cannot launch, told from the decisions alone: most random ones of a large kernel are such."""

from __future__ import annotations

import numpy as np
import tvm

from workbench.engines.relax.search.sampling import Sampler
from workbench.engines.relax.search.thread_extents import ThreadExtent, thread_extents
from workbench.engines.relax.search_spaces import make_space

TILE = "SamplePerfectTile"
INSTRUCTIONS = [
    ["GetLoops", ["b0"], [], ["l1", "l2"]],
    ["Annotate", ["b0", 32], ["meta_schedule.thread_extent_low_inclusive"], []],
    [TILE, ["l1"], [3, 64], ["v3", "v4", "v5"]],
    ["Split", ["l1", "v3", "v4", "v5"], [1, 0], ["l6", "l7", "l8"]],
    [TILE, ["l2"], [3, 64], ["v9", "v10", "v11"]],
    ["Split", ["l2", "v9", "v10", "v11"], [1, 0], ["l12", "l13", "l14"]],
    ["Fuse", ["l6", "l12"], [1], ["l15"]],
    ["Bind", ["l15"], ["vthread.x"], []],
    ["Fuse", ["l7", "l13"], [1], ["l16"]],
    ["Bind", ["l16"], ["threadIdx.x"], []],
    ["Bind", ["l99"], ["threadIdx.y"], []],  # of a loop whose extent no tiling decides
]


def test_the_extents_of_bound_loops_are_products_of_factors() -> None:
    virtual, threads = thread_extents(INSTRUCTIONS, most_threads=1024)
    assert virtual == ThreadExtent(((2, 0), (4, 0)), 1, 8)
    assert threads == ThreadExtent(((2, 1), (4, 1)), 32, 1024)


def test_too_few_and_too_many_threads_are_refused() -> None:
    _, threads = thread_extents(INSTRUCTIONS, most_threads=512)
    allowed = [(one, other) for one, other in ((1, 16), (4, 8), (16, 32), (16, 64)) if threads.allows({2: (1, one, 4), 4: (1, other, 4)})]
    assert allowed == [(4, 8), (16, 32)]


def test_what_is_called_unlaunchable_tvm_refuses_too_and_what_is_drawn_is_launchable() -> None:
    n = 512
    a, b = tvm.te.placeholder((n, n), name="a"), tvm.te.placeholder((n, n), name="b")
    k = tvm.te.reduce_axis((0, n), name="k")
    c = tvm.te.compute((n, n), lambda i, j: tvm.te.sum(a[i, k] * b[k, j], axis=k), name="c")
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_86", "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152})
    module = tvm.IRModule({"main": tvm.te.create_prim_func([a, b, c])})
    sampler = Sampler(module, target, make_space("default", target))
    random = np.random.default_rng(0)
    sketch = sampler.sketches[0]
    assert all(sketch.is_launchable(sketch.random(random)) for _ in range(50))
    changed = [sketch.mutated(sketch.random(random), random) for _ in range(100)]
    refused = [genome for genome in changed if not sketch.is_launchable(genome)][:8]
    assert refused
    assert sampler.made(refused) == [None] * len(refused)
