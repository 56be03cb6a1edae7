"""Benchmarks of concertino, its peers and a bare loop; `python -m benchmarks` runs them."""
