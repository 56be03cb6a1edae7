"""Stores: where runs, conversations and usage are kept."""
