"""Towtank beside its peers, measured in interleaved rounds: `make bench-peers`."""
