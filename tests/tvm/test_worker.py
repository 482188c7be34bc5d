"""Sessions with a real worker: what is measured once is kept, shared, and the same in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import te

import workbench
from workbench.api import opening
from workbench.errors import EnvironmentFault, Interrupted, ModelError, SessionError, WorkerDied

HANG_S = 120
SMALL = (16, 16, 16)


def write_model(path: Path) -> onnx.ModelProto:
    """``y = relu(x @ w)`` of 4x8 by 8x4; w holds 0.5 and -0.5."""
    weights = np.where(np.arange(32).reshape(8, 4) % 3 == 0, 0.5, -0.5).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], name="first"), helper.make_node("Relu", ["h"], ["y"], name="second")],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return model


def python(code: str, folder: Path) -> Any:
    """What a process of its own prints as JSON."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def worker_pid(session: workbench.Session) -> int:
    pid = session._worker.pid  # noqa: SLF001 - which process it is matters to tests alone
    assert pid is not None
    return pid


def test_a_profile_is_measured_linked_and_recorded(tmp_path: Path) -> None:
    with workbench.open("conv2d_relu", args=(1, 7, 7, 16, 16, 3, 3, 1, 1), target="cpu", threads=1, session=tmp_path / "s") as session:
        profile = session.profile(repeat=3)
        manifest = session.manifest()
        assert sum(task.weight for task in profile.tasks) == len(profile.record.kernel_rows)
        assert all(row.origins and (row.task or row.kernel is None) for row in profile.rows)
        assert profile.record.total_us is not None
        assert profile.record.threads == manifest["measurement"]["threads"] == manifest["request"]["threads"] == 1
        environment = psutil.Process(worker_pid(session)).environ()
    assert environment["TVM_NUM_THREADS"] == "1"
    assert {"format_version", "request", "engine", "versions", "target", "lowering", "machine", "timings"} <= set(manifest)


def test_the_graph_comes_with_the_profile_and_needs_no_worker(tmp_path: Path) -> None:
    write_model(tmp_path / "model.onnx")
    with workbench.open(tmp_path / "model.onnx", target="cpu", threads=1, session=tmp_path / "s") as session:
        profile = session.profile(repeat=1)
        graph = session.graph()
    assert [[str(node.origin) for node in graph.source if row.row in node.rows] for row in profile.record.kernel_rows] == [
        [str(origin) for origin in row.origins] for row in profile.record.kernel_rows
    ]
    with workbench.open(tmp_path / "s") as again:
        assert again.graph() == graph
        assert again._worker.pid is None  # noqa: SLF001 - which process there is matters to tests alone


def test_two_threads_are_two_threads(tmp_path: Path) -> None:
    with workbench.open("matmul", args=SMALL, threads=2, session=tmp_path / "s") as session:
        assert session.profile(repeat=2).record.threads == 2


def test_the_worker_stays_warm_and_goes_with_the_session(tmp_path: Path) -> None:
    with workbench.open("matmul", args=SMALL, session=tmp_path / "s") as session:
        session.profile(repeat=2)
        process = psutil.Process(worker_pid(session))
        session.profile(repeat=3)
        session.debug_outputs([0])
        assert worker_pid(session) == process.pid
    assert not process.is_running()
    assert not session.directory.is_served()


def test_outputs_are_those_of_the_model_also_in_a_new_process_without_the_model_file(tmp_path: Path) -> None:
    model = write_model(tmp_path / "net.onnx")
    with workbench.open(tmp_path / "net.onnx", target="cpu", session=tmp_path / "s", seed=3) as session:
        rows = [row.row for row in session.profile(repeat=2).record.kernel_rows]
        outputs = session.debug_outputs(rows)[rows[-1]][0]
        profiled_at = session.manifest()["profile_id"]
    (tmp_path / "net.onnx").unlink()
    code = f"import json, workbench\nwith workbench.open('s') as s: print(json.dumps([s.debug_outputs([{rows[-1]}])[{rows[-1]}][0].tolist(), "
    again, identifier = python(code + "s.manifest()['profile_id']]))", tmp_path)
    assert identifier == profiled_at
    np.testing.assert_array_equal(np.array(again, "float32"), outputs)
    assert outputs.shape == (4, 4)
    assert (outputs >= 0).all()
    assert (outputs > 0).any()
    assert _is_a_value_of(model, outputs)
    assert list((tmp_path / "s" / "artifacts").iterdir()) == []


