"""Starts, watches and stops the worker of a session, in whatever kind of process it runs."""

from workbench.kernel.host import Host
from workbench.kernel.pending import OnEvent, Pending
from workbench.kernel.worker_process import WorkerProcess

__all__ = ["Host", "OnEvent", "Pending", "WorkerProcess"]
