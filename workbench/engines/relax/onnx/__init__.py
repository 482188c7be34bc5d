"""ONNX models in: read, checked, simplified, and turned into Relax with their origins."""

from workbench.engines.relax.onnx.importer import import_onnx

__all__ = ["import_onnx"]
