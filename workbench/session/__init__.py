"""The session directory."""

from workbench.session.directory import RECORDS, SESSION_FILES, TUNED, SessionDirectory
from workbench.session.places import DATABASE, default_path, is_session, latest_session

__all__ = ["DATABASE", "RECORDS", "SESSION_FILES", "TUNED", "SessionDirectory", "default_path", "is_session", "latest_session"]
