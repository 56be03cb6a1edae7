"""The servers that are loaded; those of other frameworks are in `peers/`."""
