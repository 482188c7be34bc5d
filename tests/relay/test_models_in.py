"""Every kind of model that the relay engine reads, and every bundled workload: imported, lowered, its tasks found, timed, in one process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from tests.relay.models import CONVOLUTION
from tests.relay.opened import OPTIONS
from workbench.engines.relax.importers import import_source
from workbench.engines.relay.interpreter import Interpreter
from workbench.engines.relay.model_request import model_request
from workbench.errors import ModelError
from workbench.models import resolve_model
from workbench.records.request import ModelSource

TASKS_OF_BOTH = {"auto-scheduler", "autotvm"}
SCHEDULED = {"auto-scheduler"}

LAYERS = """
from tvm import auto_scheduler, te


@auto_scheduler.register_workload
def scaled(rows, columns, factor):
    a = te.placeholder((rows, columns), name="A")
    b = te.placeholder((columns,), name="B")
    k = te.reduce_axis((0, columns), name="k")
    product = te.compute((rows,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="product")
    return [a, b, te.compute((rows,), lambda i: product[i] * factor, name="scaled")]
"""

TO_JSON = """
import sys
import tvm
from tvm import relay
text, path = sys.argv[1:]
open(path, "w").write(tvm.ir.save_json((getattr(relay, "fromtext", None) or tvm.parser.fromtext)(open(text).read())))
"""


@pytest.fixture(scope="module")
def child(old_python: Path) -> Iterator[Interpreter]:
    """One process for all models."""
    interpreter = Interpreter(old_python, threads=2)
    interpreter.call("targets.take", {"config": OPTIONS, "machine": "x86_64"})
    yield interpreter
    interpreter.close()


@pytest.fixture(scope="module")
def files(old_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of each kind."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "net.relay").write_text(CONVOLUTION)
    command = [str(old_python), "-c", TO_JSON, str(folder / "net.relay"), str(folder / "net.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    (folder / "layers_of_old_tvm.py").write_text(LAYERS)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="product"), helper.make_node("Relu", ["h"], ["y"], name="activation")]
    weights = [numpy_helper.from_array(np.ones((16, 24), "float32"), "w")]
    inputs, outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, size]) for name, size in (("x", 16), ("y", 24)))
    model = helper.make_model(helper.make_graph(nodes, "g", [inputs], [outputs], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, str(folder / "net.onnx"))
    return folder


def lowered(child: Interpreter, source: ModelSource, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What was lowered, and what was found of each kernel; all of it was timed."""
    child.call("importing.import_model", {**model_request(source, seed=0), "folder": str(folder)})
    facts: dict[str, Any] = child.call("lowering.lower", {"fusion": True}).value
    tasks: list[dict[str, Any]] = child.call("extraction.extract", {}).value
    measured = child.call("profiling.measure", {"repeat": 2, "seed": 0}).value
    assert len(measured["calls"]) == len(facts["rows"]) > 0
    assert all(call["median_us"] > 0 and (call["nan_count"], call["inf_count"]) == (0, 0) for call in measured["calls"])
    assert all(row["operators"] for row in facts["rows"])
    return facts, tasks


@pytest.mark.parametrize("name", ["net.relay", "net.json"])
def test_a_network_has_the_same_rows_as_text_and_as_json(name: str, child: Interpreter, files: Path) -> None:
    source = resolve_model(str(files / name))
    assert (source.kind, source.name) == ({"net.relay": "relay", "net.json": "relay_json"}[name], "net")
    facts, tasks = lowered(child, source, files)
    kernels = {kernel["name"]: set(task["spaces"]) for kernel, task in zip(facts["kernels"], tasks, strict=True)}
    assert [kernels[row["kernel"]] for row in facts["rows"]] == [SCHEDULED, TASKS_OF_BOTH, SCHEDULED, TASKS_OF_BOTH, SCHEDULED]
    operators = [item["op"] for item in facts["operators"]]
    assert operators == ["nn.conv2d", "nn.relu", "nn.batch_flatten", "nn.dense", "nn.softmax"]
    assert [[operators[place] for place in row["operators"]] for row in facts["rows"]] == [
        ["nn.conv2d"],
        ["nn.conv2d", "nn.relu"],
        ["nn.batch_flatten"],
        ["nn.dense"],
        ["nn.softmax"],
    ]


def test_an_onnx_network_has_its_nodes_as_operators(child: Interpreter, files: Path) -> None:
    facts, _ = lowered(child, resolve_model(str(files / "net.onnx")), files)
    assert [item["name"] for item in facts["operators"]] == ["product", "activation"]


@pytest.mark.parametrize(
    ("name", "arguments", "spaces"),
    [
        ("conv2d_relu", (1, 7, 7, 32, 16, 3, 3, 1, 1), TASKS_OF_BOTH),
        ("depthwise_conv2d", (1, 14, 14, 16, 3, 3, 1, 1), TASKS_OF_BOTH),
        ("matmul", (32, 48, 64), SCHEDULED),
        ("matmul_add", (32, 48, 64), SCHEDULED),
        ("softmax", (16, 64), SCHEDULED),
    ],
)
def test_a_bundled_workload_is_one_kernel(name: str, arguments: tuple[int, ...], spaces: set[str], child: Interpreter, files: Path) -> None:
    facts, tasks = lowered(child, replace(resolve_model(name), args=arguments), files)
    assert len(facts["rows"]) == 1
    (task,) = tasks
    assert set(task["spaces"]) == spaces
    assert all(size >= 1 for size in task["spaces"].values())


def test_a_bundled_workload_has_its_own_arguments(child: Interpreter, files: Path) -> None:
    facts, _ = lowered(child, resolve_model("matmul"), files)
    assert facts["outputs"][0]["tensors"] == [[[512, 512], "float32"]]


def test_a_workload_of_the_users_for_the_old_auto_scheduler_is_computed_as_it_says(child: Interpreter, files: Path) -> None:
    source = ModelSource(kind="workload", name="scaled", workload="layers_of_old_tvm:scaled", args=(6, 8, 3.0), trust=True)
    facts, tasks = lowered(child, source, files)
    assert [set(task["spaces"]) for task in tasks] == [SCHEDULED]
    assert [item["name"] for item in facts["inputs"]] == ["A", "B"]
    a, b = np.arange(48, dtype="float32").reshape(6, 8), np.linspace(-1, 1, 8, dtype="float32")
    (found,) = child.call("profiling.run", {}, [a, b]).blobs
    np.testing.assert_allclose(found, 3 * (a @ b), rtol=1e-5)


def test_what_older_tvm_has_no_operators_for_is_refused_before_anything_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="no workload attention"):
        model_request(resolve_model("attention"), seed=0)


def test_todays_engine_says_who_reads_a_relay_module_as_json(files: Path) -> None:
    with pytest.raises(ModelError, match="only a TVM of its own age reads") as refused:
        import_source(resolve_model(str(files / "net.json")), seed=0, function=None)
    assert "--engine relay" in refused.value.remedy
