"""The session directory."""

from workbench.session.directory import DATABASE, SESSION_FILES, SessionDirectory, default_path, is_session, latest_session

__all__ = ["DATABASE", "SESSION_FILES", "SessionDirectory", "default_path", "is_session", "latest_session"]
