"""Import of Relay text into Relax."""

from workbench.engines.relax.relay.importer import import_relay

__all__ = ["import_relay"]
