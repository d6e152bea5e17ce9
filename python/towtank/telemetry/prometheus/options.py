"""Options of the source `prometheus`, as an experiment file gives them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from towtank.fields import Model, Whole
from towtank.telemetry.http.options import ServerOptions
from towtank.variables import Unit

MOST_QUERIES = 100
LONGEST_QUERY = 4000
"""Characters; questions go out as GET, which is what read-only credentials may do everywhere."""

MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
"""Small letters, digits and _; begins with a letter."""
Label = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]


def _labels(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Labels = Annotated[
    tuple[Label, ...], BeforeValidator(_labels, json_schema_input_type=str | list[str]), Field(max_length=8)
]


class Query(Model):
    """One query and what its values are."""

    query: str = Field(
        min_length=1,
        max_length=LONGEST_QUERY,
        description="PromQL that gives an instant vector or a scalar",
        examples=["sum by (pod) (rate(container_cpu_usage_seconds_total[15s]))"],
    )
    unit: Unit = Field(description="unit of its values; becomes the end of the metric's name, count does not")
    instance: Labels = Field(
        ("instance",), description="labels whose values, joined by /, name the instance of a series"
    )

    def metric(self, name: str) -> str:
        """Name of the samples: that of the query, with its unit at the end."""
        return name if self.unit == "count" or name.endswith(f"_{self.unit}") else f"{name}_{self.unit}"


class PrometheusOptions(ServerOptions):
    """Options of the source `prometheus`."""

    queries: dict[MetricName, Query] = Field(
        min_length=1, max_length=MOST_QUERIES, description="name → query; the name becomes that of the metric"
    )
    read: Literal["after", "live"] = Field(
        "after", description="ask for the whole run when it is over, or at each interval while it lasts"
    )
    most_series: Whole = Field(
        200, ge=1, le=10_000, description="series that are kept of one query; more are a finding"
    )
