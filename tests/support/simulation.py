"""How many experiments a test simulates, and what Monte Carlo error its limits have to grant."""

from __future__ import annotations

import math
import os

from towtank.analysis import Quantity

FULL = os.environ.get("TOWTANK_STATISTICAL") == "full"


def times(bounded: int, full: int) -> int:
    return full if FULL else bounded


def error(share: float, n: int) -> float:
    """3.3 standard errors of a share."""
    return 3.3 * math.sqrt(share * (1 - share) / n)


def series(values) -> dict[int, Quantity]:
    return {i: Quantity(float(v)) for i, v in enumerate(values, start=1)}
