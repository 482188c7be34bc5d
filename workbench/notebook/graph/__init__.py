"""The graphs of a model: source operators and kernel calls."""
