"""Plain data that passes between layers: frozen, with units in the names."""
