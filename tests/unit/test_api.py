"""`workbench.open` and `Session` without TVM: a stand-in answers for the worker, and counts what it is asked."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench
from workbench.api.places import default_place
from workbench.errors import EnvironmentFault, InputError, ModelError, SelectionError, SessionError, TargetError
from workbench.escaping import plain_value
from workbench.kernel import WorkerProcess
from workbench.machine import cpu_facts
from workbench.records.graph import GRAPH_DOCUMENT, KERNEL, KernelNode, ModelGraph
from workbench.records.request import ModelSource, ProfileRequest
from workbench.session import SessionDirectory, default_path, is_session
from workbench.workloads import BUNDLED

RELAY = "def @main(%x: Tensor[(1, 3), float32]) { nn.relu(%x) }"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, sessions: Any) -> list[ProfileRequest]:
    """What the worker was asked to profile; it measures the same four rows each time."""
    requests: list[ProfileRequest] = []

    def run(worker: Any, kind: str, arguments: dict[str, Any], *, on_event: Any = None, wanted: Any = None) -> dict[str, Any]:
        assert kind == "profile"
        request = ProfileRequest.from_dict(arguments)
        requests.append(request)
        profile = sessions.profile(["conv2d", "dense"], model=request.source.name)
        with worker._directory.store() as store:  # noqa: SLF001 - the stand-in writes where the worker would
            store.write_profile(profile, sessions.hashes(profile), {"request": request.to_dict(), "profile_id": str(len(requests))})
        return {}

    monkeypatch.setattr(WorkerProcess, "run", run)
    return requests


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.relay"
    path.write_text(RELAY)
    return path


def test_a_session_goes_to_the_default_place_and_is_reopened_by_its_directory(model: Path, asked: list[ProfileRequest]) -> None:
    with workbench.open(model, target="cpu", seed=7, threads=1) as session:
        assert session.path == model.parent / "workbench-sessions" / "net-cpu"
        first = session.profile()
    model.unlink()
    with workbench.open("workbench-sessions/net-cpu") as again:
        assert again.request == replace(session.request, source=replace(session.request.source))
        assert (again.request.threads, again.request.seed, again.request.target) == (1, 7, "cpu")
        assert again.profile().record == first.record
    assert len(asked) == 1


def test_a_session_that_never_got_a_profile_goes_when_it_is_closed(model: Path) -> None:
    workbench.open(model, target="cpu").close()
    assert list(model.parent.iterdir()) == [model]
    with pytest.raises(ZeroDivisionError), workbench.open(model, target="cpu", session="a/b"):
        raise ZeroDivisionError
    assert list(model.parent.iterdir()) == [model]


@pytest.mark.parametrize("options", [{"target": "llvm"}, {"fusion": False}, {"seed": 1}, {"threads": 3}, {"shapes": {"x": (2, 3)}}])
def test_a_stored_profile_is_not_given_for_another_request(options: dict[str, Any], model: Path, asked: list[ProfileRequest]) -> None:
    with workbench.open(model, target="cpu", session="s") as session:
        session.profile()
        session.profile()
    assert len(asked) == 1
    with workbench.open(model, session="s", **{"target": "cpu", **options}) as session:
        session.profile()
        session.profile()
        expected = session.request
    assert len(asked) == 2
    with workbench.open("s") as session:
        assert session.request.asks_the_same(expected)
        session.profile()
    assert len(asked) == 2


def kernels(*names: str) -> ModelGraph:
    """A graph with nothing but calls of kernels."""
    return ModelGraph((), tuple(KernelNode(KERNEL, name, row=row) for row, name in enumerate(names)))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "without keeping the model's graph"),
        ({"source": []}, "damaged"),
        ({"source": [], "kernels": [{"kind": "kernel", "name": "conv2d", "row": 3}]}, "damaged"),
        (kernels("dense", "conv2d").to_dict(), "not that of its profile"),
    ],
    ids=["none", "cut off", "nonsense", "another profile's"],
)
def test_a_session_without_a_graph_of_its_profile_says_profile_again(
    document: dict[str, Any] | None, message: str, model: Path, asked: list[ProfileRequest]
) -> None:
    with workbench.open(model, session="s") as session:
        session.profile()
        if document is not None:
            with session.directory.store() as store:
                store.write_document(GRAPH_DOCUMENT, document)
        with pytest.raises(SessionError, match=message) as caught:
            session.graph()
        assert "refresh=True" in caught.value.remedy


def test_a_session_hands_out_the_graph_that_was_kept_with_its_profile(model: Path, asked: list[ProfileRequest]) -> None:
    with workbench.open(model, session="s") as session:
        session.profile()
        with session.directory.store() as store:
            store.write_document(GRAPH_DOCUMENT, kernels("conv2d", "dense").to_dict())
        assert session.graph() == kernels("conv2d", "dense")


def test_a_model_that_was_edited_is_profiled_again(model: Path, asked: list[ProfileRequest]) -> None:
    workbench.open(model, session="s").profile()
    model.write_text(RELAY + " ")
    workbench.open(model, session="s").profile()
    workbench.open(model, session="s").profile()
    assert len(asked) == 2


def test_other_runs_are_measured_if_they_are_asked_for(model: Path, asked: list[ProfileRequest]) -> None:
    session = workbench.open(model, session="s")
    session.profile()
    session.profile(repeat=5)
    session.profile(repeat=5)
    session.profile()
    session.profile(refresh=True)
    assert [request.repeat for request in asked] == [None, 5, 5]
    assert workbench.open("s").request.repeat == 5


def test_runs_that_a_session_is_opened_with_count_against_a_stored_profile(model: Path, asked: list[ProfileRequest]) -> None:
    workbench.open(model, session="s").profile()
    workbench.open(model, session="s", repeat=7).profile()
    workbench.open(model, session="s", repeat=7).profile()
    workbench.open("s", repeat=3).profile()
    assert [request.repeat for request in asked] == [None, 7, 3]


def test_a_bundled_name_means_the_bundled_model_even_beside_a_session_of_that_name(model: Path, asked: list[ProfileRequest]) -> None:
    workbench.open(model, session="matmul").profile()
    assert workbench.open("matmul").request.source.kind == "workload"
    assert workbench.open("./matmul").request.source.kind == "relay"


def test_outputs_are_read_and_removed_inside_the_session_alone(model: Path, asked: list[ProfileRequest], monkeypatch: pytest.MonkeyPatch) -> None:
    session = workbench.open(model, session="s")
    session.profile()
    victim = model.parent / "victim"
    victim.mkdir()
    np.save(victim / "x.npy", np.zeros(3))
    own = session.directory.outputs("1")
    own.mkdir(parents=True)
    session.directory.outputs("2").symlink_to(victim)
    np.save(own / "x.npy", np.ones(3))
    (own / "link.npy").symlink_to(victim / "x.npy")
    monkeypatch.setattr(WorkerProcess, "run", lambda *_, **__: answer)
    answer: dict[str, Any] = {"folder": "1", "files": {"0": [{"file": "x.npy", "dtype": "float64"}]}}
    assert session.debug_outputs([0])[0][0].tolist() == [1, 1, 1]
    assert not own.exists()
    own.mkdir()
    np.save(own / "x.npy", np.ones(3))
    (own / "link.npy").symlink_to(victim / "x.npy")
    for folder, file in [
        *((folder, "x.npy") for folder in (str(victim), "../victim", "1/../../../victim", "2", "", None)),
        *(("1", file) for file in ("../../../victim/x.npy", str(victim / "x.npy"), "link.npy", "..", None)),
    ]:
        own.mkdir(exist_ok=True)
        answer = {"folder": folder, "files": {"0": [{"file": file, "dtype": "float64"}]}}
        with pytest.raises(SessionError):
            session.debug_outputs([0])
    assert (victim / "x.npy").exists()


def test_an_irmodule_replaces_that_of_the_stored_profile_only_with_it(tmp_path: Path) -> None:
    directory = SessionDirectory.create(tmp_path / "s")
    for stamp in ("a1", "b2"):
        directory.write_module(stamp, stamp.encode())
    assert directory.module("a1").read_bytes() == b"a1"
    directory.forget_modules(but="b2")
    assert [path.name for path in directory.path.glob("module*")] == ["module-b2.json"]


def test_options_change_what_a_reopened_session_profiles_and_the_others_stay(model: Path, asked: list[ProfileRequest]) -> None:
    workbench.open(model, target="cpu", seed=3, session="s").profile()
    workbench.open("s", fusion=False).profile()
    assert [(request.fusion, request.seed, request.target) for request in asked] == [(True, 3, "cpu"), (False, 3, "cpu")]


def test_a_profile_that_fails_changes_neither_the_session_nor_its_request(
    model: Path, asked: list[ProfileRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = workbench.open(model, session="s")
    record = session.profile().record

    def fail(*_: Any, **__: Any) -> None:
        raise EnvironmentFault("No.")

    monkeypatch.setattr(WorkerProcess, "run", fail)
    with pytest.raises(EnvironmentFault):
        session.profile(refresh=True, repeat=9)
    assert session.request.repeat is None
    assert session.profile().record == record
    session.close()
    assert is_session(Path("s"))


def test_a_session_that_was_begun_and_never_profiled_takes_the_new_request(model: Path, asked: list[ProfileRequest]) -> None:
    workbench.open(model, target="cpu", session="s")
    session = workbench.open(model, target="cuda:sm_90", session="s")
    assert workbench.open("s").request == session.request


def test_the_session_of_another_model_is_refused_and_loses_nothing(model: Path, asked: list[ProfileRequest]) -> None:
    record = workbench.open(model, target="cpu").profile().record
    (model.parent / "b").mkdir()
    other = model.parent / "b" / "net.relay"
    other.write_text(RELAY)
    with pytest.raises(SessionError, match=r"another model .*--session DIR"):
        workbench.open(other, target="cpu")
    with pytest.raises(SessionError, match=r"another model"):
        workbench.open("matmul", session="workbench-sessions/net-cpu")
    assert workbench.open("workbench-sessions/net-cpu").profile().record == record


def test_a_model_that_was_moved_keeps_its_session(model: Path, asked: list[ProfileRequest]) -> None:
    workbench.open(model, target="cpu").profile()
    (model.parent / "b").mkdir()
    moved = model.rename(model.parent / "b" / "net.relay")
    workbench.open(moved, target="cpu").profile()
    assert asked[-1].source.path == str(moved)


def test_trust_is_given_by_the_user_and_never_by_a_session(model: Path, asked: list[ProfileRequest]) -> None:
    script = model.with_suffix(".py")
    script.write_text("raise SystemExit")
    workbench.open(script, session="s", trust=True).profile()
    session = workbench.open("s")
    session.profile()
    with pytest.raises(ModelError, match=r"--trust"):
        session.profile(refresh=True)
    workbench.open("s", trust=True).profile(refresh=True)
    assert len(asked) == 2


def test_two_functions_of_one_name_are_two_requests_and_of_two_names_two_models(tmp_path: Path, asked: list[ProfileRequest]) -> None:
    def one() -> int:
        return 1

    def other() -> int:
        return 2

    workbench.open(one, session=tmp_path / "s").profile()
    with pytest.raises(SessionError, match=r"another model \(one\)"):
        workbench.open(other, session=tmp_path / "s")
    other.__name__ = "one"
    workbench.open(other, session=tmp_path / "s").profile()
    workbench.open(other, session=tmp_path / "s").profile()
    assert [request.source.name for request in asked] == ["one", "one"]


def test_a_function_that_cannot_travel_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    lock = threading.Lock()
    with pytest.raises(ModelError, match=r"cannot be handed to the worker"):
        workbench.open(lambda: lock, session=tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        *(({"threads": value}, InputError) for value in (0, -1, 1.5, True, "2", 10**9)),
        *(({"repeat": value}, InputError) for value in (0, "3")),
        *(({"seed": value}, InputError) for value in (-1, 2**63, 0.5)),
        *(({"target": value}, TargetError) for value in ("", "  ", 5)),
        *(({"shapes": value}, InputError) for value in ({"x": (0,)}, {"x": "ab"}, {"x": (1.5,)}, {"x": 3}, [("x", (1,))], {"x": (float("nan"),)})),
        *(({name: value}, InputError) for name in ("threads", "repeat", "seed") for value in (float("nan"), np.float64("inf"), np.bool_(1), 2**70)),
        *(({name: value}, InputError) for name in ("fusion", "trust") for value in (1, None, "no")),
        ({"layout": 5}, InputError),
    ],
)
def test_an_option_that_no_engine_can_use_is_refused_before_anything_is_made(options: dict[str, Any], error: type[Exception], model: Path) -> None:
    with pytest.raises(error):
        workbench.open(model, session="s", **options)
    assert list(model.parent.iterdir()) == [model]


def test_arguments_must_be_plain_values(model: Path) -> None:
    with pytest.raises(ModelError, match=r"no plain values"):
        workbench.open("matmul", args=(object(),), session="s")
    wrong: list[Any] = [(float("nan"),), (np.float32("inf"),), "[1, 2]", 5, {1, print}]
    for args in wrong:
        with pytest.raises(ModelError, match=r"no plain values"):
            workbench.open("matmul", args=args, session="s")
    assert workbench.open("matmul", args=(64, [1, (2, 3)]), session="s").request.source.args == (64, [1, [2, 3]])


@pytest.mark.parametrize("model", [None, 5, b"net.onnx", ["net.onnx"]])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(ModelError, match=r"is no model"):
        workbench.open(model)


def test_all_physical_cores_are_the_default(model: Path) -> None:
    assert workbench.open(model, session="s").request.threads == cpu_facts().physical_cores
    assert workbench.open(model, session="t", threads=1).request.threads == 1


def test_different_targets_have_different_default_places(model: Path) -> None:
    targets = ["cpu", "cuda:sm_90", "llvm -mcpu=znver4", "llvm -mcpu=znver5", *(f'{{"kind": "llvm", "mcpu": "x{"y" * 60}{end}"}}' for end in "ab")]
    places = {workbench.open(model, target=target).path.name for target in targets}
    assert len(places) == len(targets)
    assert {"net-cpu", "net-cuda-sm_90"} < places


def test_a_selection_made_in_python_is_kept_in_the_session(model: Path, asked: list[ProfileRequest]) -> None:
    with workbench.open(model, session="s") as session:
        selection = session.profile().select(top=1)
    assert workbench.open("s").selection == selection
    with workbench.open("s") as again:
        again.profile(refresh=True)
        assert again.selection == replace(selection, rule=f"{selection.rule}; made before the present profile")


def test_the_frame_has_the_columns_of_the_debug_runtime_first(model: Path, asked: list[ProfileRequest]) -> None:
    frame = workbench.open(model, session="s").profile().frame()
    assert list(frame.columns)[:7] == ["Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs"]
    assert list(frame["Node Name"]) == ["conv2d", "dense", "runtime"]


@pytest.mark.parametrize("row", [2, -1, 10**9, 10**5000], ids=plain_value)
def test_outputs_of_a_row_that_is_no_kernel_call_are_refused(row: int, model: Path, asked: list[ProfileRequest]) -> None:
    with pytest.raises(SelectionError, match=r"rows 0 to 1"):
        workbench.open(model, session="s").debug_outputs([row])


def test_rows_of_outputs_come_alone_in_a_list_or_as_a_text(model: Path, asked: list[ProfileRequest], monkeypatch: pytest.MonkeyPatch) -> None:
    session = workbench.open(model, session="s")
    session.profile()
    told: list[Any] = []

    def run(worker: Any, kind: str, arguments: dict[str, Any], *, on_event: Any = None, wanted: Any = None) -> dict[str, Any]:
        told.append(json.loads(json.dumps(arguments["rows"])))
        return {"folder": "1", "files": {}}

    monkeypatch.setattr(WorkerProcess, "run", run)
    wanted: list[Any] = [[0, 1], np.array([0, 1]), "0,1", "0-1", 1, np.int32(1)]
    for rows in wanted:
        assert session.debug_outputs(rows) == {}
    assert told == [[0, 1]] * 4 + [[1]] * 2
    wrong: list[Any] = [None, 0.5, float("nan"), [True], ["0"], "x", print]
    for rows in wrong:
        with pytest.raises(SelectionError) as refused:
            session.debug_outputs(rows)
        assert refused.value.remedy


def test_a_session_on_a_read_only_medium_shows_its_profile(small_medium: Any, model: Path, asked: list[ProfileRequest]) -> None:
    with workbench.open(model, session=small_medium.path / "s") as session:
        record = session.profile().record
    small_medium.make_read_only()
    with workbench.open(small_medium.path / "s") as session:
        assert session.profile().record == record
        with pytest.raises(EnvironmentFault):
            session.profile().select(top=1)
    assert os.listdir(small_medium.path) == ["s"]  # noqa: PTH208


@pytest.mark.parametrize("repeat", [0, -1, True, 2.5, "3", float("nan"), float("inf"), 2**31, 10**5000], ids=plain_value)
def test_a_number_of_rounds_that_is_none_is_refused(tmp_path: Path, repeat: Any) -> None:
    with workbench.open("matmul", session=tmp_path / "s") as session, pytest.raises(workbench.errors.InputError, match="repeat is"):
        session.profile(repeat=repeat)


def test_a_fork_of_the_process_neither_uses_nor_removes_its_session(tmp_path: Path) -> None:
    session = workbench.open("matmul", session=tmp_path / "s")
    child = os.fork()
    if child == 0:
        try:
            session.profile()
        except workbench.errors.SessionError:
            session.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "s" / "session.sqlite").exists()
    session.close()


def test_modules_have_default_places_of_their_own() -> None:
    sources = [ModelSource(kind="ir_json", name="module", stamp=stamp * 64) for stamp in "ab"]
    assert [default_place(source, "cpu").name for source in sources] == ["module-aaaaaaaa-cpu", "module-bbbbbbbb-cpu"]


ARGUMENTS: list[Any] = [
    *(None, [], [64, 64, 64], [64, 64, 65], [646464], ["64x64", 64], ["64", "64", "64"], [64.0, 64, 64], [True, 64], [[64, 64], 64], [None]),
    *([-64, 64], ["é", 1], ["../x"], [10**30], [1] * 50, [1] * 51, ["a" * 100], ["a" * 101]),
]


def test_different_arguments_have_different_default_places_that_are_short_and_safe() -> None:
    for name in ("matmul", "x" * 70, "свёртка", "<lambda>"):
        sources = [ModelSource(kind="workload", name=name, args=None if args is None else tuple(args)) for args in ARGUMENTS]
        places = [default_place(source, "cpu") for source in sources]
        assert len(set(places)) == len(ARGUMENTS)
        assert all(place.name.isascii() and len(place.name) <= 70 and place.parent == Path("workbench-sessions") for place in places)
        assert places[0] == default_path(name, "cpu")
    assert default_place(ModelSource(kind="workload", name="matmul", args=(64, 64, 64)), "cuda:sm_90").name == "matmul-64x64x64-cuda-sm_90"


def test_a_workload_and_a_search_task_of_the_same_arguments_share_a_place_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[ProfileRequest]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = workbench.open("matmul", args=[64, 64, 64], target="cpu")
    record = first.profile().record
    other = workbench.open("matmul", args=[64, 64, 65], target="cpu")
    other.profile()
    assert first.path != other.path
    with workbench.SearchTask("matmul", np.array([64, 64, 64]), "cpu") as task:  # type: ignore[arg-type]
        assert task.session.path == first.path
        assert task.session.profile().record == record
    assert len(asked) == 2


@pytest.mark.parametrize("profiled", [True, False])
def test_a_session_of_other_arguments_is_refused_and_loses_nothing(profiled: bool, tmp_path: Path, asked: list[ProfileRequest]) -> None:
    place = tmp_path / "s"
    session = workbench.open("matmul", args=[64, 64, 64], session=place)
    if not profiled:  # then nothing is lost
        assert workbench.open("matmul", args=[8, 8, 8], session=place).request.source.args == (8, 8, 8)
        return
    record = session.profile().record
    for args in ([8, 8, 8], None, [64, 64]):
        with pytest.raises(SessionError, match=r"with other arguments \(\[64, 64, 64\]\).*--session DIR"):
            workbench.open("matmul", args=args, session=place)
    with pytest.raises(SessionError, match=r"with other arguments"):
        workbench.open(place, args=[8, 8, 8])
    assert workbench.open(place, args=np.array([64, 64, 64])).profile().record == record  # type: ignore[arg-type]
    assert workbench.open("matmul", args=(64, 64, 64), session=place).profile().record == record
    assert len(asked) == 1


def test_the_own_arguments_of_a_bundled_workload_are_its_own_when_they_are_given(tmp_path: Path, asked: list[ProfileRequest]) -> None:
    record = workbench.open("matmul", session=tmp_path / "s").profile().record
    assert workbench.open("matmul", args=BUNDLED["matmul"].arguments, session=tmp_path / "s").stored_profile() is not None
    assert workbench.open(tmp_path / "s").profile().record == record


def test_a_session_of_a_model_takes_no_arguments(model: Path, asked: list[ProfileRequest]) -> None:
    workbench.open(model, session="s").profile()
    with pytest.raises(ModelError, match=r"takes no --args"):
        workbench.open("s", args=[1])


def test_numbers_of_numpy_open_a_session(model: Path, asked: list[ProfileRequest]) -> None:
    numbers: dict[str, Any] = {"threads": np.int64(1), "repeat": np.uint8(3), "seed": np.int32(7), "shapes": {"x": np.array([1, 3])}}
    session = workbench.open(model, session="s", **numbers)
    session.profile(repeat=np.int64(4))  # type: ignore[arg-type]
    request = ProfileRequest.from_dict(json.loads(json.dumps(asked[0].to_dict())))
    assert (request.threads, request.repeat, request.seed, request.source.shapes) == (1, 4, 7, {"x": (1, 3)})
    assert workbench.open("matmul", args=[np.int64(8), np.float32(0.5), [np.uint8(2)]], session="t").request.source.args == (8, 0.5, [2])
