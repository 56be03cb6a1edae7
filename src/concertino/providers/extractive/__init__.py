"""The extractive model: a provider without weights, which answers by quoting what it finds."""

from .model import ExtractiveModel

__all__ = ["ExtractiveModel"]
