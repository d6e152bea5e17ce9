"""A quantity that changes at instants and is constant in between: instances wanted, instances there.

Pure arithmetic; `elasticity` compares two of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from towtank.analysis.intervals import FloatArray


@dataclass(frozen=True, eq=False)
class StepFunction:
    """Constant from each instant to the next.

    Parameters
    ----------
    times_s : array
        When each value begins, strictly ascending.
    values : array
        One for each instant; nan where it is not known.
    end_s : float
        Where the last one ends.

    Raises
    ------
    ValueError
        No instant, instants out of order, or an end that is not behind the last of them.
    """

    times_s: FloatArray
    values: FloatArray
    end_s: float

    def __post_init__(self) -> None:
        if not self.times_s.size or self.times_s.shape != self.values.shape:
            raise ValueError(
                f"{self.times_s.size} instants and {self.values.size} values make no step function; "
                "each value needs its instant, and one is the least"
            )
        if bool(np.any(np.diff(self.times_s) <= 0)):
            raise ValueError("the instants of a step function must ascend")
        if not self.end_s > self.times_s[-1]:
            raise ValueError(
                f"a step function cannot end at {self.end_s} s: its last step is not before that"
            )

    @classmethod
    def of(cls, steps: Mapping[float, float], end_s: float) -> StepFunction:
        """Make one from instant → value; what begins at `end_s` or later is left out."""
        kept = sorted((at, value) for at, value in steps.items() if at < end_s)
        return cls(
            np.array([at for at, _ in kept], dtype=float),
            np.array([value for _, value in kept], dtype=float),
            end_s,
        )

    @property
    def start_s(self) -> float:
        """Where it begins."""
        return float(self.times_s[0])

    @property
    def length_s(self) -> float:
        """From its start to its end."""
        return self.end_s - self.start_s

    def at(self, times_s: npt.ArrayLike) -> FloatArray:
        """Values at instants; nan outside of it."""
        asked = np.asarray(times_s, dtype=float)
        place = np.searchsorted(self.times_s, asked, side="right") - 1
        outside = (place < 0) | (asked >= self.end_s)
        return np.where(outside, np.nan, self.values[np.maximum(place, 0)])

    def within(self, start_s: float, end_s: float) -> StepFunction:
        """Cut a part out.

        Raises
        ------
        ValueError
            The part does not lie within it.
        """
        if not self.start_s <= start_s < end_s <= self.end_s:
            raise ValueError(
                f"from {start_s} to {end_s} s is no part of a step function from {self.start_s} to {self.end_s} s"
            )
        inside = (self.times_s > start_s) & (self.times_s < end_s)
        times = np.concatenate(([start_s], self.times_s[inside]))
        return StepFunction(times, self.at(times), end_s)

    def unit_steps(self) -> float:
        """How much it moves up and down altogether, Σ |change|."""
        return float(np.sum(np.abs(np.diff(self.values))))


def together(first: StepFunction, second: StepFunction) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Two functions on one set of stretches in which neither changes.

    Returns
    -------
    (lengths_s, first, second) : arrays
        Over the time that both cover.

    Raises
    ------
    ValueError
        They have no time in common.
    """
    start, end = max(first.start_s, second.start_s), min(first.end_s, second.end_s)
    if not start < end:
        raise ValueError(
            f"from {first.start_s} to {first.end_s} s and from {second.start_s} to {second.end_s} s "
            "have no time in common"
        )
    times = np.unique(np.concatenate(([start], first.times_s, second.times_s)))
    times = times[(times >= start) & (times < end)]
    return np.diff(np.append(times, end)), first.at(times), second.at(times)
