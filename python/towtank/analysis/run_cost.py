"""Cost of a run as response variables: of its billing window, of its drive phase, for a thousand requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from towtank.analysis.counted import next_runs
from towtank.analysis.model import Quantity
from towtank.analysis.paid import Paid, PaidTables, read_paid
from towtank.analysis.used import After, used
from towtank.cost.bill import BillLine, Rates, Share, rates
from towtank.cost.busy import US
from towtank.cost.per_request import per_1000
from towtank.cost.price_list import AnyPriceList
from towtank.cost.rules import CannotPriceError, Item, priced, total
from towtank.cost.spec import CostSpec
from towtank.design.expected_cost import kept_waiting
from towtank.design.plan import Plan
from towtank.store.run_record import RunRecord
from towtank.variables import COST_VARIABLES


@dataclass(frozen=True)
class RunCost:
    """What a run cost, and what break-even needs of it.

    Parameters
    ----------
    values : dict
        `COST_VARIABLES` in the currency of the report; empty without prices.
    items : tuple of Item
        Of the billing window, with prices in the currency of the report; empty where it is not known.
    billed_s : float or None
        Billed seconds of instances for each request that was sent; None where instances are not paid by their work.
    bytes_each : float or None
        Logs and egress of each request, in the currency of the report; None where they are not known.
    per_s : float or None
        Requests per second that were due, from the start of the load to the end of the measured window.
    uncounted_s : float
        For how long in the drive phase nobody counted what is billed; the count before holds until the next.
    """

    values: dict[str, Quantity]
    items: tuple[Item, ...] = ()
    billed_s: float | None = None
    bytes_each: float | None = None
    per_s: float | None = None
    uncounted_s: float = 0.0


def cost_values(folders: Sequence[PaidTables], plan: Plan) -> dict[str, dict[str, Quantity]]:
    """Read all runs for what they cost, and nothing else.

    Returns
    -------
    dict
        Run → `COST_VARIABLES`; empty without prices.
    """
    cost = plan.experiment.cost
    if cost is None:
        return {}
    priced = {t.id: cost.deployments.get(t.spec.deployment_name) for t in plan.treatments}
    paid = {}
    for folder in folders:
        one = priced.get(folder.record.treatment_id)
        mine = None if one is None else read_paid(folder, one)
        if mine is not None:
            paid[folder.record.run_id] = mine
    costs = run_costs([folder.record for folder in folders], paid, plan)
    return {run_id: of_run.values for run_id, of_run in costs.items()}


def run_costs(records: Sequence[RunRecord], paid: Mapping[str, Paid], plan: Plan) -> dict[str, RunCost]:
    """Work out what each run cost.

    Parameters
    ----------
    records : sequence of RunRecord
        All runs, those that do not count too: they have their part of a bill, and saw nodes of others go.
    paid : mapping
        Run → what it had; nothing of runs in which nothing was driven.
    plan : Plan

    Returns
    -------
    dict
        Run → cost. What cannot be said is None with its reason; a billing window whose end was not seen gives a value
        that the cost is above of. Empty without prices.
    """
    cost = plan.experiment.cost
    if cost is None:
        return {}
    specs = {t.id: t.spec for t in plan.treatments}
    deployment = {name: spec.deployment_name for name, spec in specs.items()}
    named = {record.run_id: deployment.get(record.treatment_id, "") for record in records}
    bills = _bill_rates(cost, named, paid)
    following = next_runs(records)
    found = {}
    for record in records:
        mine, name = paid.get(record.run_id), named[record.run_id]
        next_run = following.get(record.run_id)
        seen_by = paid.get(next_run.run_id) if next_run is not None else None
        after = None if next_run is None or seen_by is None else After(next_run, seen_by)
        kept = kept_waiting(cost.deployments.get(name), specs.get(record.treatment_id))
        found[record.run_id] = _run_cost(cost, name, record, mine, bills.get(name), after, kept)
    return found


def _bill_rates(cost: CostSpec, named: Mapping[str, str], paid: Mapping[str, Paid]) -> dict[str, Rates]:
    """Rates at which runs pay their bill together, by deployment.

    Deployments with the same bill share it. All runs that sent requests are shared to, those that do not count too: the
    provider charged for them.
    """
    bills = {name: one.bill for name, one in cost.deployments.items() if one.bill}
    shares: dict[tuple[BillLine, ...], list[Share]] = defaultdict(list)
    for run_id, mine in paid.items():
        bill = bills.get(named[run_id])
        if bill is not None:
            shares[bill].append(mine.share)
    found = {
        bill: rates(bill, mine) for bill, mine in shares.items() if any(one.request_seconds for one in mine)
    }
    return {name: found[bill] for name, bill in bills.items() if bill in found}


def _run_cost(  # noqa: PLR0917 - all that a run's cost follows from
    cost: CostSpec, name: str, record: RunRecord, paid: Paid | None, rate: Rates | None, after: After | None,
    kept: tuple[float, float],
) -> RunCost:  # fmt: skip
    one = cost.deployments.get(name)
    if one is None:
        return _nothing(f"{name} has no price: write it in `cost.deployments`")
    if paid is None or record.window is None:
        return _nothing(record.failure or "nothing was driven")
    try:
        if one.prices is None:
            return _billed(paid, cost, name, rate)
        return _priced(record, paid, cost, name, one.prices, after, kept)
    except ValueError as error:
        return _nothing(f"{name}: {error}")


def _nothing(reason: str) -> RunCost:
    return RunCost(dict.fromkeys(COST_VARIABLES, Quantity(None, reason=reason)))


def _billed(paid: Paid, cost: CostSpec, name: str, rate: Rates | None) -> RunCost:
    if rate is None:
        return _nothing(f"no run of {name} sent requests to share its bill out to")
    items = rate.items(paid.share)
    money = Quantity(total(items))
    return RunCost(_values(paid, cost, money, money), items)


def _priced(  # noqa: PLR0917 - as above, with a price list
    record: RunRecord, paid: Paid, cost: CostSpec, name: str, prices: AnyPriceList, after: After | None,
    kept: tuple[float, float],
) -> RunCost:  # fmt: skip
    if record.window is None:
        raise ValueError("nothing was driven")
    if prices.log and paid.logged.value is None:
        raise CannotPriceError(f"{paid.logged.reason}, and the price list charges for logs")
    found = used(record, record.window, paid, prices, cost.deployments[name], after, kept)
    rate = cost.in_report(1.0, prices.currency)
    drive, whole = (
        [item.at_rate(rate) for item in priced(prices, part)] for part in (found.drive, found.whole)
    )
    money = Quantity(total(whole), above=bool(found.at_least), reason=found.at_least or found.approximation)
    values = _values(paid, cost, money, Quantity(total(drive), reason=found.approximation))
    per_s = paid.due / (record.window.end_us / US) if record.window.end_us else None
    if not paid.sent:
        return RunCost(values, tuple(whole), per_s=per_s, uncounted_s=found.uncounted_s)
    of_bytes = total(item for item in drive if item.name in ("logs", "egress"))
    billed_s = None if found.billed_s is None else found.billed_s / paid.sent
    return RunCost(values, tuple(whole), billed_s, of_bytes / paid.sent, per_s, found.uncounted_s)


def _values(paid: Paid, cost: CostSpec, whole: Quantity, drive: Quantity) -> dict[str, Quantity]:
    only_successes = cost.per_1000 == "successes"
    requests = paid.successes if only_successes else paid.due
    each = None if whole.value is None else per_1000(whole.value, requests)
    of = "no request succeeded" if only_successes else "no requests were due"
    thousand = Quantity(each, above=whole.above, reason=of if each is None else whole.reason)
    return dict(zip(COST_VARIABLES, (whole, drive, thousand), strict=True))
