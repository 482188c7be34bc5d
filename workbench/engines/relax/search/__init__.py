"""Search of schedules in TVM's own spaces, with our own evolution, cost model, building and measuring."""
