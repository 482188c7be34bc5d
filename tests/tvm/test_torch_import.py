"""A torch.export archive becomes a program that computes what PyTorch does, its origins the nodes of the exported graph."""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from workbench.engines.relax import torch_import
from workbench.engines.relax.lowering import Lowered, lower
from workbench.engines.relax.torch_archive import check_archive
from workbench.engines.relax.torch_import import import_exported_program
from workbench.errors import EnvironmentFault, ModelError

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch says of its own deprecations while it exports
        yield


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def save(torch: Any, folder: Path, model: Any, *inputs: Any, **options: Any) -> tuple[Path, Any]:
    exported = torch.export.export(model.eval(), inputs, **options)
    path = folder / "model.pt2"
    torch.export.save(exported, str(path))
    return path, exported.module()


def lowered(path: Path, shapes: dict[str, tuple[int, ...]] | None = None) -> Lowered:
    return lower(import_exported_program(path, shapes or {}), TARGET, fusion=True, on_step=lambda name: None)


def run(result: Lowered, *inputs: Any) -> list[Array]:
    machine = relax.VirtualMachine(relax.build(result.module, TARGET), [tvm.cpu()])
    outputs = machine["main"](*[tvm.runtime.tensor(value.numpy()) for value in inputs], *result.parameters)
    return [outputs.numpy()] if isinstance(outputs, tvm.runtime.Tensor) else [output.numpy() for output in outputs]


def check_outputs(result: Lowered, reference: Any, *inputs: Any) -> None:
    expected = reference(*inputs)
    values = [expected] if hasattr(expected, "detach") else list(expected.values() if isinstance(expected, dict) else expected)
    for got, value in zip(run(result, *inputs), values, strict=True):
        np.testing.assert_allclose(got, value.detach().numpy(), rtol=1e-4, atol=1e-5)


def origins(result: Lowered) -> list[str]:
    found = [str(origin) for call in result.calls for origin in call.origins]
    return list(dict.fromkeys([*found, *map(str, result.builtin_origins)]))


def residual_net(torch: Any) -> Any:
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
            self.conv, self.norm, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 4)
            for norm in (self.first[1], self.norm):
                norm.running_mean.uniform_(-1, 1)
                norm.running_var.uniform_(0.5, 2)
                nn.init.uniform_(norm.weight, 0.5, 2)
                nn.init.uniform_(norm.bias, -1, 1)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            x = torch.relu(x + self.norm(self.conv(x)))
            x = nn.functional.max_pool2d(x, 2)
            return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))

    torch.manual_seed(0)
    return Net()


@pytest.mark.torch
def test_a_residual_network_computes_what_pytorch_does_and_names_its_nodes(torch: Any, tmp_path: Path) -> None:
    data = torch.randn(2, 3, 8, 8)
    path, reference = save(torch, tmp_path, residual_net(torch), data)
    result = lowered(path)
    assert len(result.module["main"].params) == 1 + len(result.parameters)
    assert int(result.module["main"].attrs["num_input"]) == 1
    assert all(call.origins for call in result.calls)
    assert origins(result) == [
        "aten.conv2d.default conv2d (first.0)",
        "aten.batch_norm.default batch_norm (first.1)",
        "aten.relu.default relu (first.2)",
        "aten.conv2d.default conv2d_1 (conv)",
        "aten.batch_norm.default batch_norm_1 (norm)",
        "aten.add.Tensor add",
        "aten.relu.default relu_1",
        "aten.max_pool2d.default max_pool2d",
        "aten.adaptive_avg_pool2d.default adaptive_avg_pool2d",
        "aten.linear.default linear (head)",
        "aten.flatten.using_ints flatten",
    ]
    check_outputs(result, reference, data)


