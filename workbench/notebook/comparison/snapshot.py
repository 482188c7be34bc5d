"""Owns what a comparison is to its view: the whole first, then each kernel by what it saves; it sends nothing."""

from __future__ import annotations

import math
from typing import Any

from workbench.escaping import plain
from workbench.records.comparison import Comparison, KernelComparison, Timing

_LONGEST_NAME = 200
_LONGEST_TEXT = 400
_MOST_FAILURES = 20


def snapshot(comparison: Comparison) -> dict[str, Any]:
    """A comparison for the page."""
    verification = comparison.verification
    return {
        "model": plain(comparison.model, 80),
        "target": plain(comparison.target, 80),
        "total": _timing(comparison.total),
        "rounds": comparison.rounds,
        "notes": [plain(note, _LONGEST_TEXT) for note in comparison.notes],
        "verified": verification.verified,
        "max_abs_err": finite(verification.max_abs_err),
        "max_rel_err": finite(verification.max_rel_err),
        "reason": plain(verification.reason, _LONGEST_TEXT),
        "random_weights": plain(verification.random_weights, _LONGEST_TEXT),
        "reference": plain(verification.onnxruntime, _LONGEST_TEXT),
        "seeds": len(verification.seeds),
        "applied": comparison.applied,
        "failures": [plain(str(item), _LONGEST_TEXT) for item in verification.failures[:_MOST_FAILURES]],
        "kernels": [_kernel(kernel) for kernel in sorted(comparison.kernels, key=saved_us, reverse=True)],
    }


def saved_us(kernel: KernelComparison) -> float:
    """What all calls of a kernel save together; negative if they take longer."""
    if kernel.baseline_us is None or kernel.tuned_us is None:
        return -math.inf
    return float(kernel.weight * (kernel.baseline_us - kernel.tuned_us))


def finite(value: float | None) -> float | None:
    """The value, or None where it is no number: JSON has neither NaN nor infinity."""
    return None if value is None or not math.isfinite(value) else value


def _kernel(kernel: KernelComparison) -> dict[str, Any]:
    return {
        **_timing(kernel),
        "kernel": plain(kernel.kernel, _LONGEST_NAME),
        "weight": kernel.weight,
        "rows": list(kernel.rows),
        "used": plain(kernel.used, 20),
        "trial": kernel.trial,
        "why": plain(kernel.why, _LONGEST_TEXT),
        "saved_us": finite(saved_us(kernel)),
    }


def _timing(timing: Timing) -> dict[str, Any]:
    return {
        "baseline_us": finite(timing.baseline_us),
        "baseline_us_iqr": finite(timing.baseline_us_iqr),
        "tuned_us": finite(timing.tuned_us),
        "tuned_us_iqr": finite(timing.tuned_us_iqr),
        "ratio": finite(timing.ratio),
        "ratio_error": finite(timing.ratio_error),
        "verdict": plain(timing.verdict, 40),
        "text": plain(timing.text, _LONGEST_TEXT),
    }
