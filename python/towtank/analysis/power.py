"""How many blocks an undecided comparison would have needed, roughly."""

from __future__ import annotations

import math

from scipy import special

MOST = 10_000
"""Beyond this many blocks the answer is "not in this way"."""
POWER = 0.8


def blocks_to_resolve(sd: float, *, difference: float, confidence: float, power: float = POWER) -> int | None:
    """Blocks at which a true difference would be found with the given power.

    Parameters
    ----------
    sd : float
        Standard deviation of the differences within blocks, on the scale of comparison.
    difference : float
        True difference to be found on that scale, > 0.
    confidence : float
        Of the interval that has to exclude "no difference", 0–1.
    power : float, default 0.8

    Returns
    -------
    int or None
        None when more than 10 000 would be needed.

    Notes
    -----
    Smallest n with √n δ / s ≥ t(1 − α/2; n − 1) + t(power; n − 1); an approximation of the non-central t (Cohen 1988,
    §2) that is good enough for a sentence with "about" in it.
    """
    if difference <= 0 or not math.isfinite(sd):
        raise ValueError(f"a difference of {difference!r} with sd {sd!r} cannot be planned for")
    low, high = 2, MOST

    def enough(n: int) -> bool:
        wanted = special.stdtrit(n - 1, 0.5 + confidence / 2) + special.stdtrit(n - 1, power)
        return bool(math.sqrt(n) * difference >= sd * wanted)

    if not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low
