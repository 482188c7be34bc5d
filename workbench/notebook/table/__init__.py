"""The profile as a table in a notebook."""
