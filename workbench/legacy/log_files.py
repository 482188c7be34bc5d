"""The logs of auto_scheduler and AutoTVM that a session on older TVM keeps among its records, and the lines in them that can be read."""

from __future__ import annotations

from pathlib import Path

from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.autotvm_log import parse_autotvm_log
from workbench.regular_files import read_text

AUTO_SCHEDULER_LOG = "auto_scheduler.json"
AUTOTVM_LOG = "autotvm.log"
LOGS = (AUTO_SCHEDULER_LOG, AUTOTVM_LOG)


def good_lines(folder: Path) -> dict[str, list[str]]:
    """The lines of each log in a folder that stock TVM can read; a log that is not there has none.

    Raises:
        OSError: A log is no regular file, or cannot be read.
        UnicodeDecodeError: A log is no text.
    """
    return {name: _good_lines(folder / name) for name in LOGS}


def _good_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    content = read_text(path)
    parsed = parse_auto_scheduler_log(content) if path.name == AUTO_SCHEDULER_LOG else parse_autotvm_log(content)
    lines = content.split("\n")
    return [lines[entry.line - 1] for entry in parsed.entries]
