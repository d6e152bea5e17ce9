"""Settings of Kubernetes' HPA, with the names and defaults of its object and of its controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from towtank.fields import Cores, Duration, Model, Number, Whole

DEFAULT_CPU_PERCENT = 80
"""Target utilisation of CPU where an object names no metric (pkg/apis/autoscaling: DefaultCPUUtilization)."""
SYNC_S = 15.0
DOWNSCALE_STABILIZATION_S = 300.0
CPU_INITIALIZATION_S = 300.0
INITIAL_READINESS_S = 30.0
TOLERANCE = 0.1
METRICS_RESOLUTION_S = 15.0
"""How often metrics-server reads, by default (its flag ``--metric-resolution``)."""
MOST_STABILIZATION_S, MOST_PERIOD_S = 3600, 1800
"""Bounds that the API sets on a rule's window and on a policy's period, in seconds."""


def read_percent(value: object) -> int:
    """Read ``50%``, or a bare whole number of percent as in `averageUtilization`.

    Raises
    ------
    ValueError
    """
    text = value.strip().removesuffix("%").strip() if isinstance(value, str) else value
    try:
        number = float(text) if not isinstance(text, bool) and isinstance(text, str | int | float) else None
    except ValueError:
        number = None
    if number is None or not number.is_integer() or number < 1:
        raise ValueError(f"{value!r} is not a whole percentage; write 50%, as Kubernetes has no finer ones")
    return int(number)


Percent = Annotated[
    int,
    BeforeValidator(read_percent),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\s*[0-9]+\s*%?\s*$"},
                {"type": "integer", "minimum": 1},
            ]
        },
        mode="validation",
    ),
]
"""Whole percent, ≥ 1, also above 100; written ``50%``."""


class Policy(Model):
    """How many instances may come or go within a period."""

    type: Literal["Pods", "Percent"] = Field(
        description="whether `value` counts instances or is a percentage"
    )
    value: Whole = Field(gt=0, description="instances, or percent of those at the beginning of the period")
    period: Duration = Field(gt=0, le=MOST_PERIOD_S, description="length of the period, in whole seconds")


class Rules(Model):
    """How fast one direction may go; what is not named has Kubernetes' default for the direction."""

    stabilization_window: Duration | None = Field(
        None, le=MOST_STABILIZATION_S, description="over which past recommendations hold a change back"
    )
    select_policy: Literal["Max", "Min", "Disabled"] = Field(
        "Max",
        description="which policy counts where there are several: the largest change, the smallest, or none",
    )
    policies: tuple[Policy, ...] | None = Field(None, min_length=1, description="bounds on the change")
    tolerance: Number | None = Field(
        None, ge=0, description="deviation from the target that is let pass, as a share"
    )


class Behavior(Model):
    """Rules of both directions, as `behavior` of the object."""

    scale_up: Rules = Field(Rules(), description="rules for more instances")
    scale_down: Rules = Field(Rules(), description="rules for fewer instances")


def _policy(kind: str, value: int) -> Policy:
    return Policy.model_validate({"type": kind, "value": value, "period": "15s"})


DEFAULT_UP = (_policy("Pods", 4), _policy("Percent", 100))
DEFAULT_DOWN = (_policy("Percent", 100),)
"""pkg/apis/autoscaling/v2/defaults.go."""


@dataclass(frozen=True)
class ResolvedRules:
    """Rules of one direction without gaps.

    Parameters
    ----------
    window_s : float
        Stabilisation window.
    select : {"Max", "Min", "Disabled"}
    policies : tuple of Policy
    tolerance : float
    """

    window_s: float
    select: Literal["Max", "Min", "Disabled"]
    policies: tuple[Policy, ...]
    tolerance: float


class HpaSettings(Model):
    """Kubernetes' HPA: what its object says, and what its controller is started with."""

    cpu: Percent | None = Field(
        None, description="CPU that an instance should use, in percent of what it requests", examples=["50%"]
    )
    concurrency: Number | None = Field(
        None, gt=0, description="requests at a time that an instance should have (an average value)"
    )
    requests_per_second: Number | None = Field(
        None, gt=0, description="requests per second that an instance should have (an average value)"
    )
    cpu_request: Cores | None = Field(
        None, description="cores that an instance requests; null takes `limits.cpu`", examples=["500m"]
    )
    min_replicas: Whole = Field(1, ge=1, description="least instances; it never takes the last one away")
    max_replicas: Whole = Field(ge=1, description="most instances")
    behavior: Behavior | None = Field(
        None, description="rules; null takes those of the controller, which know no policies"
    )
    tolerance: Number = Field(
        TOLERANCE, ge=0, description="deviation from the target that is let pass, as a share"
    )
    sync_period: Duration = Field(SYNC_S, gt=0, description="how often it decides")
    downscale_stabilization: Duration = Field(
        DOWNSCALE_STABILIZATION_S, description="over which the highest recommendation holds instances back"
    )
    cpu_initialization_period: Duration = Field(
        CPU_INITIALIZATION_S, description="after a start, CPU of an instance that is not ready does not count"
    )
    initial_readiness_delay: Duration = Field(
        INITIAL_READINESS_S,
        description="within which an instance that was never ready is taken to be starting",
    )
    metrics_resolution: Duration = Field(
        METRICS_RESOLUTION_S, gt=0, description="how often CPU is read, as by metrics-server"
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"min_replicas {self.min_replicas} is above max_replicas {self.max_replicas}")
        if self.concurrency is None and self.requests_per_second is None:
            if self.cpu is None:
                raise ValueError("no metric: give `cpu`, `concurrency` or `requests_per_second`")
            if self.min_replicas == 0:
                raise ValueError(
                    "min_replicas 0 with `cpu` alone: where nothing runs there is no CPU to go by"
                )
        return self

    def rules(self, direction: Literal["up", "down"]) -> ResolvedRules:
        """One direction's rules with what is not named filled in."""
        behavior = self.behavior or Behavior()
        rules = behavior.scale_up if direction == "up" else behavior.scale_down
        default_s = 0.0 if direction == "up" else self.downscale_stabilization
        window_s = default_s if rules.stabilization_window is None else rules.stabilization_window
        return ResolvedRules(
            window_s,
            rules.select_policy,
            rules.policies or (DEFAULT_UP if direction == "up" else DEFAULT_DOWN),
            self.tolerance if rules.tolerance is None else rules.tolerance,
        )
