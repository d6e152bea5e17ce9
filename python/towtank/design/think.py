"""Waits between requests: constant, or drawn from a distribution; what they take on average and at most."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Discriminator, Field, Tag, field_validator

from towtank.fields import Duration, Model

Z95 = 1.6448536269514722
"""95 % of a standard normal distribution lie below it."""
LOGNORMAL_CUT = 100.0
"""A lognormal wait is never longer than so many medians (docs/job.md, 3)."""
_MEANS_CUT = 10.0
"""An exponential wait has no longest; one of 45,000 is longer than so many means."""


class UniformThink(Model):
    """A wait drawn evenly from [shortest, longest]."""

    uniform: tuple[Duration, Duration] = Field(description="shortest and longest wait")

    @field_validator("uniform")
    @classmethod
    def _in_order(cls, uniform: tuple[float, float]) -> tuple[float, float]:
        if uniform[0] > uniform[1]:
            raise ValueError("the shortest wait comes first, then the longest")
        return uniform


class ExponentialThink(Model):
    """A wait drawn from an exponential distribution with this mean."""

    exponential: Duration = Field(description="mean wait")


class LognormalThink(Model):
    """A wait drawn from a lognormal distribution, cut at a hundred medians: most are short, a few are long."""

    lognormal: tuple[Duration, Duration] = Field(description="median, and the wait that 95 % do not exceed")

    @field_validator("lognormal")
    @classmethod
    def _in_order(cls, lognormal: tuple[float, float]) -> tuple[float, float]:
        if not 0 < lognormal[0] <= lognormal[1]:
            raise ValueError("the median comes first and is more than 0, then the 95th percentile")
        return lognormal

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return math.log(self.lognormal[1] / self.lognormal[0]) / Z95


_KINDS: dict[str, type[Model]] = {
    "uniform": UniformThink,
    "exponential": ExponentialThink,
    "lognormal": LognormalThink,
}


def _think_kind(value: object) -> str | None:
    for key, model in _KINDS.items():
        if isinstance(value, model) or (isinstance(value, dict) and key in value):
            return f"@{model.__name__}"
    return None if isinstance(value, dict) else "@Duration"


Think = Annotated[
    Annotated[Duration, Tag("@Duration")]
    | Annotated[UniformThink, Tag("@UniformThink")]
    | Annotated[ExponentialThink, Tag("@ExponentialThink")]
    | Annotated[LognormalThink, Tag("@LognormalThink")],
    Discriminator(
        _think_kind,
        custom_error_type="think_kind",
        custom_error_message="allowed is a duration, {uniform: [shortest, longest]}, {exponential: mean}, "
        "or {lognormal: [median, p95]}",
    ),
]
"""A constant wait (``500ms``) or a random one (``{uniform: [1s, 3s]}``, ``{exponential: 2s}``, …)."""


def mean_s(think: Think | None) -> float:
    """Mean of a wait; 0 for none."""
    if think is None:
        return 0.0
    if isinstance(think, UniformThink):
        return (think.uniform[0] + think.uniform[1]) / 2
    if isinstance(think, LognormalThink):
        return min(think.lognormal[0] * math.exp(min(think.sigma**2 / 2, 50.0)), longest_s(think))
    return think.exponential if isinstance(think, ExponentialThink) else think


def longest_s(think: Think | None) -> float:
    """Longest wait that is worth counting with; 0 for none."""
    if think is None:
        return 0.0
    if isinstance(think, UniformThink):
        return think.uniform[1]
    if isinstance(think, LognormalThink):
        return LOGNORMAL_CUT * think.lognormal[0]
    return _MEANS_CUT * think.exponential if isinstance(think, ExponentialThink) else think
