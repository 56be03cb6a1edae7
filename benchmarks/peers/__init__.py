"""The adapters of other frameworks; each runs in an environment of its own, see `requirements/`."""
