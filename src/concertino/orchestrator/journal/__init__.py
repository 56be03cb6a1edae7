"""The journal of a run: entries, writer, replay, lease and data policy."""
