"""Files that a user named: written whole or not at all, and never in the place of a device."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from workbench.whole_files import whole_file, whole_folder, write_whole


def test_a_file_is_replaced_at_the_end_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(0o640)
    with whole_file(path) as file:
        file.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_permissions_that_the_user_gives_to_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "x", "ü")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640
    assert (tmp_path / "x").read_bytes() == "ü".encode()


def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")

    def fail() -> None:
        with whole_file(path) as file:
            file.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_the_file_behind_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "link").symlink_to("below/file")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "below" / "file").read_text() == "text"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    write_whole(path, "text")
    reader.join(timeout=30)
    assert read == ["text"]
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_behind_a_link_without_a_name_is_written_to() -> None:
    """So is ``/dev/stdout`` of a program in a pipeline: it leads to a file ``pipe:[123]`` that no folder has."""
    reading, writing = os.pipe()
    try:
        write_whole(Path(f"/proc/self/fd/{writing}"), "text")
        assert os.read(reading, 100) == b"text"
    finally:
        os.close(reading)
        os.close(writing)


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    write_whole(device, "text")
    assert stat.S_ISCHR(device.stat().st_mode)
    assert list(tmp_path.iterdir()) == [device]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, "text")
    assert not list(tmp_path.iterdir())


def test_a_folder_takes_its_place_at_the_end(tmp_path: Path) -> None:
    for content in ("old", "new"):
        with whole_folder(tmp_path / "x") as folder:
            (folder / content).touch()
            assert [path.name for path in (tmp_path / "x").glob("*")] == (["old"] if content == "new" else [])
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_a_folder_that_cannot_be_written_or_put_in_place_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with whole_folder(tmp_path / "x") as folder:
        (folder / "old").touch()
    with pytest.raises(OSError, match="full"), whole_folder(tmp_path / "x"):
        raise OSError("the disk is full")
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if ".partial-" in path.name:
            raise OSError("the folder is refused")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match="refused"), whole_folder(tmp_path / "x") as folder:
        (folder / "new").touch()
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]