@pytest.mark.torch
def test_attention_computes_what_pytorch_does_in_all_outputs(torch: Any, tmp_path: Path) -> None:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(self.norm(x)).reshape(1, 5, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 5, 16)
            return {"out": x + self.out(mixed), "gate": nn.functional.gelu(x)}

    torch.manual_seed(0)
    data = torch.randn(1, 5, 16)
    path, reference = save(torch, tmp_path, Block(), data)
    result = lowered(path)
    assert all(call.origins for call in result.calls)
    found = origins(result)
    assert "aten.scaled_dot_product_attention.default scaled_dot_product_attention" in found
    assert "aten.linear.default linear (qkv)" in found
    assert not [origin for origin in found if "_softmax" in origin or "addmm" in origin]
    check_outputs(result, reference, data)


@pytest.mark.torch
def test_buffers_transposed_weights_and_several_inputs_keep_their_values(torch: Any, tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 8).t())
            self.register_buffer("scale", torch.arange(4.0))
            self.register_buffer("shift", torch.ones(4), persistent=False)

        def forward(self, second: Any, first: Any) -> Any:
            return (first @ self.weight) * self.scale + self.shift - second

    torch.manual_seed(0)
    inputs = (torch.randn(3, 4), torch.randn(3, 8))
    path, reference = save(torch, tmp_path, Net(), *inputs)
    result = lowered(path)
    assert [parameter.name for parameter in result.module["main"].params][:2] == ["second", "first"]
    check_outputs(result, reference, *inputs)


def dynamic_net(torch: Any, folder: Path) -> tuple[Path, Any]:
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.relu(x).reshape(x.shape[0] * 2, 4)

    return save(torch, folder, Net(), torch.randn(3, 8), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=64)}})


@pytest.mark.torch
def test_dynamic_dimensions_take_the_numbers_of_the_given_shapes(torch: Any, tmp_path: Path) -> None:
    path, reference = dynamic_net(torch, tmp_path)
    check_archive(path)
    check_outputs(lowered(path, {"x": (5, 8)}), reference, torch.randn(5, 8))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, r"The model has dynamic dimensions: x \(s\d+, 8\)\. Give them numbers, e\.g\. --shape x=1,8\."),
        ({"x": (65, 8)}, r"exported for s\d+ of 1 to 64, not 65"),
        ({"x": (5, 9)}, r"Shape \(5, 9\) does not fit input x"),
        ({"y": (5, 8)}, r"no input named y\. Its inputs are: x \(s\d+, 8\)"),
    ],
)
def test_shapes_that_are_missing_or_do_not_fit_are_named(torch: Any, tmp_path: Path, shapes: dict[str, tuple[int, ...]], message: str) -> None:
    path, _ = dynamic_net(torch, tmp_path)
    with pytest.raises(ModelError, match=message):
        import_exported_program(path, shapes)


@pytest.mark.torch
def test_all_operators_without_a_converter_are_listed(torch: Any, tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            x = torch.linalg.det(x) + torch.cond(x.sum() > 0, lambda y: y.sin().sum(), lambda y: y.cos().sum(), (x,))
            return torch.special.i0(x) + torch.special.i0(x + 1)

    path, _ = save(torch, tmp_path, Net(), torch.randn(3, 3))
    with pytest.raises(ModelError) as failure:
        import_exported_program(path, {})
    assert failure.value.message == (
        "3 operators of the model are not supported: aten._linalg_det.default (x1, first at linalg_det), "
        "aten.i0.default (x2, first at special_i0), cond (x1, first at cond)."
    )


@pytest.mark.torch
def test_a_damaged_archive_is_refused_wherever_it_is_cut_or_changed(torch: Any, tmp_path: Path) -> None:
    path, _ = save(torch, tmp_path, residual_net(torch), torch.randn(1, 3, 8, 8))
    whole = path.read_bytes()
    for end in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(ModelError, match=r"is no torch\.export archive, or it is cut off"):
            import_exported_program(path, {})
    place = whole.index(b"weight_0") + 200
    path.write_bytes(whole[:place] + bytes(255 - byte for byte in whole[place : place + 8]) + whole[place + 8 :])
    with pytest.raises(ModelError, match=r"is damaged at model/data/weights/weight_0"):
        import_exported_program(path, {})


@pytest.mark.torch
def test_other_files_of_pytorch_are_refused_with_what_they_are(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(ModelError, match=r"holds weights or a pickled model, not a torch\.export archive\. Export it again: torch\.export\.save"):
        import_exported_program(path, {})
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.randn(1, 2)), str(path))
    with pytest.raises(ModelError, match=r"is a TorchScript file"):
        import_exported_program(path, {})


