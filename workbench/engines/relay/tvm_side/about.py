"""What this Python is: versions of TVM and of what it depends on, and what is missing."""

from __future__ import annotations

import importlib
import platform
import sys
from typing import Any

from .failing import ENVIRONMENT, Refusal, missing_package
from .held import Held
from .wire import Blob
from .xgboost_loading import be_lenient

_OPTIONAL = ("xgboost", "onnx", "pytest", "cloudpickle", "tornado")


def versions(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, str]:
    """Versions by name; what is not installed is not there, and a package that cannot be imported has its error behind an exclamation mark.

    Raises:
        Refusal: There is no TVM with Relay.
    """
    del held, arguments, blobs, progress
    be_lenient()
    import numpy as np

    try:
        import tvm
        from tvm import relay  # noqa: F401 - a newer TVM has none
    except Exception as error:
        lacking = missing_package(error)
        if lacking is not None:
            raise lacking from error
        raise Refusal(
            ENVIRONMENT,
            f"The old Python {sys.executable} has no TVM with Relay: {type(error).__name__}: {str(error)[:300]}.",
            "Install TVM 0.8 to 0.18 there, or name another Python with --python PATH: environment-relay.yml makes one.",
        ) from error
    found = {"python": platform.python_version(), "tvm": str(tvm.__version__), "numpy": str(np.__version__)}
    version = tvm.get_global_func("target.llvm_version_major", allow_missing=True)
    if version is not None:
        found["llvm"] = str(version())
    found.update({name: _version(name) for name in _OPTIONAL})
    return {name: value for name, value in found.items() if value}


def _version(name: str) -> str:
    try:
        return str(getattr(importlib.import_module(name), "__version__", "?"))
    except ModuleNotFoundError:
        return ""
    except Exception as error:
        return f"!{type(error).__name__}: {str(error)[:200]}"


CALLS = {"versions": versions}
