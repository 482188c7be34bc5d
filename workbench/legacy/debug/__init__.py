"""What the debug runtime and the graph executor wrote: the printed table, the dump, the graph, the profiler's report."""
