"""Documents on this machine as a `Library`: folders of text files, or Python's own docstrings."""

from .corpus import Corpus
from .opening import open_corpus

__all__ = ["Corpus", "open_corpus"]
