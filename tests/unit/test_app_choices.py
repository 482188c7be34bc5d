"""What can be chosen and dropped: requests from a page are strangers' data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import InputError, ModelError
from workbench.notebook.app.choices import Opening, engine_choices, model_choices, read_engine, read_opening, session_choices, target_choices
from workbench.notebook.app.uploads import Upload
from workbench.session import SessionDirectory


def test_a_request_to_open_becomes_arguments() -> None:
    values = {
        "model": " net.onnx ",
        "target": "cuda:sm_90",
        "layout": "keep",
        "shapes": "input=1,3,224,224; mask=1,8",
        "args": "",
        "trust": True,
        "refresh": False,
    }
    opening = read_opening(values)
    assert opening == Opening("net.onnx", target="cuda:sm_90", shapes={"input": (1, 3, 224, 224), "mask": (1, 8)}, trust=True)
    assert opening.options()["shapes"] == {"input": (1, 3, 224, 224), "mask": (1, 8)}
    assert read_opening({"model": "conv", "args": "[1, [2, 3]]"}).args == (1, [2, 3])


def test_trust_is_given_by_true_alone() -> None:
    assert not read_opening({"model": "m", "trust": "true"}).trust
    assert not read_opening({"model": "m", "trust": 1}).trust


def test_an_engine_comes_with_the_python_that_it_needs_and_a_session_with_its_own_engine() -> None:
    relay = {"model": "net.relay", "engine": "relay", "python": " old-tvm "}
    assert (read_opening(relay).engine, read_opening(relay).python) == ("relay", "old-tvm")
    assert read_opening(relay).options() | {"engine": "relay", "python": "old-tvm"} == read_opening(relay).options()
    assert "engine" not in read_opening(relay | {"is_session": True}).options()
    assert read_opening(relay | {"is_session": True}).options()["python"] == "old-tvm"
    assert read_opening({"model": "net", "python": "/opt/tvm/bin/python"}).python == "", "nobody asked for the engine that starts it"
    assert [choice["value"] for choice in engine_choices()] == ["relax", "relay"]
    assert engine_choices()[0]["label"].startswith("relax: TVM 0.")


@pytest.mark.parametrize(
    "values",
    [
        {"engine": "nnvm"},
        {"engine": ["relay"]},
        {"engine": None},
        {"engine": "relay", "python": 7},
        {"engine": "relay", "python": "x" * 5000},
        {"engine": "relay", "python": "/bin/sh\x00"},
        {"engine": "relay", "python": "python\n-c"},
    ],
)
def test_an_engine_that_is_none_is_refused_with_a_remedy(values: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        read_engine(values)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({}, "No model"),
        ({"model": "  "}, "No model"),
        ({"model": 3}, "No model"),
        ({"model": "x" * 5000}, "No model"),
        ({"model": "m", "target": ["cpu"]}, "target or layout"),
        ({"model": "m", "layout": "NHWC5"}, "target or layout"),
        ({"model": "m", "shapes": "input"}, "no shape"),
        ({"model": "m", "shapes": "input=1,-3"}, "no shape"),
        ({"model": "m", "shapes": 7}, "no text"),
        ({"model": "m", "args": "{"}, "no JSON list"),
        ({"model": "m", "args": '"text"'}, "no JSON list"),
        ({"model": "m", "args": "[" * 100_000}, "no JSON list"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_a_remedy(values: dict[str, Any], match: str) -> None:
    with pytest.raises((InputError, ModelError), match=match) as caught:
        read_opening(values)
    assert caught.value.remedy


def test_bundled_models_targets_and_sessions_are_offered(session: SessionDirectory) -> None:
    assert {"squeezenet", "matmul"} <= {choice["value"] for choice in model_choices()}
    targets = [choice["value"] for choice in target_choices()]
    assert targets[0] == "auto"
    assert {"cpu", "cuda:sm_90"} <= set(targets)
    assert [Path(choice["value"]).name for choice in session_choices(session.path.parent)] == ["session"]
    json.dumps([model_choices(), target_choices()])


def test_a_file_arrives_in_pieces_and_appears_whole(tmp_path: Path) -> None:
    upload = Upload("My Net (1).ONNX", 10, tmp_path / "in")
    assert not upload.take(b"01234", offset=0)
    assert list((tmp_path / "in").glob("*.onnx")) == []
    assert upload.take(memoryview(b"56789"), offset=5)
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["My_Net_1_.onnx"]
    assert upload.path.read_bytes() == b"0123456789"


@pytest.mark.parametrize("name", ["../../etc/passwd", "..\\..\\evil.onnx", "/abs/net.onnx", ".bashrc", "a\x00b.onnx", "net.on nx"])
def test_a_dropped_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    upload = Upload(name, 3, tmp_path / "in")
    assert upload.take(b"abc", offset=0)
    assert upload.path.parent == tmp_path / "in"
    assert upload.path.is_file()
    assert not upload.path.name.startswith(".")


@pytest.mark.parametrize(("offset", "piece"), [(1, b"a"), (None, b"a"), (0, b"too long")])
def test_a_piece_out_of_order_ends_the_upload_and_leaves_nothing(tmp_path: Path, offset: Any, piece: bytes) -> None:
    upload = Upload("net.onnx", 4, tmp_path)
    with pytest.raises(InputError, match="disorder"):
        upload.take(piece, offset=offset)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "size"), [("", 3), (None, 3), ("net.onnx", 0), ("net.onnx", "3"), ("net.onnx", True), ("net.onnx", 10**13)])
def test_a_file_without_a_name_or_a_size_is_refused(tmp_path: Path, name: Any, size: Any) -> None:
    with pytest.raises(InputError, match="dropped"):
        Upload(name, size, tmp_path)
