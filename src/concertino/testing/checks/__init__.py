"""Checks of a product's own agents, stores, models and tools against the contracts of their ports."""
