"""Adapters to generations of TVM; only the folders below import it."""
