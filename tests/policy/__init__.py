"""The data policy, end to end: what it forbids is found nowhere once a run has ended."""
