"""The engine for today's TVM (Relax)."""
