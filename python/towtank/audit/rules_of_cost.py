"""Cost: per 1,000 requests, from reserved nodes, and from what is paid by use."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from towtank.audit.check import Check
from towtank.audit.printed import Range, show_range
from towtank.audit.table import Cell, Row


def per_thousand(row: Row) -> Iterator[Check]:
    """Cost per 1,000 = 1,000 × cost ÷ requests: all of them, or those that succeeded."""
    for currency in _currencies(row, "cost_per_1000_"):
        known = row.bounded(f"cost_per_1000_{currency}", f"cost_{currency}", "total")
        if not known or known[2].low <= 0:
            continue
        each, cost, total = known
        made = _per_thousand(cost, total.range)
        holds = made is not None and made.meets(each.range)
        good = _succeeded(row, total)
        if good is not None and not holds:
            of_good = _per_thousand(cost, good)
            holds = of_good is not None and of_good.meets(each.range)
        formula = f"1000 × {cost.text} ÷ {total.text} = {show_range(made) if made else 'without bound'}"
        yield Check((each, cost, total), holds, f"printed {each.text}, but {formula}")


def reserved(row: Row) -> Iterator[Check]:
    """Cost of reserved nodes = node-seconds × price + duration × fee."""
    for currency in _currencies(row, "price_per_node_second_"):
        known = row.bounded(f"cost_{currency}", "node_seconds", f"price_per_node_second_{currency}")
        if not known:
            continue
        cost, nodes, price = known
        made, text, named = _product(nodes, price), f"{nodes.text} × {price.text}", known
        fee = row.bounded(f"fee_per_second_{currency}", "duration")
        if fee:
            more = _product(*fee)
            made = Range(made.low + more.low, _high(made) + _high(more))
            text, named = f"{text} + {fee[0].text} × {fee[1].said}", (*known, *fee)
        elif f"fee_per_second_{currency}" in row.columns:
            continue  # of an unknown fee, or for an unknown time
        yield Check(named, made.meets(cost.range), f"printed {cost.text}, but {text} = {show_range(made)}")


def by_use(row: Row) -> Iterator[Check]:
    """Cost by use = requests × (price of a request + mean latency × price of a request-second)."""
    for currency in _currencies(row, "price_per_request_second_"):
        known = row.bounded(f"cost_{currency}", "total", "mean", f"price_per_request_second_{currency}")
        if not known:
            continue
        cost, total, mean, price = known
        each, text, named = _product(mean, price), f"{mean.said} × {price.text}", known
        call = row.bounded(f"price_per_request_{currency}")
        if call:
            each = Range(each.low + call[0].low, _high(each) + call[0].high)
            text, named = f"({call[0].text} + {text})", (*known, *call)
        elif f"price_per_request_{currency}" in row.columns:
            continue  # a request has a price that is not known
        made = Range(total.low * each.low, total.high * _high(each))
        yield Check(
            named,
            made.meets(cost.range),
            f"printed {cost.text}, but {total.text} × {text} = {show_range(made)}",
        )


def _currencies(row: Row, prefix: str) -> list[str]:
    return [key.removeprefix(prefix) for key in row.cells if key.startswith(prefix)]


def _per_thousand(cost: Cell, requests: Range) -> Range | None:
    if requests.low <= 0 or requests.high is None:
        return None
    return Range(1000 * cost.low / requests.high, 1000 * cost.high / requests.low)


def _succeeded(row: Row, total: Cell) -> Range | None:
    good, failed = row.bounded("succeeded"), row.bounded("failed")
    if good:
        return good[0].range
    return Range(total.low - failed[0].high, total.high - failed[0].low) if failed else None


def _product(first: Cell, second: Cell) -> Range:
    """Of two things that are not negative."""
    return Range(max(first.low, Fraction(0)) * max(second.low, Fraction(0)), first.high * second.high)


def _high(found: Range) -> Fraction:
    assert found.high is not None  # noqa: S101 - of bounded cells
    return found.high
