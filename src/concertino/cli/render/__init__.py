"""Rendering of runs, tables and events in the terminal."""
