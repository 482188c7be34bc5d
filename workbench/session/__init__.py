"""The session directory."""

from workbench.session.device_limits import PEAKS, stored_peaks
from workbench.session.directory import RECORDS, SESSION_FILES, TUNED, SessionDirectory
from workbench.session.imported import stored_matches, stored_old_search
from workbench.session.places import DATABASE, default_path, is_session, latest_session
from workbench.session.stored_comparison import COMPARISON, NO_COMPARISON, StoredComparison, stored_comparison

__all__ = [
    "COMPARISON",
    "DATABASE",
    "NO_COMPARISON",
    "PEAKS",
    "RECORDS",
    "SESSION_FILES",
    "TUNED",
    "SessionDirectory",
    "StoredComparison",
    "default_path",
    "is_session",
    "latest_session",
    "stored_comparison",
    "stored_matches",
    "stored_old_search",
    "stored_peaks",
]
