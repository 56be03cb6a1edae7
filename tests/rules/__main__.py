"""Print what the lists in `allowed.py` still excuse, and which of their entries can go.

    python -m tests.rules [UNIT ...]

With names of units or pages, only their wording.
"""

from __future__ import annotations

import sys

from . import allowed
from .test_layers import deep_examples
from .test_names import duplicate_modules, duplicate_types
from .test_sizes import excesses
from .test_wording import KEYS, of_unit


def main(units: list[str]) -> None:
    """Print one line per violation, then the entries that are not needed any more."""
    wording = {key: of_unit(key) for key in units or KEYS}
    for found in wording.values():
        for line in found:
            print(line)
    if units:
        return
    needed = {
        "LARGE": set(excesses()),
        "DUPLICATE_MODULES": duplicate_modules(),
        "DUPLICATE_TYPES": duplicate_types(),
        "DEEP_EXAMPLES": {page for page, _ in deep_examples()},
        "WORDING": {key for key, found in wording.items() if found},
    }
    for name, entries in needed.items():
        listed = getattr(allowed, name)
        print(f"{name}: remove {sorted(listed - entries)}, violations not listed {sorted(entries - listed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
