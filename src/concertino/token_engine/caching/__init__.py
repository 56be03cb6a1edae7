"""Prompt caches: providers' rules, breakpoints and a monitor of hits."""
