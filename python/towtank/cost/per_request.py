"""Cost for a thousand requests, and requests that two deployments could serve for the same money."""

from __future__ import annotations

THOUSAND = 1000


def per_1000(cost: float, requests: int) -> float | None:
    """Cost ÷ requests × 1,000; None without requests.

    Parameters
    ----------
    cost : float
        Of a run.
    requests : int
        Successes, where not said otherwise: an error that costs half is not half as dear.
    """
    return THOUSAND * cost / requests if requests > 0 else None


def parity(fixed: float, marginal: float, requests: int) -> tuple[float, float] | None:
    """Requests at which a pay-per-use deployment costs what a reserved one does.

    Parameters
    ----------
    fixed : float
        What the reserved deployment costs, however many requests there are.
    marginal : float
        What the other costs for one request, > 0.
    requests : int
        What was driven.

    Returns
    -------
    (float, float) or None
        The total at parity, and how many more than were driven that is (negative: the reserved one is already the
        cheaper). None when a request costs nothing: then there is no parity.
    """
    if marginal <= 0:
        return None
    whole = fixed / marginal
    return whole, whole - requests
