"""Two-stage repetitions: the pilot's variance fixes the final number of blocks once.

Looking after every block and stopping when the interval is narrow enough would make it narrow by luck; Stein's
rule looks once, and keeps its level exactly because the interval goes on using the pilot's variance and degrees
of freedom.

References
----------
Stein, C. (1945). A two-sample test for a linear hypothesis whose power is independent of the variance. Annals of
Mathematical Statistics 16 (3), 243–258.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

from towtank.analysis.intervals import FloatArray, as_finite, check_confidence, has_no_variation


def final_blocks(
    pilot_values: npt.ArrayLike,
    until: float,
    confidence: float,
    at_least: int,
    at_most: int,
    *,
    relative: bool = True,
) -> int:
    """Number of blocks, pilot included, that gives the half-width wanted.

    Parameters
    ----------
    pilot_values : array_like
        One difference per block of the pilot: log ratios, or plain differences of shares.
    until : float
        Half-width wanted of the interval: 0.05 is ±5 % of the ratio, or ±5 points of a share.
    confidence : float
        Of the interval that is to be this narrow, 0–1; in a family of m claims 1 − α/m.
    at_least, at_most : int
        Bounds; the pilot has `at_least` blocks.
    relative : bool, default True
        `until` is a share of the ratio: h = log(1 + until). Else h = until.

    Returns
    -------
    int
        Between `at_least` and `at_most`.

    Notes
    -----
    n = max(n₀, ⌈(t(1 − α/2; n₀ − 1) s₀ / h)²⌉).
    """
    check_confidence(confidence)
    if not until > 0:
        raise ValueError(f"a half-width of {until!r} cannot be reached; allowed is a share > 0, such as 0.05")
    if not 2 <= at_least <= at_most:
        raise ValueError(f"at_least {at_least} and at_most {at_most} must satisfy 2 ≤ at_least ≤ at_most")
    pilot = as_finite(pilot_values)
    if pilot.size < 2:
        raise ValueError(f"a pilot of {pilot.size} block(s) has no variance; it needs at least 2")
    half = math.log1p(until) if relative else until
    sd = float(np.std(pilot, ddof=1))
    needed = (float(stats.t.ppf(0.5 + confidence / 2, pilot.size - 1)) * sd / half) ** 2
    return min(at_most, max(at_least, pilot.size, math.ceil(needed)))


def pilot_spread(values: FloatArray, blocks: Sequence[int], *, pilot_blocks: int) -> tuple[float, int] | None:
    """Standard deviation of the pilot and its degrees of freedom.

    Parameters
    ----------
    values : array
        One difference per complete block.
    blocks : sequence of int
        Number of each block, from 1.
    pilot_blocks : int
        Blocks up to this number are the pilot. A block of it that stayed incomplete is not replaced by a later one,
        since the number of those was chosen by looking at the pilot.

    Returns
    -------
    (float, int) or None
        None with fewer than two complete pilot blocks, or without variation among them.
    """
    pilot = values[np.asarray(blocks) <= pilot_blocks]
    if has_no_variation(pilot):
        return None
    return float(np.std(pilot, ddof=1)), pilot.size - 1
