"""The session's database: the only channel between fronts and a worker."""

from workbench.store.schema import FORMAT_VERSION
from workbench.store.store import Store

__all__ = ["FORMAT_VERSION", "Store"]
