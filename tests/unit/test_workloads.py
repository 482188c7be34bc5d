"""TE workloads have names: registered by functions, found in files, bundled; none of it needs TVM."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench import workloads
from workbench.errors import ModelError
from workbench.workloads import BUNDLED, load_function, load_schedule, lookup, name_of, own_line, parse_arguments, register_workload, registered

MODULE = """
from workbench.workloads import register_workload

@register_workload
def layer(n):
    return [n]

@register_workload("second name")
def other(n):
    return [n, n]

def plain_function(n):
    return n

NUMBER = 3
"""


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "_registry", {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")


def test_a_decorated_function_is_found_under_its_own_name_and_stays_the_same_function() -> None:
    def conv(n: int) -> list[int]:
        return [n]

    assert register_workload(conv) is conv
    assert lookup("conv") is conv
    assert registered() == ("conv",)
    assert name_of(conv) == "conv"


def test_a_name_can_be_given_to_the_decorator_or_with_the_function() -> None:
    def one() -> None: ...

    def two() -> None: ...

    register_workload("first")(one)
    register_workload("second", two)
    assert (lookup("first"), lookup("second")) == (one, two)
    assert (name_of(one), name_of(two)) == ("first", "second")


def test_the_name_of_a_function_that_is_not_registered_is_its_own() -> None:
    assert name_of(write) == "write"


def test_a_cell_that_runs_twice_replaces_its_own_workload() -> None:
    def cell() -> Any:
        @register_workload
        def conv() -> None: ...

        return conv

    first, second = cell(), cell()
    assert first is not second
    assert lookup("conv") is second


def test_another_function_of_the_same_name_is_refused_unless_it_overrides() -> None:
    def one() -> None: ...

    def two() -> None: ...

    register_workload("conv", one)
    with pytest.raises(ModelError, match=r"conv is already registered by .*one\. Choose another name, or pass override=True\."):
        register_workload("conv", two)
    assert lookup("conv") is one
    register_workload("conv", two, override=True)
    assert lookup("conv") is two


@pytest.mark.parametrize(("name", "function"), [("x", 3), (" ", len)])
def test_what_is_no_function_or_has_no_name_is_not_registered(name: str, function: Any) -> None:
    with pytest.raises(ModelError):
        register_workload(name, function)
    assert registered() == ()


def test_an_unknown_workload_is_refused_with_the_known_names() -> None:
    register_workload("conv", len)
    with pytest.raises(ModelError, match=r"No workload cnov is registered.*register_workload.*Registered: conv\."):
        lookup("cnov")


def test_a_function_is_loaded_from_a_module_in_the_current_folder(folder: Path) -> None:
    write(folder, "my_layers.py", MODULE)
    path = list(sys.path)
    assert load_function("my_layers:layer")(4) == [4]
    assert load_function("my_layers:second name")(4) == [4, 4]
    assert load_function("my_layers:other")(4) == [4, 4]
    assert sys.path == path


def test_a_function_is_loaded_from_a_package_on_pythonpath(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "elsewhere/pack/__init__.py", "")
    write(folder, "elsewhere/pack/layers.py", MODULE)
    monkeypatch.syspath_prepend(str(folder / "elsewhere"))
    assert load_function("pack.layers:layer")(4) == [4]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("absent:layer", r"There is no module absent in the current folder .* PYTHONPATH"),
        ("my_layers.inner:layer", r"There is no module my_layers\.inner in the current folder"),
        ("my_layers:absent", r"my_layers.py\) has no workload absent; it registers layer, second name"),
        ("my_layers:NUMBER", r"my_layers:NUMBER is no function but of type int"),
        ("my_layers:plain_function", r"not registered as a workload\. Put @workbench\.register_workload above"),
        ("my_layers", r"is no module:function\. Write it like my_layers:conv2d"),
        ("my_layers:", r"is no module:function"),
        ("my_layers.py:layer", r"Leave out the \.py"),
        ("./my_layers:layer", r"Leave out the \.py"),
        (":layer", r"is no module:function"),
        ("needs_other:layer", r"needs_other needs a module that is missing: no_such_module_here"),
        ("broken:layer", r"broken cannot be imported \(.*/broken\.py, line 1\): SyntaxError"),
        ("fails:layer", r"fails cannot be imported \(.*/fails\.py, line 2\): ValueError: \\x1b\[31mred"),
        ("ends:layer", r"ends cannot be imported \(.*/ends\.py, line 1\): SystemExit: 3"),
    ],
)
def test_a_reference_that_leads_nowhere_says_why(folder: Path, reference: str, message: str) -> None:
    write(folder, "my_layers.py", MODULE)
    write(folder, "needs_other.py", "import no_such_module_here")
    write(folder, "broken.py", "def layer(:")
    write(folder, "fails.py", "import json\nraise ValueError('\\x1b[31mred')")
    write(folder, "ends.py", "raise SystemExit(3)")
    with pytest.raises(ModelError, match=message) as failure:
        load_function(reference)
    assert failure.value.remedy


def test_an_error_is_placed_in_the_users_own_module_though_it_came_up_below_it(folder: Path) -> None:
    write(folder, "mine.py", "import json\n\ndef read(text):\n    return json.loads(text)\n")
    read = load_schedule("mine:read")
    with pytest.raises(ValueError, match="Expecting value") as caught:
        read("")
    assert own_line(caught.value, "mine") == f"{folder / 'mine.py'}, line 4"
    assert own_line(caught.value, "elsewhere") == ""


def test_a_schedule_function_that_is_not_there_is_refused_with_what_it_should_be(folder: Path) -> None:
    write(folder, "mine.py", "NUMBER = 3\n")
    for name in ("NUMBER", "absent"):
        with pytest.raises(ModelError, match=f"has no function {name}.*tvm.s_tir.Schedule"):
            load_schedule(f"mine:{name}")


def test_arguments_are_a_json_list() -> None:
    assert parse_arguments('[1, 7.5, "NCHW", true, null, [3, 3]]') == (1, 7.5, "NCHW", True, None, [3, 3])
    assert parse_arguments("[]") == ()


@pytest.mark.parametrize("text", ["", "1, 7", "(1, 7)", '{"n": 1}', "7", "[NaN]", "[Infinity]", "[1,]", "[" * 100_000, "[" + "9" * 5000 + "]"])
def test_arguments_that_are_no_json_list_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ModelError, match=r"--args '\[1, 7, 7\]'"):
        parse_arguments(text)


def test_bundled_workloads_have_a_place_arguments_and_a_description() -> None:
    assert set(BUNDLED) == {"conv2d_relu", "matmul", "matmul_add", "depthwise_conv2d", "softmax", "attention"}
    assert BUNDLED["conv2d_relu"].arguments == (1, 7, 7, 512, 512, 3, 3, 1, 1)
    for name, workload in BUNDLED.items():
        assert workload.function == f"workbench.engines.relax.bundled_workloads:{name}"
        assert workload.description
        assert "\n" not in workload.description


def test_the_list_of_bundled_workloads_is_read_without_tvm() -> None:
    code = "import sys, workbench.workloads as w; assert w.BUNDLED; print(any(m.split('.')[0] in ('tvm', 'numpy') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
