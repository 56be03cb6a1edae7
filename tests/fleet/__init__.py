"""Many processes on one database: bells, workers and web processes."""
