"""Pure functions on what was measured: tolerances, confidence, verdicts, forecasts."""
