"""Names of the texts that show a kernel with a schedule."""

COMPUTE_DAG = "compute_dag"
"""What the kernel computes, whatever the schedule."""

SCHEDULE = "schedule"
"""Python that makes the same schedule."""

TIR = "tir"
"""The scheduled kernel in TVMScript."""

SOURCE = "source"
"""LLVM IR, CUDA C, or what else the target's code generator makes."""

VIEWS = (COMPUTE_DAG, SCHEDULE, TIR, SOURCE)
