"""The model with recorded schedules: built, written, run and timed beside the untuned one, in a process of its own."""
