"""Load models of the experiment file: when iterations begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, PrivateAttr, Tag, field_validator, model_validator

from towtank.design.request_model import FileName
from towtank.design.think import Think
from towtank.fields import Duration, Model, Number, Rate, Whole

MOST_FUNCTIONS = 1000
"""Rows of a trace that can be named one by one."""


def _line(text: str) -> str:
    """Accept text that can be shown in one line anywhere."""
    if not text.isprintable():
        raise ValueError(
            f"{text[:60]!r} holds line breaks or control characters; allowed is one line of text"
        )
    return text


Line = Annotated[str, Field(max_length=500), AfterValidator(_line)]
"""Text that figures, tables and terminals show in one line."""


class Sine(Model):
    """A wave: mean + amplitude · sin(2π (t/period + phase)), t from the start of the hold."""

    mean: Rate = Field(gt=0, description="arrivals per second in the middle between crest and trough")
    amplitude: Rate = Field(description="how far crest and trough are from it; at most the mean")
    period: Duration = Field(gt=0, description="from one crest to the next")
    phase: Number = Field(
        0.0, ge=-1e6, le=1e6, description="where the wave begins, in turns: 0.25 at a crest, 0.75 at a trough"
    )

    @model_validator(mode="after")
    def _positive(self) -> Self:
        if self.amplitude > self.mean:
            raise ValueError(
                f"the amplitude, {self.amplitude:g}/s, is above the mean, {self.mean:g}/s: "
                "the rate would be negative"
            )
        return self


class OpenStage(Model):
    """Go to `rate`, or to the beginning of `sine`, within `ramp`; then hold it for `hold`."""

    name: Line | None = Field(None, description="how figures and tables name the stage")
    rate: Rate | None = Field(None, description="arrivals per second at the end of the stage")
    sine: Sine | None = Field(None, description="a wave instead of a rate; it lasts for `hold`")
    ramp: Duration = Field(0.0, description="time to get there from the rate before, along a straight line")
    hold: Duration = Field(0.0, description="time to stay there")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.rate is None) == (self.sine is None):
            raise ValueError("a stage needs `rate` or `sine`, one of them")
        if self.sine is not None and self.hold == 0:
            raise ValueError("`sine` needs `hold`: how long the wave lasts")
        return self


class ClosedStage(Model):
    """Go to `users` within `ramp`, then hold them for `hold`."""

    name: Line | None = Field(None, description="how figures and tables name the stage")
    users: Whole = Field(ge=0, description="virtual users at the end of the stage")
    ramp: Duration = Field(0.0, description="time to get there from the users before, along a straight line")
    hold: Duration = Field(0.0, description="time to stay there")


class Functions(Model):
    """Which rows of an Azure trace are added up."""

    top: Whole | None = Field(None, ge=1, description="the so many with the most invocations")
    index: tuple[Annotated[Whole, Field(ge=0)], ...] | None = Field(
        None, min_length=1, max_length=MOST_FUNCTIONS, description="by place; the first row has 0"
    )
    hash: tuple[Annotated[str, Field(min_length=1)], ...] | None = Field(
        None, min_length=1, max_length=MOST_FUNCTIONS, description="by how HashFunction begins"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(value is not None for value in (self.top, self.index, self.hash)) != 1:
            raise ValueError("needs one of `top`, `index`, `hash`")
        return self


@dataclass(frozen=True)
class Recorded:
    """What a trace file holds, as far as a plan needs it.

    Parameters
    ----------
    stretches : tuple of (float, float)
        Arrivals per second and length in seconds, scaled. For timestamps: how many there are in equal parts of time.
    arrivals : int or None
        Number of timestamps; None for rates.
    """

    stretches: tuple[tuple[float, float], ...]
    arrivals: int | None = None


def _functions_kind(value: object) -> str:
    return "@All" if isinstance(value, str) else "@Functions"


class Trace(Model):
    """Arrivals that were recorded somewhere: timestamps, or rates over time."""

    file: FileName = Field(description="the recording, inside the experiment's folder")
    format: Literal["timestamps", "limbo", "azure2019"] = Field(
        description="one timestamp a line; LIMBO's `midpoint,rate`; or invocations per minute of the Azure Functions "
        "trace of 2019"
    )
    unit: Literal["s", "ms", "us", "ns"] | None = Field(
        None, description="of timestamps; without it seconds. They count from the start of the load"
    )
    spacing: Literal["equidistant", "uniform", "exponential"] | None = Field(
        None,
        description="of arrivals within an interval of constant rate: even gaps (the default), the same number "
        "at random instants, or a Poisson process",
    )
    scale_rate: Number = Field(1.0, gt=0, le=1e6, description="rates are multiplied by this")
    scale_time: Number = Field(
        1.0,
        gt=0,
        le=1e6,
        description="lengths are multiplied by this; 0.1 plays it ten times as fast, at the same rates",
    )
    start: Duration = Field(0.0, description="the first so much of the recording is left out")
    length: Duration | None = Field(
        None, gt=0, description="only so much of the recording after `start` is taken"
    )
    functions: Annotated[
        Annotated[Literal["all"], Tag("@All")] | Annotated[Functions, Tag("@Functions")],
        Discriminator(_functions_kind),
    ] = Field(
        "all",
        description="rows of an Azure trace that are added up: `all`, or some by `top`, `index` or `hash`",
    )
    _recorded: Recorded | None = PrivateAttr(None)

    @field_validator("functions", mode="before")
    @classmethod
    def _word(cls, value: object) -> object:
        if isinstance(value, str) and value != "all":
            raise ValueError(
                f"{value[:40]!r} is not `all`; some rows are named with `top`, `index` or `hash`"
            )
        return value

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        timestamps, azure = self.format == "timestamps", self.format == "azure2019"
        given = self.model_fields_set
        for key in ("spacing", "scale_rate", "scale_time", "start", "length"):
            if timestamps and key in given:
                raise ValueError(f"`{key}` is for rates; timestamps are played as they are")
        if not timestamps and "unit" in given:
            raise ValueError("`unit` is for timestamps; times of other formats have their unit")
        if not azure and "functions" in given:
            raise ValueError("`functions` is for the format azure2019")
        return self

    @property
    def recorded(self) -> Recorded:
        """What the file holds; read with the plan (`trace_files.with_trace`)."""
        if self._recorded is None:
            message = f"the trace {self.file} has not been read"
            raise RuntimeError(message)
        return self._recorded

    def with_recorded(self, recorded: Recorded) -> Trace:
        """Copy it with what its file holds."""
        copy = self.model_copy()
        copy._recorded = recorded  # noqa: SLF001 - its own class
        return copy


class OpenLoad(Model):
    """An arrival rate over time; give `rate` and `duration`, `stages`, or `trace`."""

    model: Literal["open"] = Field(description="arrivals come when they are due, whatever the answers take")
    rate: Rate | None = Field(None, description="constant arrivals per second; needs `duration`")
    duration: Duration | None = Field(None, description="length of the load, warm-up included")
    stages: tuple[OpenStage, ...] | None = Field(None, description="the load as stretches, one after another")
    start_rate: Rate = Field(0.0, description="arrivals per second from which the first stage ramps")
    trace: Trace | None = Field(None, description="arrivals that were recorded somewhere, from a file")
    arrivals: Literal["uniform", "poisson", "scattered"] = Field(
        "uniform",
        description="even gaps between arrivals; exponential ones; or in each stage as many as with even gaps, "
        "at random instants",
    )
    max_in_flight: Whole | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="arrivals in progress at once, at most; reaching it is a finding",
    )
    when_full: Literal["queue", "drop"] = Field(
        "queue", description="what happens to an arrival above `max_in_flight`"
    )
    max_arrivals: Whole | None = Field(None, ge=1, description="stop after so many arrivals")
    warmup: Duration = Field(0.0, description="beginning of the load that is kept and flagged, not evaluated")

    @property
    def falls(self) -> Literal["uniform", "poisson", "scattered", "recorded"]:
        """How arrivals fall, whatever says it."""
        if self.trace is None:
            return self.arrivals
        if self.trace.format == "timestamps":
            return "recorded"
        spacing = self.trace.spacing or "equidistant"
        return _FALLS[spacing]

    @property
    def is_counted(self) -> bool:
        """Whether the number of arrivals is certain before the run."""
        return self.falls != "poisson"


_FALLS: dict[str, Literal["uniform", "poisson", "scattered"]] = {
    "equidistant": "uniform",
    "uniform": "scattered",
    "exponential": "poisson",
}


class ClosedLoad(Model):
    """A population of virtual users over time; give `users` and `duration`, or `stages`."""

    model: Literal["closed"] = Field(description="a user's next iteration waits for the one before")
    users: Whole | None = Field(None, ge=1, le=1_000_000, description="virtual users; needs `duration`")
    duration: Duration | None = Field(None, description="length of the load, warm-up included")
    spawn_per_s: Rate | None = Field(None, description="ramp from 0 to `users` at this rate")
    stages: tuple[ClosedStage, ...] | None = Field(
        None, description="the load as stretches, one after another"
    )
    start_users: Whole = Field(0, ge=0, description="virtual users from which the first stage ramps")
    start_spread: Duration = Field(
        0.0, description="users that begin at the same instant begin evenly over so much time instead"
    )
    graceful: Duration = Field(30.0, description="time that a retiring user has to finish its iteration")
    session: Literal["user", "iteration"] = Field(
        "user", description="what keeps cookies and connections: the user, or each iteration anew"
    )
    max_rate_per_user: Rate | None = Field(
        None, description="iterations per second that one user never exceeds; lost time is not caught up"
    )
    pacing: Think | None = Field(None, description="time from the start of an iteration to the next start")
    catch_up: bool = Field(
        default=False,
        description="with `pacing` or `max_rate_per_user`: iterations that a slow one delayed follow at once, "
        "and count from when they were due",
    )
    iterations: Whole | None = Field(None, ge=1, description="stop after so many iterations of all users")
    iterations_per_user: Whole | None = Field(
        None, ge=1, description="each user stops after so many iterations"
    )
    warmup: Duration = Field(0.0, description="beginning of the load that is kept and flagged, not evaluated")


def _load_kind(value: object) -> str | None:
    kind = value.get("model") if isinstance(value, dict) else getattr(value, "model", None)
    return {"open": "@OpenLoad", "closed": "@ClosedLoad"}.get(kind) if isinstance(kind, str) else None


Load = Annotated[
    Annotated[OpenLoad, Tag("@OpenLoad")] | Annotated[ClosedLoad, Tag("@ClosedLoad")],
    Discriminator(
        _load_kind,
        custom_error_type="load_model",
        custom_error_message="a load needs `model`; allowed are open, closed",
    ),
]
