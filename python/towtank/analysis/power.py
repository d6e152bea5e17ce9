"""How many blocks a design needs to find a difference, and how surely it finds one: exact power of the t-test."""

from __future__ import annotations

import math

from scipy import special, stats

MOST = 10_000
"""Beyond this many blocks the answer is "not in this way"."""
POWER = 0.8


def power_of_t(n: int, *, shift: float, confidence: float, samples: int = 1) -> float:
    """Probability that a t-test finds a true difference.

    Parameters
    ----------
    n : int
        Blocks, or runs a side with two samples.
    shift : float
        True difference ÷ standard deviation of one difference, ≥ 0. Of two samples that deviation is √(s₁² + s₂²).
    confidence : float
        Of the interval that has to exclude "no difference", 0–1.
    samples : {1, 2}
        Differences within blocks, or two independent samples.

    Returns
    -------
    float
        0–1.

    Notes
    -----
    1 − F(t(1 − α/2; ν); ν, √n shift) + F(−t(1 − α/2; ν); ν, √n shift), F the distribution function of the non-central
    t, ν = n − 1, or 2n − 2 (Cohen 1988, §2).
    """
    df = n - 1 if samples == 1 else 2 * n - 2
    if df < 1:
        return 0.0
    moved = math.sqrt(n) * shift
    critical = float(special.stdtrit(df, 0.5 + confidence / 2))
    upper, lower = float(stats.nct.sf(critical, df, moved)), float(stats.nct.cdf(-critical, df, moved))
    # scipy gives nan for a lower tail that is far below 1e-30.
    return min(upper + (lower if math.isfinite(lower) else 0.0), 1.0)


def blocks_to_resolve(
    sd: float, *, difference: float, confidence: float, power: float = POWER, samples: int = 1
) -> int | None:
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
    samples : {1, 2}
        As `power_of_t` has it.

    Returns
    -------
    int or None
        None when more than 10 000 would be needed.
    """
    if difference <= 0 or not math.isfinite(sd):
        raise ValueError(f"a difference of {difference!r} with sd {sd!r} cannot be planned for")
    if sd == 0:
        return 2
    low, high = 2, MOST

    def enough(n: int) -> bool:
        found = power_of_t(n, shift=difference / sd, confidence=confidence, samples=samples)
        return found >= power

    if not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def upper_sd(sd: float, df: int, *, assurance: float) -> float:
    """Bound that a true standard deviation stays below with this probability, from one of `df` degrees of freedom.

    Notes
    -----
    s √(ν / χ²(1 − assurance; ν)): planning with the pilot's own deviation finds too few runs in half of all cases
    (Browne 1995, Stat. Med. 14, 1933).
    """
    if df < 1:
        raise ValueError(f"{df} degrees of freedom bound nothing")
    return sd * math.sqrt(df / float(stats.chi2.ppf(1 - assurance, df)))
