"""Workloads whose load another tool makes: a script that drives an experiment, or results that were brought in.

Nothing is known of such a load before it is over but its length: no schedule, so no lag, no expected count, no steps.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from towtank.fields import Duration, Model

IMPORTED = "import"
"""Driver of a workload whose results were brought in: it drives nothing."""


class ForeignLoad(Model):
    """A load without a schedule of ours; only its length is known."""

    model: Literal["foreign"] = Field("foreign", description="what comes when is the other tool's doing")
    tool: str = Field(min_length=1, max_length=100, description="which tool makes it, such as k6")
    duration: Duration = Field(description="length of the load, warm-up included")
    warmup: Duration = Field(0.0, description="beginning of the load that is kept and flagged, not evaluated")


class ForeignWorkload(Model):
    """What another tool drives against a deployment."""

    driver: str = Field(
        min_length=1, description="name of the driver; `import` where results were brought in"
    )
    config: Any = Field(
        None, description="the driver's own frozen config model; none for what was brought in"
    )
    load: ForeignLoad = Field(description="how long it lasts")
    timeout: Duration = Field(description="above which nothing is known of a latency")


def is_imported(workload: object) -> bool:
    """Whether the results of a workload were brought in; nothing drove it here."""
    return isinstance(workload, ForeignWorkload) and workload.driver == IMPORTED


class ImportedDeployment(Model):
    """Stands where a deployment stands: what was measured is known to whoever brought the results in."""

    platform: Literal["imported"] = Field(description="deployed by somebody else, at another time")

    def target_names(self) -> tuple[str, ...]:
        """None: nothing goes there any more."""
        return ()
