"""The session directory."""

from workbench.session.directory import SessionDirectory, default_path, is_session, latest_session

__all__ = ["SessionDirectory", "default_path", "is_session", "latest_session"]
