"""The adapters that run in the project's own environment."""
