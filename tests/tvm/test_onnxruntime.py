"""The model that is applied beside the real onnxruntime, which knows nothing of TVM: a faulty import or lowering would show here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import workbench
from workbench.models import resolve_model
from workbench.records.comparison import RECORD
from workbench.records.trial import MeasureOptions

pytestmark = pytest.mark.onnxruntime

HANG_S = 300
QUICK = MeasureOptions(repeat=3, min_repeat_ms=1.0)


def with_random_weights(path: Path) -> Path:
    """The bundled SqueezeNet with weights that make its outputs differ from each other: those that it comes with are placeholders."""
    model = onnx.load(resolve_model("squeezenet").path)
    dice = np.random.default_rng(0)
    made = {node.output[0]: node for node in model.graph.node if node.op_type == "ConstantOfShape"}
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for name, node in made.items():
        shape = tuple(int(size) for size in shapes[node.input[0]])
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 100
        weight = (dice.standard_normal(shape) * np.sqrt(2.0 / fan)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
        model.graph.node.remove(node)
    assert len(made) > 20
    onnx.save(model, str(path))
    return path


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of the network, with one of its kernels searched."""
    folder = tmp_path_factory.mktemp("onnxruntime")
    with workbench.open(with_random_weights(folder / "net.onnx"), target="cpu", threads=2, repeat=1, session=folder / "s") as session:
        tasks = sorted(session.profile().tasks, key=lambda task: task.time_us or 0.0)
        selection = session.profile().select(tasks=[next(task.task for task in tasks if "conv2d" in task.name)])
        session.tune(selection, per_task=4, measure=QUICK).wait(HANG_S)
    return folder / "s"


@pytest.fixture
def session(searched: Path, tmp_path: Path) -> Iterator[workbench.Session]:
    shutil.copytree(searched, tmp_path / "s")
    with workbench.open(tmp_path / "s") as opened:
        yield opened


def test_a_bundled_network_computes_what_onnxruntime_does(session: workbench.Session) -> None:
    comparison = session.apply(inputs=1, rounds=1)
    assert comparison.applied, comparison.verification.reason
    assert comparison.verification.onnxruntime.startswith("largest difference ")
    (found,) = [item for item in comparison.verification.differences if item.against == "onnxruntime"]
    assert (found.passed, found.mismatches, found.elements) == (True, 0, 1000)
    assert found.max_abs is not None
    assert 0.0 < found.max_abs < 1e-4
    assert not comparison.verification.reason  # the outputs are no constants, of which agreement would prove little
    assert all(item.used == RECORD or item.why for item in comparison.kernels)


def test_a_program_that_is_not_the_model_is_not_applied(session: workbench.Session) -> None:
    """As after a fault of the importer: the file holds another weight than the program that was made of it."""
    path = Path(session.request.source.path)
    before, times = path.read_bytes(), path.stat()
    model = onnx.load_from_string(before)
    weight = next(tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 4)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.5), weight.name))
    path.write_bytes(model.SerializeToString())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    try:
        comparison = session.apply(inputs=1, rounds=1)
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not comparison.applied
    assert "onnxruntime" in comparison.verification.reason
    assert "the tuning is not to blame" in comparison.verification.reason
    assert not session.directory.tuned.exists()