def _is_a_value_of(model: onnx.ModelProto, outputs: np.ndarray[Any, Any]) -> bool:
    """Whether some input gives these outputs: y = relu(x @ w), where the pseudo-inverse finds such an x if all of y is positive."""
    weights = numpy_helper.to_array(model.graph.initializer[0])
    inputs = outputs @ np.linalg.pinv(weights)
    return bool(np.allclose(ReferenceEvaluator(model).run(None, {"x": inputs.astype("float32")})[0], outputs, atol=1e-4))


def test_the_same_inputs_give_the_same_outputs_as_numpy(tmp_path: Path) -> None:
    def doubled_sum(size: int) -> list[Any]:
        left, right = (te.placeholder((size,), name=name) for name in ("left", "right"))
        total = te.compute((size,), lambda i: (left[i] + right[i]) * 2.0, name="total")
        clipped = te.compute((size,), lambda i: te.max(total[i], 0.5), name="clipped")
        return [left, right, clipped]

    with workbench.open(doubled_sum, args=(33,), target="cpu", session=tmp_path / "s") as session:
        first = session.debug_outputs([0])[0][0]
        assert first.shape == (33,)
        assert first.min() >= 0.5
        session.profile(refresh=True)
        np.testing.assert_array_equal(session.debug_outputs([0])[0][0], first)


def test_a_function_of_any_size_travels_from_this_process(tmp_path: Path) -> None:
    ballast = os.urandom(1_000_000)

    def shifted(size: int) -> list[Any]:
        given = te.placeholder((size,), name="given")
        return [given, te.compute((size,), lambda i: given[i] * 0.0 + float(len(ballast)), name="shifted")]

    with workbench.open(shifted, args=(8,), target="cpu", session=tmp_path / "s") as session:
        session.profile(repeat=2)
        np.testing.assert_array_equal(session.debug_outputs([0])[0][0], np.full(8, 1e6, "float32"))


