"""What runs in the user's old Python, with TVM, NumPy and the standard library alone: Python 3.8, relative imports, nothing of the workbench."""
