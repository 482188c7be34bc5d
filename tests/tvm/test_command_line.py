"""The command line with TVM: every kind of bad model, shape, target and disk is one sentence with a remedy, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

HANG_S = 120
PROFILE_KEYS = {"model", "engine", "target", "total_us", "rows_us", "rows", "tasks", "measured"}
ROW_KEYS = {"row", "node_name", "ops", "origins", "time_us", "time_us_iqr", "time_percent", "shape", "dtype", "inputs", "outputs", "flop"}
ROW_KEYS |= {"gflops", "kernel", "task", "untunable"}
TASK_KEYS = {"task", "name", "weight", "rows", "time_us", "flop", "space_size", "shapes"}

Answer = subprocess.CompletedProcess[str]


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., Answer]:
    """Runs the command line in a process of its own, in an empty folder."""

    def run(*arguments: str, **variables: str) -> Answer:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
        command = [sys.executable, "-m", "workbench.cli.main", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False, stdin=subprocess.DEVNULL
        )

    return run


def model(*, shape: tuple[int | str, ...] = (4, 8), name: str = "first", opset: int = 17, op: str = "Relu", given: str = "x") -> bytes:
    graph = helper.make_graph(
        [helper.make_node("MatMul", [given, "w"], ["h"], name=name), helper.make_node(op, ["h"], ["y"], name="second")],
        "graph",
        [helper.make_tensor_value_info(given, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], 4])],
        [numpy_helper.from_array(np.ones((8, 4), "float32"), "w")],
    )
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return made.SerializeToString()


def is_one_sentence_with_a_remedy(answer: Answer) -> bool:
    said = [line for line in answer.stderr.splitlines() if not line.startswith(" ")]  # progress is indented
    return (
        len(said) == 1 and said[0].startswith("workbench: ") and said[0].isprintable() and said[0].rstrip(".").count(". ") + said[0].count("? ") >= 1
    )


def test_a_profile_as_json_is_exactly_what_is_promised(call: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(model(shape=(1024, 8)))
    answer = call("--json", "-", "profile", "net.onnx", "--target", "cpu", "--repeat", "2", "--threads", "1")
    assert answer.returncode == 0, answer.stderr
    values = json.loads(answer.stdout)
    assert set(values) >= PROFILE_KEYS
    assert all(set(row) >= ROW_KEYS for row in values["rows"])
    assert all(set(task) >= TASK_KEYS for task in values["tasks"])
    assert (values["model"], values["engine"], values["target"], values["measured"], values["threads"]) == ("net", "relax", "cpu", True, 1)
    assert answer.stderr.splitlines()[-1] == "session: workbench-sessions/net-cpu"
    tasks = json.loads(call("tasks", "--json", "-").stdout)["tasks"]
    limits = [(task.pop("limit_percent"), task.pop("best_limit_percent")) for task in tasks]
    assert tasks == [{**task, "state": None, "best_us": None, "other_conditions": None, "trials": 0} for task in values["tasks"]]
    assert all(now is not None and 0 < now <= 150 and best is None for now, best in limits)  # of this machine, as it is measured now
    assert call("select", "--top", "1").returncode == 0
    quiet = call("profile", "net.onnx", "--target", "cpu", "--repeat", "2", "-q")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert json.loads(call("select", "--json", "-").stdout)["tasks"][0]["task"] in {task["task"] for task in tasks}


def test_without_a_device_times_are_null_and_it_says_why(call: Callable[..., Answer]) -> None:
    answer = call("profile", "matmul", "--args", "[64, 64, 64]", "--target", "cuda:sm_90", "--json", "-")
    assert answer.returncode == 0, answer.stderr
    values = json.loads(answer.stdout)
    if values["measured"]:
        pytest.skip("there is a CUDA device here")
    assert values["unmeasured"]
    assert {row["time_us"] for row in values["rows"]} == {None}
    assert (values["total_us"], values["rows_us"]) == (None, None)


BAD: dict[str, tuple[bytes, list[str]]] = {  # of each kind one: what else is refused, and how, the tests of the importers and targets say
    "cut off": (model()[: int(len(model()) * 0.9)], []),
    "an operator that nobody knows": (model(op="Frobnicate"), []),
    "a shape that does not fit": (model(), ["--shape", "x=5,9"]),
    "a hostile target": (model(), ["--target", "\x1b[31m" + "x" * 10_000]),
    "malformed arguments": (model(), ["--args", "[1"]),
    "a malformed shape": (model(), ["--shape", "x=1,,2"]),
}


@pytest.mark.parametrize("case", list(BAD))
def test_a_bad_model_is_one_sentence_and_leaves_nothing(case: str, call: Callable[..., Answer], tmp_path: Path) -> None:
    content, options = BAD[case]
    (tmp_path / "m.onnx").write_bytes(content)
    answer = call("profile", "m.onnx", *options)
    assert (answer.returncode, answer.stdout) == (2, ""), answer.stderr
    assert is_one_sentence_with_a_remedy(answer), answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("content", ["def @main(", "fn (%x: Tensor[(1), float32]) { \x1b[31m }"])
def test_a_bad_relay_text_is_one_sentence_and_leaves_nothing(content: str, call: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "m.relay").write_text(content)
    answer = call("profile", "m.relay")
    assert answer.returncode == 2, answer.stderr
    assert is_one_sentence_with_a_remedy(answer), answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.relay"]


def test_an_error_shows_its_full_text_only_on_demand(call: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(model(op="Frobnicate"))
    assert "Traceback" in call("profile", "m.onnx", "-v").stderr


def test_a_dynamic_dimension_can_be_given(call: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(model(shape=("batch", 8)))
    assert call("profile", "m.onnx", "--shape", "x=2,8", "--repeat", "2").returncode == 0


HOSTILE = ["<script>alert(1)</script>", "a\"b'c", "a\nb\r", "\x1b[31mred", "x" * 10_000, "свёртка畳"]


def test_names_of_strangers_reach_no_terminal_as_they_are(call: Callable[..., Answer], tmp_path: Path) -> None:
    names = " ".join(HOSTILE)
    file = f"{names.replace('/', '_')[:60]} свёртка畳.onnx"
    (tmp_path / file).write_bytes(model(name=names, given=names))
    answer = call("profile", file, "--repeat", "2")
    assert answer.returncode == 0, answer.stderr
    for text in (answer.stdout, answer.stderr):
        assert all(sign.isprintable() or sign == "\n" for sign in text)
        assert max(map(len, text.splitlines())) < 500
    place = next((tmp_path / "workbench-sessions").iterdir())
    assert place.name.isascii()
    assert len(place.name) < 100
    refused = call("profile", file, "--shape", f"{names}=3,3")
    assert refused.returncode == 2
    assert is_one_sentence_with_a_remedy(refused), refused.stderr


def test_a_session_of_another_model_in_the_default_place_is_refused(call: Callable[..., Answer], tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.onnx").write_bytes(model())
    assert call("profile", "a/net.onnx", "--repeat", "2").returncode == 0
    before = call("tasks", "--json", "-").stdout
    answer = call("profile", "b/net.onnx", "--repeat", "2")
    assert answer.returncode == 2
    assert is_one_sentence_with_a_remedy(answer), answer.stderr
    assert call("tasks", "--json", "-").stdout == before
    assert call("profile", "b/net.onnx", "--repeat", "2", "--session", "other").returncode == 0


def test_a_session_directory_as_model_is_measured_again_with_its_own_options(call: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(model())
    assert call("profile", "net.onnx", "--target", "cpu", "--repeat", "2", "--seed", "5", "--session", "s").returncode == 0
    answer = call("profile", "s", "--json", "-", "--no-fusion", "--repeat", "2")
    assert answer.returncode == 0, answer.stderr
    assert len(json.loads(answer.stdout)["rows"]) >= 2
    (tmp_path / "net.onnx").unlink()
    refused = call("profile", "s")
    assert refused.returncode == 2
    assert is_one_sentence_with_a_remedy(refused), refused.stderr
    assert call("tasks", "--session", "s").returncode == 0


def test_a_workload_of_a_module_in_the_current_folder_needs_trust(call: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(
        "import workbench\nfrom tvm import te\n@workbench.register_workload\ndef twice(n):\n"
        "    x = te.placeholder((n,), name='x')\n    return [x, te.compute((n,), lambda i: x[i] * 2.0, name='twice')]\n"
    )
    assert call("profile", "layers:twice", "--args", "[8]").returncode == 2
    answer = call("profile", "layers:twice", "--args", "[8]", "--trust", "--repeat", "2", "--json", "-")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["model"] == "twice"


def test_unwritable_results_are_refused_before_the_model_is_read(call: Callable[..., Answer], tmp_path: Path) -> None:
    for option in ("--json", "--csv"):
        answer = call("profile", "matmul", option, "nowhere/x")
        assert answer.returncode == 2
        assert is_one_sentence_with_a_remedy(answer), answer.stderr
    assert list(tmp_path.iterdir()) == []
