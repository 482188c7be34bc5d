"""Makes a read-only session of what older TVM left behind: programs, debug tables, graphs, task lists, tuning logs."""
