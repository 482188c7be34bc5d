"""A lowered model goes to the disk and comes back as it was, or not at all."""

from __future__ import annotations

import errno
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from tests.tvm.networks import chain, node, small_network
from workbench.engines.relax import program_files
from workbench.engines.relax.lowering import Lowered
from workbench.errors import SessionError

Array = np.ndarray[Any, Any]


def same_program(one: Lowered, other: Lowered) -> bool:
    tvm.ir.assert_structural_equal(one.module, other.module)
    parameters = all(np.array_equal(left.numpy(), right.numpy()) for left, right in zip(one.parameters, other.parameters, strict=True))
    fields = ("calls", "builtin_origins", "eliminated", "input_count", "steps")
    mappings = dict(one.ops) == dict(other.ops) and dict(one.result_counts) == dict(other.result_counts)
    return parameters and mappings and all(getattr(one, name) == getattr(other, name) for name in fields)


def test_a_program_comes_back_from_the_disk_as_it_was(onnx_lab: Any, tmp_path: Path) -> None:
    lowered = onnx_lab.lower(small_network(onnx_lab))
    program_files.save(lowered, tmp_path / "program")
    loaded = program_files.load(tmp_path / "program")
    assert same_program(lowered, loaded)
    for value, expected in zip(onnx_lab.run(loaded), onnx_lab.run(lowered), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_a_program_of_an_older_session_is_read(onnx_lab: Any, tmp_path: Path) -> None:
    lowered = onnx_lab.lower(small_network(onnx_lab))
    assert lowered.builtin_origins
    program_files.save(lowered, tmp_path / "program")
    calls = tmp_path / "program" / "calls.json"
    calls.write_text(calls.read_text().replace('"builtin_origins"', '"view_origins"'))
    assert same_program(program_files.load(tmp_path / "program"), lowered)


def test_saving_again_replaces_the_program_and_leaves_nothing_else(onnx_lab: Any, tmp_path: Path) -> None:
    first, second = onnx_lab.lower(chain(onnx_lab, 1)), onnx_lab.lower(chain(onnx_lab, 2))
    for lowered in (first, second):
        program_files.save(lowered, tmp_path / "program")
    assert same_program(program_files.load(tmp_path / "program"), second)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["program"]


def test_a_program_without_parameters_or_kernels_is_a_program(onnx_lab: Any, tmp_path: Path) -> None:
    lowered = onnx_lab.lower(onnx_lab.model([node("Identity", ["x"], ["y"])], {"x": (2,)}, ["y"]))
    program_files.save(lowered, tmp_path / "program")
    assert same_program(program_files.load(tmp_path / "program"), lowered)


@pytest.mark.parametrize("name", ["module.json", "params.bin", "calls.json"])
def test_a_damaged_program_is_said_to_be_damaged(name: str, onnx_lab: Any, tmp_path: Path) -> None:
    lowered = onnx_lab.lower(chain(onnx_lab, 2))
    directory = tmp_path / "program"
    program_files.save(lowered, directory)
    whole = (directory / name).read_bytes()
    generator = random.Random(name)
    damaged = [whole[: generator.randrange(len(whole))] for _ in range(8)]
    damaged += [b"", b"\0" * len(whole), b"{}", b"[1, 2]", b"null"]
    if name != "calls.json":
        flipped = bytearray(whole)
        flipped[generator.randrange(len(whole))] ^= 4
        damaged.append(bytes(flipped))
    for content in damaged:
        (directory / name).write_bytes(content)
        with pytest.raises(SessionError, match="missing or damaged"):
            program_files.load(directory)
    (directory / name).unlink()
    with pytest.raises(SessionError, match="missing or damaged"):
        program_files.load(directory)


def test_files_of_different_programs_do_not_make_one(onnx_lab: Any, tmp_path: Path) -> None:
    for length in (1, 2):
        program_files.save(onnx_lab.lower(chain(onnx_lab, length)), tmp_path / str(length))
    for name in ("module.json", "params.bin"):
        mixed = tmp_path / "mixed"
        program_files.save(onnx_lab.lower(chain(onnx_lab, 2)), mixed)
        (mixed / name).write_bytes((tmp_path / "1" / name).read_bytes())
        with pytest.raises(SessionError, match="missing or damaged"):
            program_files.load(mixed)


@contextmanager
def full_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of the given size, mounted for the test."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False)  # noqa: S607
    if mounted.returncode:
        pytest.skip("mounting a file system is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)  # noqa: S607


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting a file system needs root")
@pytest.mark.parametrize("large", ["weights", "module"])
def test_a_full_disk_is_reported_and_the_old_program_kept(large: str, onnx_lab: Any, tmp_path: Path) -> None:
    with full_disk(tmp_path / "disk", "256k") as disk:
        old = onnx_lab.lower(chain(onnx_lab, 1))
        program_files.save(old, disk / "program")
        if large == "weights":
            model = onnx_lab.model([node("MatMul", ["x", "w"], ["y"])], {"x": (1, 512)}, ["y"], {"w": np.ones((512, 512), np.float32)})
        else:
            model = small_network(onnx_lab)
        new = onnx_lab.lower(model)
        if large == "module":
            (disk / "filler").write_bytes(b"\0" * 100 * 1024)
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the number says which
            program_files.save(new, disk / "program")
        assert caught.value.errno == errno.ENOSPC
        assert same_program(program_files.load(disk / "program"), old)
        assert [path.name for path in disk.iterdir() if path.is_dir()] == ["program"]
