"""The worker process: owns an engine, takes commands from the store, writes results into it."""

CANNOT_WRITE = 74
"""Exit code of a worker that cannot write its session: the disk is full, or read-only."""

ALREADY_SERVED = 75
"""Exit code of a worker that finds another one serving its session."""

NO_ENGINE = 78
"""Exit code of a worker that cannot load its engine; the last line of its log says why."""

STARTING = "starting"
"""Phase of a worker that has not loaded its engine yet."""

READY = "ready"
"""Phase of a worker that takes commands."""

SEARCH = "tune"
"""Kind of the command that searches; one of another front may end with its worker, and one in a Jupyter kernel may outlive its front."""

__all__ = ["ALREADY_SERVED", "CANNOT_WRITE", "NO_ENGINE", "READY", "SEARCH", "STARTING"]
