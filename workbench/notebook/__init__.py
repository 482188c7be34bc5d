"""The workbench in a notebook: one widget a part, all of them usable alone. Only this package imports widgets."""
