"""The adapters of other frameworks; each runs in its own environment, see `requirements/`."""
