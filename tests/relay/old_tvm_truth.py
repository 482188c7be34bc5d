"""Runs in a Python with old TVM: builds networks of ``tvm.relay.testing`` and writes what old TVM itself knows of each row of their debug tables.

Exact links without guessing: every parameter is filled with a number of its own, which survives folding and changes of layout; so the constants
that a compiled function reads tell the source operators that it is of. Usage: ``old_tvm_truth.py NETWORK VARIANT FOLDER``; a network is a name
below, or a file of Relay text, which is built and not run.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import sys
from typing import Any

import numpy as np
import truth_networks
import tvm
from tvm import relay
from tvm.auto_scheduler.relay_integration import traverse_to_get_io_tensors
from tvm.contrib.debugger import debug_executor
from tvm.relay import testing

TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3"


def branches() -> Any:
    """Towers of equal convolutions that meet in sums and a concatenation: shapes alone tell nothing."""
    data = relay.var("data", shape=(1, 16, 28, 28))

    def conv(value: Any, name: str, size: int = 3, channels: int = 16, groups: int = 1) -> Any:
        weight = relay.var(name + "_weight", shape=(channels, 16 // groups, size, size))
        result = relay.nn.conv2d(value, weight, padding=(size // 2, size // 2), channels=channels, kernel_size=(size, size), groups=groups)
        return relay.nn.relu(relay.nn.bias_add(result, relay.var(name + "_bias", shape=(channels,))))

    left = conv(conv(data, "left_a"), "left_b", 5)
    right = conv(conv(data, "right_a", 1), "right_b", 5)
    deep = conv(conv(data, "deep_a", 3, groups=16), "deep_b", 1)
    total = relay.add(relay.add(left, right), deep)
    both = relay.concatenate((conv(total, "head_a", 1), conv(total, "head_b", 3), relay.nn.max_pool2d(total, (3, 3), padding=(1, 1))), axis=1)
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(both))
    scores = relay.nn.dense(flat, relay.var("scores_weight", shape=(10, 48)), units=10)
    function = relay.nn.softmax(relay.nn.bias_add(scores, relay.var("scores_bias", shape=(10,)), axis=-1))
    return testing.create_workload(relay.Function(relay.analysis.free_vars(function), function))


NETWORKS = {
    "mlp": lambda: testing.mlp.get_workload(batch_size=1),
    "resnet18": lambda: testing.resnet.get_workload(num_layers=18, batch_size=1),
    "resnet18_small": lambda: testing.resnet.get_workload(num_layers=18, batch_size=1, image_shape=(3, 32, 32)),
    "resnet50": lambda: testing.resnet.get_workload(num_layers=50, batch_size=1, image_shape=(3, 112, 112)),
    "resnet50_nhwc": lambda: testing.resnet.get_workload(num_layers=50, batch_size=1, image_shape=(112, 112, 3), layout="NHWC"),
    "mobilenet": lambda: testing.mobilenet.get_workload(batch_size=1),
    "squeezenet": lambda: testing.squeezenet.get_workload(batch_size=1, version="1.1"),
    "vgg16": lambda: testing.vgg.get_workload(batch_size=1, num_layers=16, image_shape=(3, 96, 96)),
    "densenet121": lambda: testing.densenet.get_workload(densenet_size=121, batch_size=1, image_shape=(3, 224, 224)),
    "inception_v3": lambda: testing.inception_v3.get_workload(batch_size=1),
    "dcgan": lambda: testing.dcgan.get_workload(batch_size=1),
    "dqn": lambda: testing.dqn.get_workload(batch_size=1),
    "mobilenet_nhwc": lambda: testing.mobilenet.get_workload(batch_size=1, image_shape=(112, 112, 3), layout="NHWC"),
    "resnet3d": lambda: testing.resnet_3d.get_workload(num_layers=18, batch_size=1, image_shape=(3, 8, 32, 32)),
    "branches": branches,
    **{name: functools.partial(truth_networks.workload, network) for name, network in truth_networks.NETWORKS.items()},
}
SAMPLE = "llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu -num-cores=2"
VARIANTS = {
    "blocked": {"opt_level": 3, "config": {}},
    "plain": {"opt_level": 3, "config": {"relay.backend.use_auto_scheduler": True}},
    "level2": {"opt_level": 2, "config": {}},
    "sample": {"opt_level": 3, "config": {}, "target": SAMPLE},
}


def of_text(path: str) -> Any:
    """A network from its text; what is not the input is a parameter, whose values do not matter."""
    module = (getattr(relay, "fromtext", None) or tvm.parser.fromtext)(pathlib.Path(path).read_text())
    module = relay.transform.InferType()(module)
    types = {item.name_hint: item.checked_type for item in module["main"].params if item.name_hint != "data"}
    return module, {name: tvm.nd.empty([int(size) for size in kind.shape], kind.dtype) for name, kind in types.items()}


def marked(module: Any, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """Parameters that tell which one they are, and the number of each."""
    numbers, values = {}, {}
    for parameter in module["main"].params:
        name = parameter.name_hint
        if name not in params:
            continue
        shape, dtype = params[name].shape, params[name].dtype
        if name.endswith(("gamma", "var")):
            number = 1.0
        elif name.endswith("mean"):
            number = 0.0
        else:
            number = float(2 + len(numbers))
            numbers[name] = number
        values[name] = tvm.nd.array(np.full(shape, number, dtype))
    return values, numbers


def named(value: Any, numbers: dict[str, float]) -> str | None:
    """The parameter that a constant came from; None if it is none of them alone."""
    array = value.numpy()
    if array.size == 0 or not np.issubdtype(array.dtype, np.floating):
        return None
    flat = array.reshape(-1)
    number = float(np.round(flat[0]))
    alike = number >= 2 and np.allclose(flat, number, rtol=2e-4)
    return next((name for name, item in numbers.items() if item == number), None) if alike else None


def main(network: str, variant: str, place: str) -> None:
    """Build one network, run it once under the debug executor, and write what is known of it."""
    folder = pathlib.Path(place)
    folder.mkdir(parents=True, exist_ok=True)
    module, params = NETWORKS[network]() if network in NETWORKS else of_text(network)
    values, numbers = marked(module, params)
    keys = {}

    @tvm.register_func("auto_scheduler.relay_integration.auto_schedule_topi_compute", override=True)
    def note(function: Any, outputs: Any) -> None:
        tensors = traverse_to_get_io_tensors(outputs)[0]
        if tensors:
            with contextlib.suppress(tvm.TVMError):  # what calls a library is no task of the auto_scheduler
                keys[str(function)] = tvm.auto_scheduler.ComputeDAG(tensors).workload_key()

    options = VARIANTS[variant]
    with tvm.transform.PassContext(opt_level=options["opt_level"], config=options["config"]):
        library = relay.build(module, target=options.get("target", TARGET), params=values)
    graph, constants = library.get_graph_json(), library.get_params()
    if network in NETWORKS:
        executor = debug_executor.create(graph, library.get_lib(), tvm.cpu(), str(folder / "dump"))
        executor.set_input(**constants)
        executor.run(number=1, repeat=1)
        (folder / "model.relay.txt").write_text(module.astext(show_meta_data=False))
        (folder / "debug_table.txt").write_text(executor.debug_datum.get_debug_result(sort_by_time=True))
    nodes = json.loads(graph)["nodes"]
    names = {name: named(value, numbers) for name, value in constants.items()}
    rows = [
        {
            "node": node["name"],
            "function": node["attrs"]["func_name"],
            "parameters": sorted({names[nodes[item[0]]["name"]] for item in node["inputs"] if names.get(nodes[item[0]]["name"])}),
            "reads": [nodes[item[0]]["name"] for item in node["inputs"] if nodes[item[0]]["op"] != "null"],
            "hash": node["attrs"].get("hash", ""),
            "key": keys.get(node["attrs"]["func_name"]),
        }
        for node in nodes
        if node["op"] != "null"
    ]
    (folder / "graph.json").write_text(graph)
    (folder / "truth.json").write_text(json.dumps({"network": network, "variant": variant, "tvm": tvm.__version__, "rows": rows}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
