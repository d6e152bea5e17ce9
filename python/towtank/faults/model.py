"""A fault of a treatment as a plan holds it: which kind, when, for how long, how often, and what it hits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from towtank.fields import Duration, Model, Slug, Whole

NONE = "none"
"""The kind that does nothing: a level of a factor, so that runs with and without the fault are compared."""
ONE, ALL, RANDOM = "one", "all", "random"
MOST_STROKES = 1000
"""Far more than a run can be disturbed and still be understood; stops a typing error."""


class FaultFile(Model):
    """When a fault comes and what it hits; beside these stand the keys of its kind."""

    kind: Slug = Field(description="kind of the fault; `none` does nothing, as a level to compare with")
    when: bool = Field(
        default=True,
        description="whether the treatment has it: `\"${{ fault == 'kill' }}\"`; if not, it is `none`",
    )
    at: Duration = Field(description="when it begins, on the run's clock: from the start of the load")
    lasts: Duration | None = Field(
        None, alias="for", gt=0, description="how long it lasts; then it is undone"
    )
    every: Duration | None = Field(None, gt=0, description="it comes again after this time, start to start")
    times: Whole = Field(
        1, ge=1, le=MOST_STROKES, description="how often it comes; more than once needs `every`"
    )
    target: str | None = Field(
        None, description="target that it hits; may be left out where there is only one"
    )
    instance: str = Field(
        ONE,
        min_length=1,
        description="which of the target's instances: `one` (the first), `all`, `random` (drawn anew each time, "
        "from the run's seed), or the name of one",
    )


class Fault(FaultFile):
    """A fault with what only its kind has, validated by the kind's own model."""

    options: dict[str, Any] = Field({}, description="what only this kind has")

    @property
    def is_active(self) -> bool:
        """Whether it does anything in this treatment."""
        return self.kind != NONE

    def strokes(self) -> Iterator[tuple[float, float | None]]:
        """Each time that it comes: begin and end, seconds of the run's clock; no end where nothing is undone."""
        for number in range(self.times):
            begin = self.at + number * (self.every or 0.0)
            yield begin, None if self.lasts is None else begin + self.lasts
