"""The worker process: owns an engine, takes commands from the store, writes results into it."""

ALREADY_SERVED = 75
"""Exit code of a worker that finds another one serving its session."""

__all__ = ["ALREADY_SERVED"]
