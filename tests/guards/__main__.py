"""Print every count with its ceiling, or lower the ceilings to what is counted now.

PYTHONHASHSEED=0 python -m tests.guards [--lower | --json]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.guards.measure import measure

CEILINGS = Path(__file__).with_name("ceilings.json")


def main() -> None:
    """Count and print. `--lower` never raises a ceiling; do that by hand, with its reason in README.md."""
    parser = argparse.ArgumentParser(prog="python -m tests.guards", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="lower ceilings to the counts, and add missing ones")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    arguments = parser.parse_args()
    found, stored = measure(), json.loads(CEILINGS.read_text())
    ceilings: dict[str, int] = stored["ceilings"]
    if arguments.json:
        print(json.dumps(found))
        return
    for name, count in found.items():
        print(f"{count:10,} of {ceilings.get(name, 0):10,}  {name}")
    if arguments.lower:
        stored["ceilings"] = {name: min(count, ceilings.get(name, count)) for name, count in found.items()}
        CEILINGS.write_text(json.dumps(stored, indent=2) + "\n")


if __name__ == "__main__":
    main()
