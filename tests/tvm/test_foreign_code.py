"""What a module would run besides its own code is found, and refused without trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm.script import from_source

from workbench.engines.relax import program_files
from workbench.engines.relax.foreign_code import foreign_code
from workbench.engines.relax.lowering import lower
from workbench.engines.relax.relax_import import import_ir_json, import_module
from workbench.errors import ModelError, SessionError

CALL = 'T.Cast("float32", T.call_extern("int32", "system", "true"))'
PACKED = 'T.Cast("float32", T.tvm_call_packed("my.function", 1))'


def module(value: str, pragma: str = "") -> tvm.IRModule:
    """A model of one kernel that adds `value` to its input."""
    return from_source(f"""
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def kernel(a: T.Buffer((T.int64(4),), "float32"), b: T.Buffer((T.int64(4),), "float32")):
        T.func_attr({{"tirx.noalias": True}})
        for i in range(T.int64(4)):
            with T.sblock("sum"):
                v = T.axis.spatial(T.int64(4), i)
                T.reads(a[v])
                T.writes(b[v])
                {pragma}
                b[v] = a[v] + {value}
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.kernel, (x,), out_ty=R.Tensor((4,), "float32"))
            R.output(y)
        return y
""")


@pytest.mark.parametrize(
    ("value", "pragma", "found"),
    [
        ("a[v]", "", []),
        ("T.exp(a[v])", "", []),
        (CALL, "", ["system"]),
        (PACKED, "", ["my.function"]),
        ("a[v]", 'T.sblock_attr({"pragma_import_llvm": "source"})', ["pragma_import_llvm"]),
    ],
)
def test_calls_by_name_and_sources_in_pragmas_are_found(value: str, pragma: str, found: list[str]) -> None:
    assert foreign_code(module(value, pragma)) == found


def test_tvms_own_sort_is_not_foreign(onnx_lab: Any) -> None:
    model = onnx_lab.model([helper.make_node("TopK", ["x", "k"], ["y", "i"])], {"x": (4, 16)}, ["y", "i"], {"k": np.array([3], np.int64)})
    assert foreign_code(onnx_lab.lower(model).module) == []


def test_a_module_with_foreign_calls_is_imported_with_trust_only() -> None:
    text = tvm.ir.save_json(module(CALL))
    with pytest.raises(ModelError, match=r"system.*trust"):
        import_ir_json(text)
    assert len(lowered(import_ir_json(text, trust=True)).calls) == 1


def test_a_stored_program_with_foreign_calls_is_loaded_with_trust_only(tmp_path: Path) -> None:
    program_files.save(lowered(import_module(module(CALL))), tmp_path / "program")
    with pytest.raises(SessionError, match=r"system.*trust"):
        program_files.load(tmp_path / "program")
    assert len(program_files.load(tmp_path / "program", trust=True).calls) == 1


def lowered(program: Any) -> Any:
    return lower(program, tvm.target.Target({"kind": "llvm"}), fusion=True, on_step=lambda name: None)
