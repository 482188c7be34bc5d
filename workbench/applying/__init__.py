"""Applying winners: which trial each task gets and why, the model built with them, verified, compared, and written; knows no TVM."""
