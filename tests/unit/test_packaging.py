"""What is installed and shipped: the lock, its twin for conda, the declared dependencies, the wheel, and what an import drags in."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from workbench import doctor

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {name: [Requirement(text) for text in texts] for name, texts in PROJECT["optional-dependencies"].items()}
RUN_TIME = [Requirement(text) for text in PROJECT["dependencies"]]
PIN = re.compile(r"([a-z0-9-]+)==([0-9][0-9a-z.]*)")
NOT_IN_LOCK = {"torch", "onnxruntime", "pyarrow"}
STATIC = "workbench/notebook/static"
MOST_JAVASCRIPT_BYTES = 4_000_000
HEAVY = ("tvm", "tvm_ffi", "ipywidgets", "anywidget", "plotly", "IPython", "pandas", "scipy", "sklearn", "xgboost")


def lock() -> dict[str, str]:
    lines = [line for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert all(PIN.fullmatch(line) for line in lines), [line for line in lines if not PIN.fullmatch(line)]
    pins = [line.split("==") for line in lines]
    assert len(dict(pins)) == len(pins), "a package is pinned twice"
    return dict(pins)


def direct() -> list[Requirement]:
    return [*RUN_TIME, *(requirement for extra in EXTRAS.values() for requirement in extra)]


def committed_files() -> list[Path]:
    """The files that git tracks or would track; skips the test where there is no git checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        listed = ""
    if "pyproject.toml" not in listed.split("\0"):
        pytest.skip("not a git checkout")
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_the_lock_pins_every_package_to_one_version_and_names_no_address_or_path() -> None:
    assert lock()


def test_the_lock_is_closed_under_what_its_packages_need() -> None:
    pins, missing = lock(), set()
    for name in pins:
        for text in importlib.metadata.requires(name) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                pin = pins.get(canonicalize_name(needed.name))
                if pin is None or not needed.specifier.contains(pin, prereleases=True):
                    missing.add(canonicalize_name(needed.name))
    assert missing <= {"nvidia-nccl-cu12"}, "the one gap is left on purpose: docs/dependencies.md"


def test_what_is_installed_is_what_the_lock_says() -> None:
    assert {name: importlib.metadata.version(name) for name in lock()} == lock()


def test_environment_yml_pins_the_same_versions() -> None:
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    assert dict(pin.groups() for pin in re.finditer(rf"^ +- {PIN.pattern}$", text, re.MULTILINE)) == lock()


@pytest.mark.parametrize("requirement", direct(), ids=str)
def test_a_direct_dependency_is_locked_at_a_version_that_it_allows_and_justified(requirement: Requirement) -> None:
    if requirement.name not in NOT_IN_LOCK:
        assert requirement.specifier.contains(lock()[canonicalize_name(requirement.name)])
    assert f"\n| `{requirement.name}` |" in (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")


def test_packages_that_are_left_out_of_the_lock_are_left_out() -> None:
    assert NOT_IN_LOCK.isdisjoint(lock())


@pytest.mark.parametrize("name", sorted(NOT_IN_LOCK))
def test_what_is_left_out_of_the_lock_is_installed_by_make_at_the_version_that_is_declared(name: str) -> None:
    (requirement,) = [requirement for extra in EXTRAS.values() for requirement in extra if requirement.name == name]
    version = str(requirement.specifier).removeprefix("==")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installed = dict(PIN.findall("\n".join(line for line in makefile.splitlines() if "$(PIP)" in line or "torch==" in line)))
    assert installed[name] == version
    assert set(installed) - NOT_IN_LOCK == {"flatbuffers"}  # onnxruntime needs it, and else only what is locked


def test_the_doctor_asks_for_the_pinned_pair() -> None:
    assert {"apache-tvm": doctor.TVM_VERSION, "apache-tvm-ffi": doctor.FFI_VERSION}.items() <= lock().items()


def test_every_package_that_the_code_imports_is_declared() -> None:
    distributions = importlib.metadata.packages_distributions()
    declared = {canonicalize_name(requirement.name) for requirement in (*RUN_TIME, *EXTRAS["notebook"], *EXTRAS["torch"], *EXTRAS["onnxruntime"])}
    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "workbench").rglob("*.py")
        for name in imported(path) - sys.stdlib_module_names - {"workbench"}
        if declared.isdisjoint(canonicalize_name(distribution) for distribution in distributions.get(name, [name]))
    }
    assert not undeclared


def imported(path: Path) -> set[str]:
    """The top-level packages that a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("statement", ["import workbench", "import workbench.cli.main"])
def test_starting_loads_nothing_that_takes_long(statement: str) -> None:
    code = f"import sys; {statement}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, capture_output=True, check=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_the_whole_package_with_its_bundles_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    sources = {str(path.relative_to(ROOT)) for path in committed_files() if path.is_relative_to(ROOT / "workbench")}
    bundled = {name for name in sources if name.endswith((".mjs", ".css")) and name.startswith("workbench/notebook/")}
    parts = {Path(name).stem for name in bundled if name.endswith(".mjs") and Path(name).stem == Path(name).parent.name}
    static = {f"{STATIC}/{part}{suffix}" for part in parts for suffix in (".js", ".css")}
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == (sources - bundled) | static | {f"{STATIC}/LICENSES.txt", f"{STATIC}/plotly.js"}
    assert {"table", "inspector"} <= parts
    assert "workbench/py.typed" in held


def test_the_wheels_javascript_is_small_and_its_licences_travel_with_it(wheel: zipfile.ZipFile) -> None:
    sizes = {item.filename: item.file_size for item in wheel.infolist() if item.filename.endswith(".js")}
    assert sum(sizes.values()) < MOST_JAVASCRIPT_BYTES, sizes
    licences = wheel.read(f"{STATIC}/LICENSES.txt").decode()
    assert "ag-grid-community" in licences
    assert "@codemirror/view" in licences
    assert "plotly.js-gl2d-dist-min" in licences
    assert licences.count("Permission is hereby granted") > 5


def test_every_part_has_the_shared_look(wheel: zipfile.ZipFile) -> None:
    sheets = [wheel.read(name).decode() for name in wheel.namelist() if name.startswith(STATIC) and name.endswith(".css")]
    assert sheets
    assert all("--wb-bg" in sheet for sheet in sheets)


def test_npm_packages_are_pinned_with_their_digests_and_without_addresses() -> None:
    text = (ROOT / "package-lock.json").read_text(encoding="utf-8")
    packages = {name: values for name, values in json.loads(text)["packages"].items() if name}
    assert all(values["version"] and values["integrity"].startswith("sha512-") for values in packages.values())
    assert "resolved" not in text


def test_npm_packages_are_exact_and_justified() -> None:
    named = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    locked = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert named == {name: locked[f"node_modules/{name}"]["version"] for name in named}
    page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    assert [name for name in named if f"\n| `{name}` |" not in page] == []


def test_no_committed_file_names_a_folder_of_one_machine() -> None:
    private = re.compile(rb"(?<![\w.*}-])/(?:work|root)/|\.\./shared")
    found = {str(path.relative_to(ROOT)): match.group() for path in committed_files() if (match := private.search(path.read_bytes()))}
    assert {name for name, what in found.items() if not (name.startswith("tests/") and b"shared" in what)} == set()
