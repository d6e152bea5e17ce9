"""A real bill, shared out over runs by invocations and request-seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from towtank.cost.rules import Item

By = Literal["invocations", "request-seconds"]


@dataclass(frozen=True)
class BillLine:
    """One line of a bill: what it is, what it came to, and what it follows."""

    name: str
    amount: float
    by: By


@dataclass(frozen=True)
class Share:
    """What one run had to do with a bill.

    Parameters
    ----------
    invocations : int
    mean_s : float
        Mean time that an invocation took.
    """

    invocations: int
    mean_s: float

    @property
    def request_seconds(self) -> float:
        """Invocations × their mean time."""
        return self.invocations * self.mean_s


@dataclass(frozen=True)
class Rates:
    """What a bill comes to for an invocation, and for a second that one took."""

    per_invocation: float
    per_request_second: float

    def items(self, share: Share) -> tuple[Item, Item]:
        """Part of the bill that belongs to a run."""
        return (
            Item("invocations", share.invocations, self.per_invocation, "invocations"),
            Item("request-seconds", share.request_seconds, self.per_request_second, "s"),
        )


def rates(bill: Iterable[BillLine], runs: Sequence[Share]) -> Rates:
    """Find the rates at which all runs together pay exactly the bill.

    Parameters
    ----------
    bill : iterable of BillLine
    runs : sequence of Share
        All runs that the bill is for, failed ones too.

    Raises
    ------
    ValueError
        A line follows what no run had any of.
    """
    lines = list(bill)
    invocations, seconds = sum(r.invocations for r in runs), sum(r.request_seconds for r in runs)
    return Rates(_rate(lines, "invocations", invocations), _rate(lines, "request-seconds", seconds))


def _rate(lines: Iterable[BillLine], by: By, quantity: float) -> float:
    mine = [line for line in lines if line.by == by]
    amount = sum(line.amount for line in mine)
    if amount and quantity <= 0:
        raise ValueError(
            f"the bill has {', '.join(line.name for line in mine)} to be shared out by {by}, and the runs have none"
        )
    return amount / quantity if amount else 0.0
