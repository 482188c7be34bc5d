"""What MODEL means: bundled names, files of every kind, workloads, and what is none of these."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import ModelError
from workbench.models import bundled_models, check_trust, resolve_model
from workbench.records.request import ModelSource

ONNX_START = b"\x08\x07\x12\x07pytorch\xff\xfe"
RELAY = "def @main(%x: Tensor[(1, 3), float32]) { nn.relu(%x) }"


def written(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_every_bundled_model_can_be_named() -> None:
    for model in bundled_models():
        source = resolve_model(model.name)
        assert (source.name, source.kind) == (model.name, model.kind)
        assert source.kind == "workload" or Path(source.path).is_file()


def test_a_bundled_name_means_the_bundled_model_whatever_lies_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matmul").mkdir()
    written(tmp_path / "squeezenet", RELAY)
    assert resolve_model("matmul").kind == "workload"
    assert resolve_model("squeezenet").kind == "onnx"
    assert resolve_model("./squeezenet").kind == "relay"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("m.onnx", ONNX_START, "onnx"),
        ("m.ONNX", ONNX_START, "onnx"),
        ("noending", ONNX_START, "onnx"),
        ("noending", ONNX_START * 1000, "onnx"),
        ("m.relay", "anything", "relay"),
        ("m.txt", RELAY, "relay"),
        ("m.relay.txt", f'#[version = "0.0.5"]\n{RELAY}', "relay"),
        ("m.rly", f"/* by hand */ // and more\n\n{RELAY}", "relay"),
        ("m", "fn (%x: Tensor[(1), float32]) { %x }", "relay"),
        ("m", "type List { }", "relay"),
        ("m", "%0 = nn.relu(%x);", "relay"),
        ("m.txt", "v0.0.4\ndef @main(%x: Tensor[(1), float32]) { %x }", "relay"),
        ("m.txt", "free_var %x: Tensor[(1), float32];\nnn.relu(%x)", "relay"),
        ("m.rly", "let %x = 1f; %x", "relay"),
        ("m", "fn[A](%x: A) { %x }", "relay"),
        ("m.txt", f"/*{'by hand ' * 1000}*/\n{RELAY}", "relay"),
        ("m.json", '{\n  "root": 1, \n  "nodes": [\n    {\n      "type_key": ""\n    }, \n    {\n      "type_key": "IRModule"', "relay_json"),
        ("m.pt2", b"PK", "torch"),
        ("m.py", "import tvm", "relax"),
    ],
)
def test_a_file_is_known_by_its_ending_or_its_beginning(name: str, content: str | bytes, kind: str, tmp_path: Path) -> None:
    source = resolve_model(written(tmp_path / name, content), trust=True)
    assert source.kind == kind
    assert source.path == str(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("resnet.v1.onnx", "resnet.v1"),
        ("a.relay.txt", "a"),
        ("net.TXT", "net"),
        (".onnx", ".onnx"),
        ("x/model.onnx", "x"),
        ("x/model.relay.txt", "x"),
        ("свёртка.onnx", "свёртка"),
    ],
)
def test_a_model_is_named_after_its_file_without_its_kind(name: str, model: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    assert resolve_model(written(path, RELAY)).name == model


def refused(text: str, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        resolve_model(text, **options)
    assert caught.value.exit_code == 2
    assert caught.value.remedy
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 400
    return caught.value


@pytest.mark.parametrize("name", ["nowhere.onnx", "x" * 10_000, "a/b/c", "\x1b[31m.onnx", "a\nb", "<script>", "\udcff.onnx", "матрица", "nul\0", ""])
def test_a_name_that_leads_nowhere_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(name)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 100, "ü".encode() * 10, b"Relay is nice", b"\xff\xfe\x00", b"PK\x03\x04"])
def test_a_file_that_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    refused(written(tmp_path / "m.dat", content))
    refused(written(tmp_path / "m.txt", content))


def test_a_beginning_made_to_take_forever_takes_no_time(tmp_path: Path) -> None:
    for content in ("/**/" * 16000 + "x", "type " * 13000, " " * 4096, "//\n" * 1300 + "x", "/*" * 2000):
        refused(written(tmp_path / "m.txt", content))


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "directory" in refused(str(tmp_path)).message
    assert "regular file" in refused(str(tmp_path / "pipe.onnx")).message
    for name in ("/dev/zero", str(tmp_path / "file" / "below"), str(tmp_path / "loop")):
        refused(name)


def test_a_file_larger_than_the_memory_is_refused_with_its_size(tmp_path: Path) -> None:
    with (tmp_path / "m.onnx").open("wb") as file:
        file.truncate(10 * 2**40)
    assert "10240.0 GiB" in refused(str(tmp_path / "m.onnx")).message


@pytest.mark.parametrize("name", ["m.py", "m.pt2"])
def test_a_file_with_code_needs_trust(name: str, tmp_path: Path) -> None:
    assert "--trust" in refused(written(tmp_path / name, "x")).remedy
    assert resolve_model(str(tmp_path / name), trust=True).trust


def test_a_function_of_a_module_needs_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--trust" in refused("layers:conv").remedy
    source = resolve_model("my.layers:conv", args=(1, 2), trust=True)
    assert (source.kind, source.name, source.workload, source.args) == ("workload", "conv", "my.layers:conv", (1, 2))


def test_a_session_that_says_it_is_trusted_is_checked_by_what_the_user_says() -> None:
    for source in (ModelSource(kind="relax", name="m", path="/m.py"), ModelSource(kind="workload", name="f", workload="a:f")):
        with pytest.raises(ModelError, match=r"--trust"):
            check_trust(source)
    for source in (ModelSource(kind="onnx", name="m", path="/m.onnx"), ModelSource(kind="workload", name="f", workload="matmul")):
        check_trust(source)


def test_options_of_another_kind_of_model_are_refused(tmp_path: Path) -> None:
    assert "--args" in refused("squeezenet", args=(1,)).message
    assert "--args" in refused(written(tmp_path / "m.onnx", ONNX_START), args=(1,)).message
    assert "--shape" in refused("matmul", shapes={"x": (1,)}).message


def test_the_stamp_of_a_file_changes_with_its_content(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    first = resolve_model(written(path, ONNX_START)).stamp
    assert resolve_model(str(path)).stamp == first
    assert resolve_model(written(path, ONNX_START * 2)).stamp != first
