"""Relay text of TVM 0.8 to 0.18: a pure parser, without TVM."""

from workbench.legacy.relay.parser import parse_relay

__all__ = ["parse_relay"]
