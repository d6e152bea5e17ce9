"""Price lists that tests of costs share: reserved nodes as a file, and what is paid by use."""

from __future__ import annotations

from towtank.cost.price_list import PerRequest

WHO = {"prices": "t", "date": "2026-01-01", "source": "p", "currency": "EUR", "log": "free", "egress": "free"}


def paid_by_use(**prices: str) -> PerRequest:
    """Make a list by which requests are paid, and the time of CPUs; memory is free.

    Parameters
    ----------
    vcpu, request : str
        Prices, such as ``0.00001/s`` and ``free``.
    granularity, rounded : str
        To what time is rounded up, and of what.
    """
    return PerRequest(**WHO, model="per-request", memory="free", **prices)


def reserved_nodes(*, node: str, fee: str = "free", egress: str = "free", name: str = "nodes") -> str:
    """Text of a file with the prices of reserved nodes."""
    return f"""\
prices: {name}
date: 2026-01-01
source: paper
currency: EUR
model: reserved
node: {node}
fee: {fee}
log: free
egress: {egress}
"""
