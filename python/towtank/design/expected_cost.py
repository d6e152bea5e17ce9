"""What planned runs will cost: from prices, load and time, before anything is touched; bounds where that is all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from towtank.cost.price_list import AnyPriceList, OwnHardware, PerInstance, PerRequest, PodRequests, Reserved
from towtank.cost.rules import Usage, priced, total
from towtank.cost.spec import CostSpec, PricedDeployment
from towtank.design.forecast import Forecast, TreatmentForecast
from towtank.design.model import TreatmentSpec
from towtank.design.plan import Plan
from towtank.platforms.base import BoundsUse
from towtank.units import format_number


@dataclass(frozen=True)
class ExpectedCost:
    """Drive phases of all planned runs of a treatment, in the currency of the report.

    Parameters
    ----------
    treatment_id : str
    low, high : float or None
        None: nothing, or no bound, is known before the runs.
    open : str
        What makes it more, or unknown; empty where both bounds are known.
    """

    treatment_id: str
    low: float | None
    high: float | None
    open: str = ""


def kept_waiting(one: PricedDeployment | None, spec: TreatmentSpec | None) -> tuple[float, float]:
    """CPU cores and GiB of instances that are kept without load, where their waiting has a price; else nothing."""
    if one is None or spec is None or not isinstance(one.prices, PerRequest) or one.prices.waiting is None:
        return 0.0, 0.0
    if not isinstance(spec.deployment, BoundsUse):
        return 0.0, 0.0
    cores, size = spec.deployment.used_at_least()
    return cores, size / 2**30


def expected_costs(plan: Plan, takes: Forecast) -> tuple[ExpectedCost, ...]:
    """Cost of each treatment's planned runs; empty without prices.

    Logs and egress are not known before: where they are charged, there is no upper bound.
    """
    cost = plan.experiment.cost
    if cost is None:
        return ()
    runs = {t.id: sum(run.treatment_id == t.id for run in plan.runs) for t in plan.treatments}
    return tuple(
        _expected(cost, treatment.spec, one, runs[treatment.id])
        for treatment, one in zip(plan.treatments, takes.treatments, strict=True)
    )


def _expected(cost: CostSpec, spec: TreatmentSpec, takes: TreatmentForecast, runs: int) -> ExpectedCost:
    deployment = spec.deployment_name
    name, one = takes.treatment_id, cost.deployments.get(deployment)
    if one is None:
        return ExpectedCost(name, None, None, f"{deployment} has no price")
    if one.prices is None:
        return ExpectedCost(name, None, None, "the bill is shared out over the runs afterwards")
    prices = one.prices
    least, most, open_ = _usage(prices, one, takes)
    if least is None:
        return ExpectedCost(name, None, None, open_)
    bounded = _bounded(prices, spec.deployment, takes, kept_waiting(one, spec))
    charged = [what for what, price in (("logs", prices.log), ("egress", prices.egress)) if price]
    open_ = ", ".join(part for part in (open_, *charged) if part)

    def money(usage: Usage) -> float:
        bill = total(priced(prices, replace(usage, logged_bytes=0.0, egress_bytes=0.0)))
        return runs * cost.in_report(bill, prices.currency)

    high = None if most is None or open_ else money(most)
    if bounded is None:
        return ExpectedCost(name, money(least), high, open_)
    at_most = f"{format_number(money(bounded[1]))} {cost.currency} with all instances that there may be"
    return ExpectedCost(name, money(bounded[0]), None, f"{open_} (without logs and egress at most {at_most})")


def _bounded(
    prices: AnyPriceList, deployment: object, takes: TreatmentForecast, waiting: tuple[float, float]
) -> tuple[Usage, Usage] | None:
    """Least and most that instances can be used, where the deployment says how many there can be."""
    if not isinstance(prices, PerRequest | PerInstance) or not isinstance(deployment, BoundsUse):
        return None
    seconds, by_request = takes.load_s, isinstance(prices, PerRequest)
    # Billed by request, an instance that waits costs less than one that works, and mostly nothing.
    least = (0.0, 0.0) if by_request else deployment.used_at_least()
    first, last = (
        Usage(seconds, vcpu_seconds=cores * seconds, gib_seconds=size / 2**30 * seconds)
        for cores, size in (least, deployment.used_at_most())
    )
    if not by_request:
        return first, last
    if takes.requests.high is None:
        return None
    cores, gib = waiting
    first = replace(first, waiting_vcpu_seconds=cores * seconds, waiting_gib_seconds=gib * seconds)
    return (
        replace(first, requests=math.floor(takes.requests.low)),
        replace(last, requests=math.ceil(takes.requests.high)),
    )


def _usage(
    prices: AnyPriceList, one: PricedDeployment, takes: TreatmentForecast
) -> tuple[Usage | None, Usage | None, str]:
    """Least and most that a run uses, and what is not known of it before."""
    seconds = takes.load_s
    match prices:
        case Reserved() if one.nodes is None:
            return None, None, "nodes are counted while it runs; write `nodes` where their number is known"
        case Reserved():
            usage = Usage(seconds, node_seconds=(one.nodes or 0) * seconds)
            return usage, usage, ""
        case OwnHardware():
            usage = Usage(seconds, machine_seconds=one.machines * seconds)
            return replace(usage, busy_ratio=0.0), replace(usage, busy_ratio=1.0), ""
        case PerRequest():
            least = Usage(seconds, vcpu_seconds=0.0, gib_seconds=0.0, requests=math.floor(takes.requests.low))
            return least, None, "the time for which instances work"
        case PodRequests() | PerInstance():
            return Usage(seconds, vcpu_seconds=0.0, gib_seconds=0.0), None, "the instances that come"


def in_words(costs: Sequence[ExpectedCost], currency: str) -> list[str]:
    """One line for each treatment, ``cost of gke: 1.08 EUR for its drive phases``, and one for all."""
    lines = [f"cost of {one.treatment_id}: {_amount(one, currency)}" for one in costs]
    known = [one.low for one in costs if one.low is not None]
    if len(costs) < 2 or not known:
        return lines
    highs = [one.high for one in costs]
    low = format_number(sum(known))
    if None in highs:
        return [*lines, f"cost of all: at least {low} {currency}"]
    high = format_number(sum(one for one in highs if one is not None))
    return [*lines, f"cost of all: {low if low == high else f'{low} to {high}'} {currency}"]


def _amount(one: ExpectedCost, currency: str) -> str:
    if one.low is None:
        return f"not known before: {one.open}"
    low = format_number(one.low)
    if one.high is None:
        return f"at least {low} {currency} for its drive phases, and {one.open}"
    high = format_number(one.high)
    return f"{low if low == high else f'{low} to {high}'} {currency} for its drive phases"
