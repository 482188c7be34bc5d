"""Schedules of the original auto-scheduler (Ansor) on today's TVM: its transform steps as a TensorIR schedule of the same TE workload."""
