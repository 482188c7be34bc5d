"""How a job can fail, as exceptions that are also values; they say what happened, and nothing of what it means for the caller."""

from __future__ import annotations

import signal


class JobError(Exception):
    """The job raised; its process lives on and takes the next one.

    Args:
        kind: Name of the exception's class in the job's process.
        text: The full traceback there, shortened in its middle if it is very long.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return self.text.rstrip().rpartition("\n")[2] or self.kind


class ProcessDied(Exception):  # noqa: N818 - says what it is
    """The process ended before it answered; all that it had started is gone too.

    Args:
        cause: In words, to follow "the process": "died with SIGSEGV".
        last_words: The end of what it wrote to standard output and error.
    """

    def __init__(self, cause: str, last_words: str = "") -> None:
        super().__init__(cause, last_words)
        self.cause = cause
        self.last_words = last_words

    def __str__(self) -> str:
        return f"The process {self.cause}."


class JobTimeout(Exception):  # noqa: N818 - says what it is
    """No answer came in time; the process and all that it had started were killed.

    Args:
        timeout_s: The limit.
        last_words: The end of what the process wrote to standard output and error.
    """

    def __init__(self, timeout_s: float, last_words: str = "") -> None:
        super().__init__(timeout_s, last_words)
        self.timeout_s = timeout_s
        self.last_words = last_words

    def __str__(self) -> str:
        return f"No answer within {self.timeout_s:g} s."


def ending(code: int) -> str:
    """How a process ended, in words, from its exit code or negative signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    if code == -signal.SIGKILL:
        return "was killed (out of memory?)"
    try:
        return f"died with {signal.Signals(-code).name}"
    except ValueError:
        return f"died with signal {-code}"
