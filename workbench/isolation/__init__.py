"""Kept, preloaded, disposable processes for untrusted work: what crashes, hangs or eats the memory costs one job. Owns no work itself."""

from workbench.isolation.failures import JobError, JobTimeout, ProcessDied
from workbench.isolation.message import Message
from workbench.isolation.nursery import Nursery
from workbench.isolation.pool import Pool
from workbench.isolation.process import IsolatedProcess

__all__ = ["IsolatedProcess", "JobError", "JobTimeout", "Message", "Nursery", "Pool", "ProcessDied"]
