"""The CPU-heavy part: which items are most like this one, by cosine similarity in plain Python."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

Features = Sequence[tuple[int, tuple[float, ...]]]


def most_similar(features: Features, number: int, *, count: int = 5) -> list[tuple[int, float]]:
    """Items most similar to item `number`, best first.

    Raises
    ------
    KeyError
        No such item.
    """
    own = next((vector for other, vector in features if other == number), None)
    if own is None:
        raise KeyError(number)
    own_length = math.hypot(*own)
    scored = (
        (_dot(own, vector) / (own_length * math.hypot(*vector)), other)
        for other, vector in features
        if other != number
    )
    return [(other, score) for score, other in heapq.nlargest(count, scored)]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    # an honest loop on purpose: this endpoint exists to use CPU the way application code does
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total