def test_a_function_that_the_worker_cannot_load_is_an_error_of_the_model(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (__import__, ("no_such_module_anywhere",))

    bomb = Bomb()
    with workbench.open(lambda: [bomb], session=tmp_path / "s") as session, pytest.raises(ModelError, match=r"no_such_module_anywhere"):
        session.profile()


@pytest.mark.parametrize("ending", ["raise SystemExit(0)", "input()", "1 / 0", "import os; os._exit(0)"])
def test_a_function_that_fails_in_any_way_is_an_error_and_no_hang(ending: str, tmp_path: Path) -> None:
    def failing() -> list[Any]:
        exec(ending)  # noqa: S102 - the ways to fail are data
        return []

    with workbench.open(failing, session=tmp_path / "s") as session, pytest.raises((ModelError, WorkerDied, workbench.WorkbenchError)):
        session.profile()
    assert list(tmp_path.iterdir()) == []


def test_a_module_beside_the_users_script_is_found_by_the_worker(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "scripts" / "my_layers.py").write_text(
        "from tvm import te\ndef twice(n):\n    x = te.placeholder((n,), name='x')\n"
        "    return [x, te.compute((n,), lambda i: x[i] * 2.0, name='twice')]\n"
    )
    (tmp_path / "scripts" / "run.py").write_text(
        "import json, my_layers, workbench\n"
        "with workbench.open(my_layers.twice, args=(8,), session='s') as s: print(json.dumps(len(s.profile().rows)))"
    )
    (tmp_path / "elsewhere" / "tvm.py").write_text("raise SystemExit('the wrong tvm')")
    environment = {**os.environ, "PYTHONPATH": str(Path(workbench.__file__).parents[1])}
    command = [sys.executable, str(tmp_path / "scripts" / "run.py")]
    done = subprocess.run(command, cwd=tmp_path / "elsewhere", env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) >= 1


def test_an_irmodule_of_this_process_is_profiled(tmp_path: Path) -> None:
    builder = tvm.relax.BlockBuilder()
    given = tvm.relax.Var("x", tvm.relax.TensorType([4, 4], "float32"))
    with builder.function("main", [given]):
        builder.emit_func_output(builder.emit(tvm.relax.op.nn.relu(builder.emit(tvm.relax.op.add(given, given)))))
    with workbench.open(builder.get(), target="cpu", session=tmp_path / "s") as session:
        assert len(session.profile(repeat=2).record.kernel_rows) >= 1
    kept = [path.name for path in (tmp_path / "s").glob("module*")]
    with builder.function("other", [given]):
        builder.emit_func_output(builder.emit(tvm.relax.op.nn.relu(given)))
    with workbench.open(builder.get(), target="cpu", session=tmp_path / "s"):
        pass  # nothing is profiled, so that the module of the stored profile stays
    assert [path.name for path in (tmp_path / "s").glob("module*")] == kept
    assert len(kept) == 1
    moved = (tmp_path / "s").rename(tmp_path / "moved")
    with workbench.open(moved) as session:
        assert session.debug_outputs([0])[0][0].shape == (4, 4)
        session.profile(refresh=True, repeat=2)


def test_two_fronts_share_one_worker_and_both_get_answers(tmp_path: Path) -> None:
    with workbench.open("matmul", args=SMALL, session=tmp_path / "s") as session:
        session.profile(repeat=2)
        mine = session.debug_outputs([0])[0][0]
        pid = worker_pid(session)
        code = "import json, workbench\nwith workbench.open('s') as s: print(json.dumps([s.debug_outputs([0])[0][0].tolist(), s._worker.pid]))"
        theirs, their_pid = python(code, tmp_path)
        assert their_pid is None
        np.testing.assert_array_equal(np.array(theirs, "float32"), mine)
        assert worker_pid(session) == pid
        session.debug_outputs([0])


def test_two_fronts_that_begin_together_both_get_answers(tmp_path: Path) -> None:
    with workbench.open("matmul", args=SMALL, session=tmp_path / "s") as session:
        session.profile(repeat=2)
    code = "import workbench\nwith workbench.open('s') as s: print(len(s.debug_outputs([0])))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    fronts = [subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [front.communicate(timeout=HANG_S)[0] for front in fronts] == ["1\n"] * 3
    assert not session.directory.is_served()


def adding(number: float) -> Callable[[], list[Any]]:
    """A TE function called ``one``, as a notebook's cell defines it again after every edit."""

    def one() -> list[Any]:
        given = te.placeholder((4,), name="given")
        return [given, te.compute((4,), lambda i: given[i] + number, name="more")]

    return one


def test_a_function_that_was_edited_and_opened_again_takes_its_session_over(tmp_path: Path) -> None:
    with workbench.open(adding(1.0), threads=1, session=tmp_path / "s", repeat=1) as first:
        before = first.debug_outputs([0])[0][0]
        with workbench.open(adding(2.0), threads=1, session=tmp_path / "s", repeat=1) as second:
            np.testing.assert_allclose(second.debug_outputs([0])[0][0] - before, 1.0, rtol=1e-5)


def test_a_front_with_other_threads_or_another_function_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with workbench.open(adding(1.0), threads=1, session=tmp_path / "s") as first:
        first.profile(repeat=2)
        monkeypatch.setattr(opening, "_opened", {})  # as in another process, which knows nothing of this session
        with workbench.open(adding(2.0), threads=1, session=tmp_path / "s") as second, pytest.raises(SessionError, match=r"another function"):
            second.profile()
        monkeypatch.setattr(opening, "_opened", {})
        with workbench.open(adding(1.0), threads=2, session=tmp_path / "s") as second, pytest.raises(EnvironmentFault, match=r"1 threads, not on 2"):
            second.profile()
    with workbench.open(tmp_path / "s") as reopened, pytest.raises(SessionError, match=r"lives in the process that defined it"):
        reopened.profile(refresh=True)


def stranger(folder: Path) -> tuple[dict[str, Any], Path]:
    """A command that runs a stranger's file and claims to be trusted, and what the file leaves behind when it runs."""
    marker, script = folder / "marker", folder / "evil.py"
    script.write_text(f"from pathlib import Path\nPath({str(marker)!r}).touch()\n")
    source = {"kind": "relax", "name": "evil", "path": str(script), "trust": True}
    return {"source": source, "target": "cpu", "threads": 1, "trust": True}, marker


def test_a_command_that_waits_in_a_strangers_session_is_not_done(tmp_path: Path) -> None:
    arguments, marker = stranger(tmp_path)
    with workbench.open("matmul", args=SMALL, threads=1, session=tmp_path / "s") as session:
        session.profile(repeat=2)
    with session.directory.store() as store:
        planted = store.add_command("profile", arguments)
    for trust in (False, True):
        with workbench.open(tmp_path / "s", trust=trust) as session:
            assert session.debug_outputs([0])[0][0].shape == (16, 16)
        with session.directory.store() as store:
            assert store.command(planted).state == "abandoned"
    assert not marker.exists()


def test_trust_comes_from_the_front_and_from_no_command(tmp_path: Path) -> None:
    arguments, marker = stranger(tmp_path)
    with workbench.open("matmul", args=SMALL, threads=1, session=tmp_path / "s") as session:
        session.profile(repeat=2)
        with session.directory.store() as store:
            for claim in ({}, {"expects_trust": True}):
                number = store.add_command("profile", {**arguments, **claim})
                wait_until(lambda number=number: store.command(number).state == "failed")  # type: ignore[misc]
                failure = store.command(number).failure
                assert failure is not None
                assert "trust" in failure.remedy
        assert not marker.exists()
        with workbench.open(tmp_path / "s", trust=True) as other, pytest.raises(EnvironmentFault, match=r"started without trust"):
            other.profile(refresh=True)


def test_a_callback_that_fails_ends_the_work_and_the_worker_goes_on(tmp_path: Path) -> None:
    def fail(event: Any) -> None:
        raise ZeroDivisionError

    with workbench.open("matmul", args=SMALL, session=tmp_path / "s") as session:
        with pytest.raises(ZeroDivisionError):
            session.profile(repeat=10**9, on_event=fail)
        pid = worker_pid(session)
        session.profile(repeat=2)
        assert worker_pid(session) == pid
        assert session.manifest()["last_stop"] is None


def test_an_interrupted_profile_leaves_the_old_one_and_its_program(tmp_path: Path) -> None:
    def interrupt(event: Any) -> None:
        if str(event.data.get("phase")).startswith("measure"):
            raise KeyboardInterrupt

    with workbench.open("matmul", args=SMALL, session=tmp_path / "s") as session:
        record = session.profile(repeat=2).record
        outputs = session.debug_outputs([0])[0][0]
    with workbench.open("matmul", args=SMALL, seed=1, session=tmp_path / "s") as session:
        with pytest.raises(Interrupted):
            session.profile(repeat=10**9, on_event=interrupt)
        assert session.manifest()["last_stop"]["cause"] == "stopped by the user"
    with workbench.open(tmp_path / "s") as session:
        assert session.profile().record == record
        np.testing.assert_array_equal(session.debug_outputs([0])[0][0], outputs)
    assert [path.name for path in (tmp_path / "s").glob("program*")] == ["program"]
