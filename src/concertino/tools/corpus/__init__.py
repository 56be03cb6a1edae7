"""Documents on this machine as a `Library`: folders of text files, or Python's own docstrings."""

from concertino.tools.corpus.corpus import Corpus
from concertino.tools.corpus.opening import open_corpus

__all__ = ["Corpus", "open_corpus"]
