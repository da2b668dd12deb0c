"""Benchmarks against the peers, on the machine at hand: `make bench`, or `python -m bench --help`.

Nothing here is part of the product, and no test needs the peers.
"""
