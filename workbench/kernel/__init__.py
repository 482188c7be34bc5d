"""Starts, watches and stops the worker of a session."""

from workbench.kernel.pending import OnEvent, Pending
from workbench.kernel.worker_process import WorkerProcess

__all__ = ["OnEvent", "Pending", "WorkerProcess"]
