"""The engine for old TVM (0.8 to 0.18, with Relay), which runs in the user's own old Python."""
