"""The limits of this machine's processor: measured to be plausible, once a machine, and noted in the session."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench
from workbench.engines.relax.peaks import measure_peaks, peaks_key, triad_levels
from workbench.engines.targets import resolve_target
from workbench.errors import Interrupted
from workbench.machine import cpu_facts
from workbench.peak_cache import cache_folder, keep_peaks
from workbench.records.machine import CacheFacts, CpuFacts
from workbench.records.peaks import Bandwidth, Peaks, Rate

CPU = CpuFacts("c", "x86_64", 4, 8, 8, None, 256, (), (CacheFacts("L1d", 2**15, 2), CacheFacts("L2", 2**20, 2), CacheFacts("L3", 2**25, 8)))


def silent(phase: str, share: float) -> None:
    assert phase
    assert 0.0 <= share <= 1.0


@pytest.fixture(scope="module")
def peaks() -> Peaks:
    return measure_peaks(resolve_target("cpu", threads=1), threads=1, missing="", on_progress=silent)


def test_the_limits_of_a_processor_are_plausible(peaks: Peaks) -> None:
    assert peaks.unmeasured == ""
    assert peaks.flop_per_s is not None
    assert 1e9 < peaks.flop_per_s.best < 1e13
    assert peaks.flop_per_s.median <= peaks.flop_per_s.best
    assert peaks.flop_per_s.repeats == 40
    places = [bandwidth.place for bandwidth in peaks.bandwidths]
    assert places == [*(cache.name for cache in cpu_facts().caches), "memory"]
    sizes = [bandwidth.working_set_bytes for bandwidth in peaks.bandwidths]
    assert sizes == sorted(sizes)
    assert all(1e8 < bandwidth.bytes_per_s.best < 1e14 for bandwidth in peaks.bandwidths)


def test_vector_units_are_used(peaks: Peaks) -> None:
    """A scalar multiply-add a cycle would be 2 FLOP; even a slow processor does 8 with 128 bits."""
    assert peaks.flop_per_s is not None
    assert peaks.flop_per_s.best > 4e9


def test_levels_are_half_of_what_all_used_cores_have_then_memory() -> None:
    assert triad_levels(CPU, 4, 2**34) == [("L1d", 4 * 2**14), ("L2", 4 * 2**19), ("L3", 2**24), ("memory", 4 * 2**25)]
    assert triad_levels(CPU, 1, 2**34)[0] == ("L1d", 2**14)
    assert triad_levels(CPU, 4, 2**28)[-1] == ("memory", 2**25)  # an eighth of what is free


def test_a_device_that_is_not_here_has_limits_that_say_so() -> None:
    target = resolve_target("cuda:sm_90", threads=1)
    found = measure_peaks(target, threads=1, missing="no CUDA device here", on_progress=silent)
    assert (found.known, found.unmeasured) == (False, "not measured: no CUDA device here")


def test_measuring_can_be_stopped() -> None:
    def stop(phase: str, share: float) -> None:
        raise Interrupted("The work was stopped.")

    with pytest.raises(Interrupted):
        measure_peaks(resolve_target("cpu", threads=1), threads=1, missing="", on_progress=stop)


def test_other_threads_and_targets_have_other_keys() -> None:
    cpu = resolve_target("cpu", threads=2)
    assert peaks_key(cpu, threads=1) == peaks_key(cpu, threads=1)
    assert len({peaks_key(cpu, threads=1), peaks_key(cpu, threads=2), peaks_key(resolve_target("cuda:sm_90", threads=1), threads=1)}) == 3


def test_a_profile_notes_the_limits_that_the_machine_knows_already(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rate = Rate(1e12, 1e12, 0.0, 40)
    key = peaks_key(resolve_target("cpu", threads=1), threads=1)
    planted = Peaks("cpu", key, 1, rate, (Bandwidth(rate, 2**30, "memory"),), "planted", 1.0)
    keep_peaks(planted, folder=cache_folder({"XDG_CACHE_HOME": str(tmp_path)}))
    with workbench.open("matmul", args=(16, 16, 16), target="cpu", session=tmp_path / "s", threads=1) as session:
        assert session.peaks() is None
        session.profile(repeat=2)
        assert session.peaks() == planted
        assert session.peaks(measure=True) == planted


def test_a_profile_for_a_gpu_that_is_not_here_says_that_nothing_is_known(tmp_path: Path) -> None:
    with workbench.open("matmul", args=(16, 16, 16), target="cuda:sm_90", session=tmp_path / "s") as session:
        if session.profile().record.unmeasured == "":
            pytest.skip("the device is here")
        found = session.peaks()
        assert found is not None
        assert found.unmeasured == "not measured: no CUDA device here"
