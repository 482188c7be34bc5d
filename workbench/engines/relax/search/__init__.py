"""Search of schedules on TVM's own pieces: spaces, mutators, features; with our own evolution, cost model, building and measuring."""
