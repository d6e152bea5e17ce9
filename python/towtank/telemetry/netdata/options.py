"""Options of the source `netdata`, as an experiment file gives them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from towtank.fields import Model, Number, Whole
from towtank.telemetry.http.options import ServerOptions
from towtank.telemetry.prometheus.options import MetricName
from towtank.variables import Unit


class Chart(Model):
    """One chart, or all charts of a context, and what their values are."""

    chart: str | None = Field(None, min_length=1, description="id of a chart", examples=["system.cpu"])
    context: str | None = Field(
        None,
        min_length=1,
        description="all charts of this context; each is an instance",
        examples=["disk.io"],
    )
    dimensions: tuple[str, ...] | None = Field(
        None, min_length=1, description="lines of the chart that are kept; all by default"
    )
    unit: Unit | None = Field(None, description="unit of values times `factor`; that of the chart by default")
    factor: Number | None = Field(None, gt=0, description="what Netdata's values are multiplied by")

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if (self.chart is None) == (self.context is None):
            found = "both" if self.chart is not None else "none of them"
            raise ValueError(f"needs either `chart` or `context`; found {found}")
        if (self.unit is None) != (self.factor is None):
            missing = "unit" if self.unit is None else "factor"
            raise ValueError(f"`unit` and `factor` belong together; `{missing}` is missing")
        return self

    @property
    def asked(self) -> str:
        """What it is, for messages."""
        return f"chart {self.chart!r}" if self.chart is not None else f"context {self.context!r}"


def _chart(value: object) -> object:
    return {"chart": value} if isinstance(value, str) else value


AnyChart = Annotated[Chart, BeforeValidator(_chart, json_schema_input_type=str | Chart)]


class NetdataOptions(ServerOptions):
    """Options of the source `netdata`."""

    charts: dict[MetricName, AnyChart] = Field(
        min_length=1, max_length=100, description="name → id of a chart, or what says more of it"
    )
    most_series: Whole = Field(
        200, ge=1, le=10_000, description="lines that are kept of one name; more are refused"
    )
