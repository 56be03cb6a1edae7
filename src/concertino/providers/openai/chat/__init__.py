"""Chat Completions, with the deviations of the servers that implement it."""
