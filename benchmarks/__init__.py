"""What a step costs: concertino beside a bare loop and beside its peers. `python -m benchmarks` runs it."""
