"""Settings of Knative's autoscaler, with the names and defaults of its ConfigMap and its annotations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from towtank.fields import Duration, Model, Number, Whole

TICK_S = 2.0
"""How often a decision is made (pkg/autoscaler/scaling/multiscaler.go)."""
BUCKET_S = 1.0
"""Statistics are averaged over buckets of this size (pkg/autoscaler/config/config.go)."""
LEAST_TARGET = 0.01
"""No target is smaller (pkg/apis/autoscaling/register.go)."""
LEAST_WINDOW_S, MOST_WINDOW_S = 6.0, 3600.0
"""Bounds of the stable window, in seconds (same file)."""
DEFAULT_CONCURRENCY = 100.0
"""`container-concurrency-target-default`: requests at a time, where the container has no limit of its own."""
DEFAULT_RPS = 200.0
"""`requests-per-second-target-default`."""
ACTIVATION_MARGIN_S = 10.0
"""Beyond the progress deadline, until a revision that never got ready is given up (pkg/reconciler/autoscaling/kpa)."""

Instances = Annotated[Whole, Field(ge=0)]
Percent = Annotated[Number, Field(gt=0)]


@dataclass(frozen=True)
class Decider:
    """What a decision goes by.

    Parameters
    ----------
    target, total : float
        Value of the metric that one instance is meant to have, and the most that it can have; target ≤ total.
    max_scale_up_rate, max_scale_down_rate : float
        > 1; by which factor the number of instances may change in one tick.
    panic_threshold : float
        Share of what the ready instances are meant to have, from which on the autoscaler panics.
    stable_window_s, scale_down_delay_s : float
    target_burst_capacity : float
        −1 is unlimited, 0 is none.
    activator_capacity : float
    activation_scale : int
        Least instances while there is any load at all.
    reachable : bool
        Whether any route leads here; what none leads to may shrink at once.
    """

    target: float
    total: float
    max_scale_up_rate: float = 1000.0
    max_scale_down_rate: float = 2.0
    panic_threshold: float = 2.0
    stable_window_s: float = 60.0
    scale_down_delay_s: float = 0.0
    target_burst_capacity: float = 211.0
    activator_capacity: float = 100.0
    activation_scale: int = 1
    reachable: bool = True


class KpaSettings(Model):
    """Knative's autoscaler. Names are those of its ConfigMap and of a revision's annotations, with `_` for `-`."""

    metric: Literal["concurrency", "rps"] = Field(
        "concurrency", description="what is averaged: requests at a time, or requests per second"
    )
    container_concurrency: Whole = Field(
        0, ge=0, le=1000, description="requests that an instance takes at a time; 0 is no limit"
    )
    target: Number | None = Field(
        None, ge=LEAST_TARGET,
        description="value of the metric that an instance should have at full utilisation; null takes "
        "`container_concurrency`, else 100 at a time or 200 per second",
    )  # fmt: skip
    target_utilization_percentage: Percent = Field(
        70.0, le=100, description="share of `target` that is aimed at, in percent"
    )
    min_scale: Instances = Field(0, description="least instances")
    max_scale: Instances = Field(0, description="most instances; 0 is no bound")
    initial_scale: Instances = Field(1, description="instances that must once have been ready at the start")
    activation_scale: Whole = Field(1, ge=1, description="least instances while there is any load")
    window: Duration = Field(
        60.0,
        ge=LEAST_WINDOW_S,
        le=MOST_WINDOW_S,
        description="the stable window: over which load is averaged",
    )
    panic_window_percentage: Percent = Field(
        10.0, ge=1, le=100, description="the panic window, in percent of the stable one"
    )
    panic_threshold_percentage: Number = Field(
        200.0, ge=110, le=1000,
        description="load of the panic window, in percent of what the ready instances should have, from which on "
        "the autoscaler panics",
    )  # fmt: skip
    max_scale_up_rate: Number = Field(1000.0, gt=1, description="growth in one tick of 2 s, as a factor")
    max_scale_down_rate: Number = Field(2.0, gt=1, description="shrinking in one tick of 2 s, as a divisor")
    scale_down_delay: Duration = Field(
        0.0, le=3600, description="how long load must stay lower until there are fewer instances"
    )
    enable_scale_to_zero: bool = Field(default=True, description="whether the last instance may go")
    scale_to_zero_grace_period: Duration = Field(
        30.0,
        gt=0,
        description="how long the last instance stays at most until requests surely take the other way",
    )
    scale_to_zero_pod_retention_period: Duration = Field(
        0.0, description="how long the last instance stays at least after it was found idle"
    )
    target_burst_capacity: Number = Field(
        211.0, ge=-1,
        description="requests of a burst that must find room at once; while there is less, requests are held in "
        "front of the instances; −1 is always, 0 only at zero",
    )  # fmt: skip
    activator_capacity: Number = Field(100.0, ge=1, description="requests that one activator carries")
    metric_aggregation_algorithm: Literal["linear", "weighted-exponential"] = Field(
        "linear", description="how buckets are averaged"
    )
    progress_deadline: Duration = Field(
        600.0, gt=0, description="how long the first instance may take until it is given up"
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.max_scale and self.min_scale > self.max_scale:
            raise ValueError(f"min_scale {self.min_scale} is above max_scale {self.max_scale}")
        if -1 < self.target_burst_capacity < 0:
            raise ValueError(
                f"target_burst_capacity {self.target_burst_capacity:g} is neither −1 (unlimited) nor ≥ 0"
            )
        for name, seconds in (("window", self.window), ("scale_down_delay", self.scale_down_delay)):
            if not float(seconds).is_integer():
                raise ValueError(f"{name} is {seconds:g} s; only whole seconds are allowed")
        return self

    @property
    def panic_window_s(self) -> float:
        """In whole seconds, at least one bucket (pkg/reconciler/autoscaling/resources/metric.go)."""
        return max(BUCKET_S, math.floor(self.window * self.panic_window_percentage / 100 + 0.5))

    def resolved_target(self) -> tuple[float, float]:
        """The metric's value that an instance should have, and the most that it can have.

        Notes
        -----
        pkg/reconciler/autoscaling/resources/target.go
        """
        total = self.target
        if self.metric == "rps":
            total = DEFAULT_RPS if total is None else total
        else:
            limit = float(self.container_concurrency)
            total = (limit or DEFAULT_CONCURRENCY) if total is None else min(total, limit or math.inf)
        return max(LEAST_TARGET, total * self.target_utilization_percentage / 100), total

    def decider(self) -> Decider:
        """The part that single decisions go by."""
        target, total = self.resolved_target()
        return Decider(
            target,
            total,
            max_scale_up_rate=self.max_scale_up_rate,
            max_scale_down_rate=self.max_scale_down_rate,
            panic_threshold=self.panic_threshold_percentage / 100,
            stable_window_s=self.window,
            scale_down_delay_s=self.scale_down_delay,
            target_burst_capacity=self.target_burst_capacity,
            activator_capacity=self.activator_capacity,
            activation_scale=self.activation_scale,
        )
