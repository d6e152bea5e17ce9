"""What an experiment says of cost: the file's own form, and what is made of it, with price lists read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from towtank.cost.bill import BillLine
from towtank.cost.money import Conversion, Currency, converted
from towtank.cost.price_list import AnyPriceList, IsoDate, PerRequest
from towtank.fields import Cores, Duration, Model, Number, Rate, Scalar, Size, Slug, Whole


class Instance(Model):
    """What a price list needs to know of a deployment, and nothing else says."""

    vcpu: Cores | None = Field(None, description="vCPU of one instance, or requested by one pod")
    memory: Size | None = Field(None, gt=0, description="memory of one instance, or requested by one pod")
    nodes: Whole | None = Field(
        None,
        ge=1,
        description="nodes that are there all the time; else they are counted by the source `kubernetes`",
    )
    machines: Whole = Field(1, ge=1, description="own machines")
    carries: Rate | None = Field(
        None,
        ge=1e-6,
        description="requests per second that one node, machine, pod or instance carries; for break-even",
    )
    fails: Rate | None = Field(
        None,
        gt=0,
        description="lowest requests per second above `carries` that it was seen to fail; the interval of break-even "
        "then has this uncertainty, too",
    )
    idle: Duration | None = Field(
        None, description="how long an instance waits for another request before it goes; for break-even"
    )


class Carried(Model):
    """What one instance carries, as a search for capacities found it, at some levels of factors."""

    label: str = Field(description="of the capacity")
    levels: dict[str, Scalar] = Field({}, description="factor → level of the search, without the deployment")
    holds: float = Field(gt=0, description="highest requests per second that were confirmed")
    fails: float | None = Field(None, description="lowest above it that were refuted; none: nobody knows")
    slo: dict[str, float] = Field({}, description="objectives of the search")


class ConversionFile(Model):
    """One currency in another, on a day."""

    source: Currency = Field(alias="from", description="currency of a price list")
    target: Currency = Field(alias="to", description="currency of the report")
    rate: Number = Field(ge=1e-6, le=1_000_000, description="one `from` is so many `to`")
    date: IsoDate = Field(description="day of the rate")

    @property
    def conversion(self) -> Conversion:
        """For `money.converted`."""
        return Conversion(self.source, self.target, self.rate, self.date)


class DeploymentFile(Instance):
    """Cost of one deployment, as a file says it."""

    prices: str | None = Field(
        None, min_length=1, description="a shipped price list, or a file beside the experiment"
    )
    bill: str | None = Field(
        None, min_length=1, description="CSV of a real bill to share out: name, amount, by"
    )
    capacity: str | None = Field(
        None,
        min_length=1,
        description="instead of `carries` and `fails`: a capacity.json that `towtank capacity` wrote, inside the "
        "experiment's folder, of a deployment that has one node, machine, pod or instance",
    )
    capacity_of: Slug | None = Field(
        None, description="deployment of that search; without it, the one of the same name"
    )


class CostFile(DeploymentFile):
    """Cost, as a file says it; what stands outside of `deployments` holds for those that do not say otherwise."""

    currency: Currency | None = Field(
        None, description="of the report; left out where all prices have the same"
    )
    conversions: tuple[ConversionFile, ...] = Field(
        (), description="rates between price lists and the report"
    )
    per_1000: Literal["successes", "requests"] = Field(
        "successes", description="what `cost_per_1000` divides by: expected answers only, or all requests due"
    )
    deployments: dict[Slug, DeploymentFile] = Field(
        {}, description="deployment → its price list, or more about it"
    )


class PricedDeployment(Instance):
    """Cost of one deployment, with its price list or its bill read."""

    prices: Annotated[AnyPriceList, Field(discriminator="model")] | None = None
    bill: tuple[BillLine, ...] = ()
    carried: tuple[Carried, ...] = ()

    def carried_at(self, levels: Mapping[str, object]) -> tuple[Carried, ...]:
        """What was searched at the levels of a treatment; factors that only one of them has do not matter."""
        return tuple(
            one for one in self.carried
            if all(levels.get(name, level) == level for name, level in one.levels.items())
        )  # fmt: skip


class CostSpec(Model):
    """Cost of an experiment; a deployment that is not here has no price."""

    currency: Currency
    conversions: tuple[ConversionFile, ...] = ()
    per_1000: Literal["successes", "requests"] = "successes"
    deployments: dict[Slug, PricedDeployment]

    def in_report(self, amount: float, currency: str) -> float:
        """Say an amount of a price list in the currency of the report; ValueError as `money.converted` has it."""
        return converted(amount, currency, self.currency, [one.conversion for one in self.conversions])

    def is_by_use(self, deployment: str) -> bool:
        """Whether more requests cost a deployment more, whatever is there to serve them; False without a price."""
        one = self.deployments.get(deployment)
        return one is not None and (one.prices is None or isinstance(one.prices, PerRequest))
