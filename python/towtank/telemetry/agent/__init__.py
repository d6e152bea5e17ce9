"""The `agent` source: nodes of a cluster, and other machines, seen by a small program that stands on each of them."""
