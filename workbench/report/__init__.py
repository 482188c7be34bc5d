"""The report: one page that holds everything about a session, to be read anywhere, sent, and printed."""

from workbench.report.content import ReportContent, WinnerText, read_content
from workbench.report.page import page

__all__ = ["ReportContent", "WinnerText", "page", "read_content"]
