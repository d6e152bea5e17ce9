"""Stretches in which the load of a treatment does not change: where a system can be in a steady state."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from towtank.design.foreign import ForeignLoad
from towtank.design.load_shape import pieces
from towtank.design.model import TreatmentSpec

Stretch = tuple[float, float]
"""Start and end, seconds of the run clock."""


def constant_stretches(spec: TreatmentSpec) -> tuple[Stretch, ...]:
    """Stretches in which the load of all workloads together stays at one level, ascending."""
    edges, level = {0.0}, []
    for workload in spec.workloads.values():
        if isinstance(workload.load, ForeignLoad):
            return ()
        at_s, known = 0.0, []
        for piece in pieces(workload.load):
            end_s = at_s + piece.duration_s
            known.append((at_s, end_s, piece.wave is None and piece.start == piece.end, piece.start))
            edges.add(end_s)
            at_s = end_s
        level.append(known)
    ordered = sorted(edges)
    found: list[tuple[float, float, list[float | None]]] = []
    for start, end in itertools.pairwise(ordered):
        heights = [_height_at(known, start) for known in level]
        if any(height is None for height in heights):
            continue
        if found and found[-1][1] == start and found[-1][2] == heights:
            found[-1] = (found[-1][0], end, heights)
        else:
            found.append((start, end, heights))
    return tuple((start, end) for start, end, _ in found)


def _height_at(known: Sequence[tuple[float, float, bool, float]], start_s: float) -> float | None:
    """Load of one workload from an instant on: 0 behind its end, None where it changes."""
    index = bisect_right(known, start_s, key=itemgetter(0)) - 1
    if index < 0 or start_s >= known[index][1]:
        return 0.0
    _, _, is_flat, height = known[index]
    return height if is_flat else None


def stretch_at(stretches: Sequence[Stretch], at_s: float) -> Stretch | None:
    """The stretch that an instant lies in; None where the load changes then."""
    return next((one for one in stretches if one[0] <= at_s < one[1]), None)
