"""A model that needs no key: it quotes the passages that match a question best. No language model is involved."""

from .model import DemoModel

__all__ = ["DemoModel"]
