"""How far a kernel is from its device's limit, and where the limits are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workbench.analysis.roofline import bandwidth_for, limit_percent, roofline, roofline_text, row_limits
from workbench.engines.protocol import Progress
from workbench.peak_cache import cache_folder, cached_peaks, keep_peaks
from workbench.records.dtype_size import dtype_bits, tensors_bytes
from workbench.records.peaks import Bandwidth, Peaks, Rate
from workbench.records.profile import TensorShape
from workbench.session import SessionDirectory, stored_peaks
from workbench.worker.context import JobContext
from workbench.worker.limits import note_peaks

KEY = "0123456789abcdef"


def rate(best: float) -> Rate:
    return Rate(best=best, median=0.9 * best, iqr=0.05 * best, repeats=15)


PEAKS = Peaks(
    device="a processor",
    key=KEY,
    threads=2,
    flop_per_s=rate(100e9),
    bandwidths=(Bandwidth(rate(400e9), 2**20, "L2"), Bandwidth(rate(20e9), 2**30, "memory")),
    method="by hand",
    measured_at=1.0,
)
NOTHING = replace(PEAKS, flop_per_s=None, bandwidths=(), unmeasured="not measured: no CUDA device here")


def test_much_arithmetic_a_byte_is_bound_by_arithmetic() -> None:
    found = roofline(PEAKS, flop=10**9, moved_bytes=2**20, time_us=20_000.0)
    assert found is not None
    assert (found.bound, found.place) == ("compute", "L2")
    assert found.limit_us == pytest.approx(10_000.0)
    assert found.percent == pytest.approx(50.0)
    assert found.attainable_gflops == pytest.approx(100.0)
    assert found.gflops == pytest.approx(50.0)
    assert found.intensity == pytest.approx(10**9 / 2**20)


def test_little_arithmetic_a_byte_is_bound_by_memory() -> None:
    found = roofline(PEAKS, flop=10**6, moved_bytes=2 * 10**8, time_us=20_000.0)
    assert found is not None
    assert (found.bound, found.place) == ("memory", "memory")
    assert found.limit_us == pytest.approx(10_000.0)
    assert found.attainable_gflops == pytest.approx(0.1)


def test_a_copy_has_a_limit_although_it_computes_nothing() -> None:
    found = roofline(PEAKS, flop=0, moved_bytes=4 * 10**5, time_us=2.0)
    assert found is not None
    assert (found.bound, found.limit_us, found.percent) == ("memory", pytest.approx(1.0), pytest.approx(50.0))


def test_the_bandwidth_is_that_of_the_smallest_working_set_that_is_as_large() -> None:
    assert bandwidth_for(PEAKS, 1).place == "L2"
    assert bandwidth_for(PEAKS, 2**20).place == "L2"
    assert bandwidth_for(PEAKS, 2**20 + 1).place == "memory"
    assert bandwidth_for(PEAKS, 2**40).place == "memory"


@pytest.mark.parametrize(("peaks", "flop", "moved_bytes"), [(None, 1, 1), (NOTHING, 1, 1), (PEAKS, None, 1), (PEAKS, 1, None), (PEAKS, 0, 0)])
def test_what_is_not_known_has_no_limit(peaks: Peaks | None, flop: int | None, moved_bytes: int | None) -> None:
    assert roofline(peaks, flop=flop, moved_bytes=moved_bytes, time_us=1.0) is None
    assert limit_percent(peaks, flop=flop, moved_bytes=moved_bytes, time_us=1.0) is None


def test_a_time_that_is_noise_is_not_compared_with_the_limit(sessions: Any) -> None:
    profile = sessions.profile(["long", "short"])  # 100 and 50 us
    assert set(row_limits(profile, PEAKS)) == {0, 1}
    assert set(row_limits(replace(profile, resolution_us=50.0), PEAKS)) == {0}


def test_without_a_time_there_is_a_limit_but_no_share_of_it() -> None:
    found = roofline(PEAKS, flop=10**9, moved_bytes=2**20)
    assert found is not None
    assert (found.time_us, found.percent, found.gflops) == (None, None, None)
    assert "% of the limit" not in roofline_text(found, PEAKS)


def test_the_text_has_limit_spread_and_formula_or_the_reason() -> None:
    text = roofline_text(roofline(PEAKS, flop=10**9, moved_bytes=2**20, time_us=20_000.0), PEAKS)
    for part in ("50.0 % of the limit", "IQR", "by compute", "Williams", "100.0 GFLOP/s"):
        assert part in text
    assert "no CUDA device here" in roofline_text(None, NOTHING)
    assert "not measured" in roofline_text(None, None)


def test_limits_survive_json() -> None:
    assert Peaks.from_dict(json.loads(json.dumps(PEAKS.to_dict()))) == PEAKS
    assert not NOTHING.known
    assert PEAKS.known


# sizes of tensors


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        ("float32", 32),
        ("int8", 8),
        ("uint8", 8),
        ("bool", 8),
        ("bfloat16", 16),
        ("float8_e4m3fn", 8),
        ("int4", 4),
        ("float32x4", 128),
        ("string", None),
    ],
)
def test_bits_of_a_dtype(dtype: str, bits: int | None) -> None:
    assert dtype_bits(dtype) == bits


def test_bytes_of_tensors_are_known_where_their_shapes_are() -> None:
    assert tensors_bytes([TensorShape((2, 3), "float32"), TensorShape((5,), "int4")]) == 24 + 3
    assert tensors_bytes([TensorShape((2, -1), "float32")]) is None
    assert tensors_bytes([TensorShape((2,), "string")]) is None
    assert tensors_bytes([]) == 0


def test_a_task_knows_the_bytes_of_its_tensors(session: SessionDirectory) -> None:
    with session.store() as store:
        profile = store.profile()
    assert profile is not None
    assert {task.tensor_bytes for task in profile.tasks} == {2 * 64 * 56 * 56 * 4}


# the cache


def test_what_was_kept_is_found_again(tmp_path: Path) -> None:
    keep_peaks(PEAKS, folder=tmp_path / "new")
    assert cached_peaks(KEY, folder=tmp_path / "new") == PEAKS
    assert [path.name for path in (tmp_path / "new").iterdir()] == [f"peaks-{KEY}.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"device": 3}', "null", "[" * 100_000])
def test_a_damaged_cache_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / f"peaks-{KEY}.json").write_text(text, encoding="utf-8")
    assert cached_peaks(KEY, folder=tmp_path) is None


def test_limits_under_the_key_of_another_device_are_not_believed(tmp_path: Path) -> None:
    (tmp_path / f"peaks-{KEY}.json").write_text(json.dumps(replace(PEAKS, key="f" * 16).to_dict()), encoding="utf-8")
    assert cached_peaks(KEY, folder=tmp_path) is None
    assert cached_peaks("../../etc/passwd", folder=tmp_path) is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    keep_peaks(PEAKS, folder=tmp_path / "file")
    assert cached_peaks(KEY, folder=tmp_path / "file") is None


def test_the_cache_is_where_xdg_wants_it() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/tvm-workbench")
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/tvm-workbench")
    assert cache_folder({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == Path("/h/.cache/tvm-workbench")


def test_damaged_limits_of_a_session_are_unknown(session: SessionDirectory) -> None:
    with session.store() as store:
        assert stored_peaks(store) is None
        store.write_document("peaks", PEAKS.to_dict())
        assert stored_peaks(store) == PEAKS
        store.write_document("peaks", {"device": []})
        assert stored_peaks(store) is None


class Measuring:
    """As much of an engine as noting limits needs."""

    def __init__(self, peaks: Peaks) -> None:
        self.found = peaks
        self.measured = 0

    def peaks_key(self) -> str:
        return self.found.key

    def peaks(self, *, on_progress: Progress) -> Peaks:
        self.measured += 1
        on_progress("limits of the device", 0.0)
        return self.found


@pytest.mark.parametrize(("median", "times"), [(0.95, 1), (0.5, 2)], ids=["steady", "disturbed"])
def test_limits_are_measured_once_a_machine_unless_it_was_busy(
    median: float, times: int, session: SessionDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    engine: Any = Measuring(replace(PEAKS, flop_per_s=Rate(1e9, median * 1e9, 0.0, 40)))
    with session.store() as store:
        context = JobContext(session, store, 1, lambda phase, share: None, lambda: False)
        for _ in range(2):
            assert note_peaks(engine, context) == engine.found
        assert stored_peaks(store) == engine.found
    assert engine.measured == times
