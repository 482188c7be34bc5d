"""The app: what it is doing, what a user may do next, and how that reaches a session; `workbench.py` draws it."""
