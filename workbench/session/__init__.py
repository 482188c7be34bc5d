"""The session directory."""

from workbench.session.device_limits import PEAKS, stored_peaks
from workbench.session.directory import RECORDS, SESSION_FILES, TUNED, SessionDirectory
from workbench.session.imported import stored_matches, stored_old_search
from workbench.session.places import DATABASE, default_path, is_session, latest_session

__all__ = [
    "DATABASE",
    "PEAKS",
    "RECORDS",
    "SESSION_FILES",
    "TUNED",
    "SessionDirectory",
    "default_path",
    "is_session",
    "latest_session",
    "stored_matches",
    "stored_old_search",
    "stored_peaks",
]
