"""From used quantities to money, item by item: one rule for each model of price list."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from towtank.cost.price_list import AnyPriceList, OwnHardware, PerInstance, PerRequest, PodRequests, Reserved


class CannotPriceError(ValueError):
    """A quantity that the price list asks for is not known; the message names it and what to do."""


@dataclass(frozen=True)
class Usage:
    """What was used in a stretch of time; None where it is not known.

    Parameters
    ----------
    length_s : float
        How long the stretch is, for fees.
    node_seconds : float, optional
        Nodes × seconds, Ready or not.
    vcpu_seconds, gib_seconds : float, optional
        What pods requested (pod-requests), or what instances had (per-request: while busy; per-instance: while there).
    waiting_vcpu_seconds, waiting_gib_seconds : float
        Of instances that are kept without load, while they have nothing to do (per-request).
    requests : int, optional
    machine_seconds : float, optional
        Own machines × seconds.
    busy_ratio : float, optional
        Mean share of the machines' CPU that worked, 0–1.
    logged_bytes, egress_bytes : float, optional
    """

    length_s: float
    node_seconds: float | None = None
    vcpu_seconds: float | None = None
    gib_seconds: float | None = None
    waiting_vcpu_seconds: float = 0.0
    waiting_gib_seconds: float = 0.0
    requests: int | None = None
    machine_seconds: float | None = None
    busy_ratio: float | None = None
    logged_bytes: float | None = None
    egress_bytes: float | None = None


@dataclass(frozen=True)
class Item:
    """One line of a bill: so much of something in a unit, at a price each, in the list's currency."""

    name: str
    quantity: float
    price: float
    unit: str

    @property
    def money(self) -> float:
        """Quantity × price."""
        return self.quantity * self.price

    def at_rate(self, rate: float) -> Item:
        """The same in another currency."""
        return replace(self, price=self.price * rate)


_TELL = {
    "node_seconds": "node-seconds are not known: add `kubernetes` to `observe`",
    "vcpu_seconds": "vCPU-seconds are not known: write `vcpu` in `cost.deployments`, and add `kubernetes` to `observe`",
    "gib_seconds": "GiB-seconds are not known: write `memory` in `cost.deployments`, and add `kubernetes` to `observe`",
    "requests": "the number of requests is not known",
    "machine_seconds": "the number of machines is not known: write `machines` in `cost.deployments`",
    "busy_ratio": "the share of CPU that worked is not known: add `host` to `observe`",
    "logged_bytes": "bytes logged were not counted, and the price list charges for logs",
    "egress_bytes": "bytes sent were not counted, and the price list charges for egress",
}


def priced(prices: AnyPriceList, usage: Usage) -> tuple[Item, ...]:
    """Write the bill of a stretch of time.

    Returns
    -------
    tuple of Item
        In the currency of the price list. Quantities of what is free need not be known.

    Raises
    ------
    CannotPriceError
        A quantity that costs something is not known.
    """
    match prices:
        case Reserved():
            items = [
                _item("nodes", usage, "node_seconds", prices.node, "node-s"),
                Item("fee", usage.length_s, prices.fee, "s"),
            ]
        case PodRequests():
            items = [
                _item("requested vCPU", usage, "vcpu_seconds", prices.vcpu, "vCPU-s"),
                _item("requested memory", usage, "gib_seconds", prices.memory, "GiB-s"),
                Item("fee", usage.length_s, prices.fee, "s"),
            ]
        case PerRequest():
            items = [
                _item("busy vCPU", usage, "vcpu_seconds", prices.vcpu, "vCPU-s"),
                _item("busy memory", usage, "gib_seconds", prices.memory, "GiB-s"),
                _item("requests", usage, "requests", prices.request, "requests"),
                *_waiting(prices, usage),
            ]
        case PerInstance():
            items = [
                _item("vCPU of instances", usage, "vcpu_seconds", prices.vcpu, "vCPU-s"),
                _item("memory of instances", usage, "gib_seconds", prices.memory, "GiB-s"),
            ]
        case OwnHardware():
            items = _own(prices, usage)
    items += [
        _item("logs", usage, "logged_bytes", prices.log, "bytes"),
        _item("egress", usage, "egress_bytes", prices.egress, "bytes"),
    ]
    return tuple(items)


def total(items: Iterable[Item]) -> float:
    """Sum of a bill."""
    return math.fsum(item.money for item in items)


def _waiting(prices: PerRequest, usage: Usage) -> Iterator[Item]:
    """Instances that are kept, where they are and cost something."""
    waiting = prices.waiting
    if waiting is not None and (usage.waiting_vcpu_seconds or usage.waiting_gib_seconds):
        yield Item("waiting vCPU", usage.waiting_vcpu_seconds, waiting.vcpu, "vCPU-s")
        yield Item("waiting memory", usage.waiting_gib_seconds, waiting.memory, "GiB-s")


def _item(name: str, usage: Usage, quantity: str, price: float, unit: str) -> Item:
    found = getattr(usage, quantity)
    if found is None and price == 0:
        return Item(name, 0.0, 0.0, unit)
    return Item(name, _known(usage, quantity), price, unit)


def _known(usage: Usage, quantity: str) -> float:
    found: float | None = getattr(usage, quantity)
    if found is None:
        raise CannotPriceError(_TELL[quantity])
    return float(found)


def _own(prices: OwnHardware, usage: Usage) -> list[Item]:
    """Depreciation in equal parts, and energy: between idle and busy, power is linear in the share of CPU.

    The linear model is that of Fan, Weber & Barroso, "Power provisioning for a warehouse-sized computer", ISCA 2007.
    """
    seconds = _known(usage, "machine_seconds")
    watts = prices.idle_watts
    if prices.busy_watts > prices.idle_watts:
        watts += (prices.busy_watts - prices.idle_watts) * _known(usage, "busy_ratio")
    return [
        Item("depreciation", seconds, prices.machine / prices.lifetime, "machine-s"),
        Item("energy", seconds * watts * prices.overhead, prices.electricity, "J"),
    ]
