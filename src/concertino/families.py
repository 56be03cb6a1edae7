"""Families of models, told by their names: what tables of data on models have in common."""

from __future__ import annotations

import re
from functools import lru_cache

SINCE_GPT_5_6 = r"gpt-(5\.[6-9]|[6-9]|\d\d)"


@lru_cache(maxsize=1_024)  # it is asked for every request
def is_of(family: str, model: str) -> bool:
    """Whether a word of *model* begins with the pattern *family*: names may have a maker's before them."""
    return re.search(rf"(^|[/.:])({family})", model) is not None
