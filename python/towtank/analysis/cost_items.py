"""What the cost of a run is made of: the items of its bill, mean over the runs of a treatment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from towtank.analysis.estimates import estimate
from towtank.analysis.model import Estimate, Quantity
from towtank.analysis.run_cost import RunCost
from towtank.variables import variable

COUNTED = frozenset({"node-s", "vCPU-s", "GiB-s"})
"""Units of what goes on after a run, and so is more than was seen where nobody saw its end."""


@dataclass(frozen=True)
class CostItem:
    """One item of the bills of a treatment's runs.

    Parameters
    ----------
    treatment_id, name, unit : str
    quantity : float
        Mean over runs.
    price : float
        Of one, in the currency of the report; mean over runs where a bill is shared out.
    money : Estimate
        What it comes to in a run.
    share_ratio : float or None
        Of the mean cost of a run; None where that is nothing, or known by a bound only.
    """

    treatment_id: str
    name: str
    unit: str
    quantity: float
    price: float
    money: Estimate
    share_ratio: float | None


def cost_items(costs: Mapping[str, Sequence[RunCost]], *, confidence: float) -> tuple[CostItem, ...]:
    """Sum bills up, the dearest item of a treatment first; what is free is no item.

    Parameters
    ----------
    costs : mapping
        Treatment → its runs that count.
    confidence : float
    """
    found: list[CostItem] = []
    for treatment_id, runs in costs.items():
        known = [run.items for run in runs if run.items]
        names = dict.fromkeys(item.name for items in known for item in items if item.price)
        whole = sum(item.money for items in known for item in items)
        bound = [run for run in runs if (cost := run.values.get("cost")) is not None and cost.above]
        stayed = {id(item) for run in bound for item in run.items if item.unit in COUNTED}
        mine = []
        for name in names:
            items = [item for of_run in known for item in of_run if item.name == name]
            quantities = [Quantity(item.money, above=id(item) in stayed) for item in items]
            money = estimate(variable("cost"), quantities, confidence=confidence)
            share = sum(item.money for item in items) / whole if whole and not bound else None
            quantity = sum(item.quantity for item in items) / len(items)
            price = sum(item.price for item in items) / len(items)
            mine.append(CostItem(treatment_id, name, items[0].unit, quantity, price, money, share))
        found += sorted(mine, key=lambda item: -(item.money.mean or 0.0))
    return tuple(found)