def archive(folder: Path, entries: dict[str, str], *, name: str = "model.pt2") -> Path:
    with zipfile.ZipFile(folder / name, "w") as target:
        for entry, text in {"archive_format": "pt2", **entries}.items():
            target.writestr(f"model/{entry}", text)
    return folder / name


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"data/weights/model_weights_config.json": '{"config": {"w": {"path_name": "weight_0", "use_pickle": true}}}'},
            r"holds pickled Python objects",
        ),
        ({"data/constants/model_constants_config.json": '{"config": {"c": {"path_name": "opaque_obj_0"}}}'}, r"holds pickled Python objects"),
        ({"models/model.json": json.dumps({"sizes": [{"expr_str": "exec(chr(112))"}]})}, r"a size that is no arithmetic: exec\(chr\(112\)\)"),
        ({"models/model.json": json.dumps({"expr_str": "Symbol('s0').__class__"})}, r"a size that is no arithmetic"),
        ({"models/model.json": json.dumps({"expr_str": "S('exit')()"})}, r"a size that is no arithmetic"),
        ({"data/aotinductor/model/lib.so": ""}, r"holds a compiled library"),
        ({"models/model.json": "{"}, r"is damaged: Expecting"),
    ],
)
def test_an_archive_that_could_run_code_is_refused_before_pytorch_sees_it(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_archive(archive(tmp_path, entries))


@pytest.mark.parametrize(
    "expression", ["s77", "2*s0 + 1", "Mul(Integer(2), Symbol('s77', integer=True, positive=True))", "Max(1, s0 - 3)", "oo", "-int_oo"]
)
def test_sizes_that_are_arithmetic_are_let_through(tmp_path: Path, expression: str) -> None:
    check_archive(archive(tmp_path, {"models/model.json": json.dumps({"expr_str": expression})}))


@pytest.mark.torch
def test_pickles_hidden_in_the_sample_inputs_are_not_run(torch: Any, tmp_path: Path) -> None:
    class Touch:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(tmp_path / "was_run"),)

    path, _ = save(torch, tmp_path, residual_net(torch), torch.randn(1, 3, 8, 8))
    torch.save((Touch(),), tmp_path / "inputs.pt")
    changed = tmp_path / "changed.pt2"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(changed, "w") as target:
        for entry in source.infolist():
            is_input = "sample_inputs" in entry.filename
            target.writestr(entry.filename, (tmp_path / "inputs.pt").read_bytes() if is_input else source.read(entry))
    with pytest.raises(ModelError, match=r"PyTorch .* cannot load changed\.pt2"):
        import_exported_program(changed, {})
    assert not (tmp_path / "was_run").exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_files_that_are_no_archive_or_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.pt2").write_text("hello", encoding="utf-8")
    with pytest.raises(ModelError, match=r"text\.pt2 is no torch\.export archive, or it is cut off \(5 bytes\)"):
        import_exported_program(tmp_path / "text.pt2", {})
    with pytest.raises(ModelError, match=r"absent\.pt2 cannot be read"):
        import_exported_program(tmp_path / "absent.pt2", {})
    with zipfile.ZipFile(tmp_path / "other.pt2", "w") as other:
        other.writestr("readme.txt", "x")
    with pytest.raises(ModelError, match=r"holds no model of PyTorch's"):
        import_exported_program(tmp_path / "other.pt2", {})


def test_without_pytorch_the_remedy_is_the_extra_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(torch_import.importlib, "import_module", absent)
    with pytest.raises(EnvironmentFault, match=r"make torch"):
        import_exported_program(archive(tmp_path, {}), {})


def test_importing_the_importer_does_not_load_pytorch() -> None:
    names: Sequence[str] = [name for name in sys.modules if name == "torch"]
    importlib.reload(torch_import)
    assert [name for name in sys.modules if name == "torch"] == names
