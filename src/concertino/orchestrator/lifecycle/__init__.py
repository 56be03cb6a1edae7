"""A run's lifecycle: open, resume, fork, seal and result."""
