"""Prompt caches: the providers' rules, cache breakpoints and a monitor of cache hits."""
