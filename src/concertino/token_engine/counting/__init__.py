"""Token counters: estimated, exact and calibrated."""
