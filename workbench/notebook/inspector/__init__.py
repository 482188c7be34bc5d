"""The texts behind a task and its trials, in a notebook."""
