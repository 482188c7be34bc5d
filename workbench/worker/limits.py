"""The limits of the session's device: measured once a machine, kept in the user's cache, and noted in the session."""

from __future__ import annotations

from workbench.engines.protocol import Engine
from workbench.peak_cache import cached_peaks, keep_peaks
from workbench.records.peaks import Peaks
from workbench.session import PEAKS
from workbench.worker.context import JobContext


def note_peaks(engine: Engine, context: JobContext) -> Peaks:
    """Note in the session what its device can do at most, from the cache or newly measured; figures of a busy machine are not kept for others.

    Raises:
        Interrupted: The command was cancelled.
    """
    key = engine.peaks_key()
    peaks = cached_peaks(key)
    if peaks is None:
        context.on_progress("limits of the device", 0.0)
        peaks = engine.peaks(on_progress=context.on_progress)
        if peaks.known and peaks.steady:
            keep_peaks(peaks)
    context.store.write_document(PEAKS, peaks.to_dict())
    return peaks
