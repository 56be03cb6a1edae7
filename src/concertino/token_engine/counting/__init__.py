"""Token counting: counters, message sizes and calibration against the figures that providers bill."""
