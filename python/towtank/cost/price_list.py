"""Price lists: one model for each way of being billed. Every price must be written; what costs nothing is `free`."""

from __future__ import annotations

import math
from datetime import date
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from towtank.cost.money import CountPrice, Currency, EnergyPrice, Money, SizePrice, TimePrice
from towtank.fields import Cores, Duration, Model, Number


def _day(value: str) -> str:
    try:
        date.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is no day of the calendar; allowed is one such as 2026-08-20") from error
    return value


IsoDate = Annotated[
    str, Field(pattern=r"^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"), AfterValidator(_day)
]
"""``2026-08-20``"""


class _List(Model):
    """What every price list says."""

    prices: str = Field(
        min_length=1, max_length=200, description="whose prices these are, and where they hold"
    )
    date: IsoDate = Field(description="day on which they were taken down, such as 2026-08-20")
    source: str = Field(min_length=1, max_length=500, description="where the prices stand")
    note: str = Field("", max_length=2000, description="what a reader must know of them")
    currency: Currency = Field(description="ISO 4217 code of all prices of the list")
    log: SizePrice = Field(description="price of logs that are taken in, such as 0.50/GiB, or `free`")
    egress: SizePrice = Field(description="price of bytes that leave, such as 0.12/GB, or `free`")


class Reserved(_List):
    """A cluster of nodes that are paid whether they work or not; also below Knative and OpenWhisk."""

    model: Literal["reserved"]
    node: TimePrice = Field(description="one node, such as 0.32/h")
    fee: TimePrice = Field(description="management of the cluster, such as 0.10/h, or `free`")
    credit_per_month: Money = Field(
        0.0, description="what is not charged each month; counts in break-even only"
    )


class PodRequests(_List):
    """Pods are paid by what they request while they are there, as by Autopilot."""

    model: Literal["pod-requests"]
    vcpu: TimePrice = Field(description="one requested vCPU")
    memory: TimePrice = Field(description="one requested GiB")
    fee: TimePrice = Field(description="management of the cluster, or `free`")
    vcpu_step: Cores | None = Field(None, description="requests of a pod are rounded up to multiples of this")
    credit_per_month: Money = Field(
        0.0, description="what is not charged each month; counts in break-even only"
    )


class FreePerMonth(Model):
    """Quantities of each month that cost nothing; they count in break-even only, as runs are marginal."""

    vcpu_seconds: Number = Field(0.0, ge=0)
    gib_seconds: Number = Field(0.0, ge=0)
    requests: Number = Field(0.0, ge=0)


class Waiting(Model):
    """Prices of an instance that is kept without load, while it has nothing to do."""

    vcpu: TimePrice = Field(description="one vCPU of it")
    memory: TimePrice = Field(description="one GiB of it")


class PerRequest(_List):
    """Instances are paid while they work on requests, and requests are paid each: Cloud Run, Lambda."""

    model: Literal["per-request"]
    vcpu: TimePrice = Field(description="one vCPU of a busy instance, or `free` where memory pays for both")
    memory: TimePrice = Field(description="one GiB of a busy instance")
    request: CountPrice = Field(description="requests, such as 0.40/1M")
    granularity: Duration = Field(gt=0, description="busy time is rounded up to multiples of this")
    rounded: Literal["request", "interval", "instance"] = Field(
        description="what is rounded: each request, each stretch of work, or an instance's work as a whole"
    )
    free_per_month: FreePerMonth = Field(FreePerMonth())
    waiting: Waiting | None = Field(
        None, description="an instance that is kept without load; left out, its waiting costs nothing"
    )

    @model_validator(mode="after")
    def _work_costs_more(self) -> PerRequest:
        waiting = self.waiting
        if waiting is not None and (waiting.vcpu > self.vcpu or waiting.memory > self.memory):
            raise ValueError(
                "`waiting` costs more than work; allowed is as much as `vcpu` and `memory` at most"
            )
        return self


class PerInstance(_List):
    """Instances are paid as long as they are there: Cloud Run with instance-based billing."""

    model: Literal["per-instance"]
    vcpu: TimePrice = Field(description="one vCPU of an instance")
    memory: TimePrice = Field(description="one GiB of an instance")
    free_per_month: FreePerMonth = Field(FreePerMonth())


class OwnHardware(_List):
    """A machine that was bought: its depreciation, and the energy it takes."""

    model: Literal["own-hardware"]
    machine: Money = Field(description="what one machine cost")
    lifetime: Duration = Field(gt=0, description="over which it is written off in equal parts, such as 1826d")
    electricity: EnergyPrice = Field(description="such as 0.28/kWh")
    idle_watts: Number = Field(ge=0, description="power of an idle machine")
    busy_watts: Number = Field(
        ge=0, description="power when all cores work; between them it is taken as linear"
    )
    overhead: Number = Field(
        ge=1, description="power of the whole room ÷ power of the machines (PUE); 1 for a desk"
    )

    @model_validator(mode="after")
    def _busy_takes_more(self) -> OwnHardware:
        if self.busy_watts < self.idle_watts:
            raise ValueError(
                f"busy_watts is {self.busy_watts:g}; allowed is at least idle_watts, which is {self.idle_watts:g}"
            )
        return self


AnyPriceList = Reserved | PodRequests | PerRequest | PerInstance | OwnHardware
MODELS: dict[str, type[AnyPriceList]] = {
    "reserved": Reserved,
    "pod-requests": PodRequests,
    "per-request": PerRequest,
    "per-instance": PerInstance,
    "own-hardware": OwnHardware,
}
"""`model` of a price list → what it must say."""


def rounded_up(value: float, step: float) -> float:
    """Round up to a multiple; what is a multiple but for the last bits of a float stays."""
    return math.ceil(round(value / step, 9)) * step
