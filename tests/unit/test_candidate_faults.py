"""Which errors of a run are the kernel's own, and which say that the device is gone."""

from __future__ import annotations

import pytest

from workbench.engines.candidate_faults import run_failure
from workbench.records.trial import DEVICE_LOST, RUN_ERROR

LOST = (
    "CUDAError: cuModuleLoadData(&(module_[device_id]), data_.c_str()) failed with error: CUDA_ERROR_NO_DEVICE",
    "CUDA: no CUDA-capable device is detected",
    "CUDA: uncorrectable ECC error encountered",
    "CUDA: all CUDA-capable devices are busy or unavailable",
    "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the system to recover this GPU",
)
OF_THE_KERNEL = (
    "CUDALaunch Error: CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDALaunch Error: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "CUDA: unspecified launch failure",
    "CUDA: device-side assert triggered",
    "CUDA: misaligned address",
    "the launch timed out and was terminated",
)


@pytest.mark.parametrize("text", LOST)
def test_a_lost_device_is_told_from_a_faulty_kernel(text: str) -> None:
    assert run_failure(text) == DEVICE_LOST


@pytest.mark.parametrize("text", OF_THE_KERNEL)
def test_what_a_kernel_did_is_no_lost_device(text: str) -> None:
    assert run_failure(text) == RUN_ERROR
