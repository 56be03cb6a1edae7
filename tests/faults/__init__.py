"""Faults of processes, servers, networks and providers, audited by the invariants I1 to I10."""
