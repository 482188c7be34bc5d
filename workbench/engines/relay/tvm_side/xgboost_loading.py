"""Lets an XGBoost that does not load look like one that is missing: that is all that old TVM bears, whose modules import it."""

from __future__ import annotations

import importlib.machinery
import sys
from typing import Any

_NAME = "xgboost"


class _Finder:
    """Finds XGBoost as Python does, and turns whatever goes wrong while it is loaded into an `ImportError`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """As `importlib.abc.MetaPathFinder.find_spec`."""
        if name != _NAME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_or_be_missing(module: Any) -> None:
                try:
                    load(module)
                except ImportError:
                    raise
                except Exception as error:
                    raise ImportError(f"{type(error).__name__}: {error}", name=_NAME) from error

            spec.loader.exec_module = load_or_be_missing  # type: ignore[method-assign] # of this one loader alone
        return spec


def be_lenient() -> None:
    """Do so from now on in this process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
