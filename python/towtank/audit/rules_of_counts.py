"""Totals, failures, goodput and shares: what must add up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from towtank.audit.check import Check
from towtank.audit.printed import Range, show_range
from towtank.audit.table import Cell, Row

_PERCENT = Fraction(1, 100)


def failed_within_total(row: Row) -> Iterator[Check]:
    """No more requests fail, or succeed, than there are."""
    for part in ("failed", "succeeded"):
        known = row.bounded(part, "total")
        if known:
            cell, total = known
            holds = cell.low <= total.high
            yield Check(
                (cell, total), holds, f"{cell.text} of {total.text} requests is more than all of them"
            )


def parts_make_total(row: Row) -> Iterator[Check]:
    """Failures and successes are all requests."""
    known = row.bounded("failed", "succeeded", "total")
    if known:
        failed, succeeded, total = known
        made = Range(failed.low + succeeded.low, failed.high + succeeded.high)
        says = f"printed {total.text}, but failed + succeeded = {failed.text} + {succeeded.text} = {show_range(made)}"
        yield Check(known, made.meets(total.range), says)


def share_of_total(row: Row) -> Iterator[Check]:
    """Goodput is 1 − failed ÷ total, and so are the shares of failures and successes what their counts make them."""
    for part, of_rest, of_same in (
        ("failed", ("goodput", "succeeded_share"), "failed_share"),
        ("succeeded", ("failed_share",), "succeeded_share"),
    ):
        counted = row.bounded(part, "total")
        if not counted or counted[1].low <= 0:
            continue
        count, total = counted
        same = Range(count.low / total.high, count.high / total.low)
        rest = Range(1 - count.high / total.low, 1 - count.low / total.high)
        wanted = [(key, rest, "1 − ") for key in of_rest] + [(of_same, same, "")]
        if part == "succeeded":
            wanted.append(("goodput", same, ""))
        for key, made, before in wanted:
            cell = row.cells.get(key)
            if cell is not None:
                formula = f"{before}{part} ÷ total = {before}{count.text} ÷ {total.text}"
                says = (
                    f"printed {cell.text}, but {formula} = {show_range(made, cell.column.scale)}{_sign(cell)}"
                )
                yield Check((cell, count, total), made.meets(cell.range), says)


def share_of_whole_requests(row: Row) -> Iterator[Check]:
    """A share of few requests is one of few numbers: 89.15 % of 698 would be 622.3 requests.

    References
    ----------
    Brown, N. J. L. and Heathers, J. A. J. (2017). The GRIM test. Social Psychological and Personality Science 8 (4).
    """
    total = row.bounded("total")
    if not total or total[0].low != total[0].high or total[0].low <= 0:
        return
    number = total[0].low
    for key in ("goodput", "failed_share", "succeeded_share"):
        known = row.bounded(key)
        if known:
            cell = known[0]
            least = math.ceil(cell.low * number)
            made = cell.range.times(number)
            printed = f"{cell.text}{_sign(cell)} of {total[0].text} requests"
            says = f"{printed} = {show_range(made)}, which is no whole number of them"
            yield Check((cell, total[0]), least <= cell.high * number, says)


def shares_in_bounds(row: Row) -> Iterator[Check]:
    """A share lies between 0 and 100 %."""
    whole = Range(Fraction(0), Fraction(1))
    for cell in row.cells.values():
        if cell.column.name.endswith(("_percent", "_ratio")) and not cell.column.changed:
            says = f"printed {cell.text}{_sign(cell)}, which no share can be"
            yield Check((cell,), cell.range.meets(whole), says)


def shares_make_all(row: Row) -> Iterator[Check]:
    """All shares of one kind make 100 %; one that is not printed may be anything between 0 and 100 %."""
    for kind in ("status_", "share_"):
        keys = [c.key for c in row.columns.values() if c.key.startswith(kind) and not c.changed]
        cells = [row.cells[key] for key in keys if key in row.cells]
        if len(keys) < 2 or len(cells) < 2 or any(cell.range.high is None for cell in cells):
            continue
        low = sum((max(cell.low, Fraction(0)) for cell in cells), Fraction(0))
        high = sum((cell.high for cell in cells), Fraction(0)) + (len(keys) - len(cells))
        text = " + ".join(cell.text for cell in cells)
        says = f"{text} = {show_range(Range(low, high), _PERCENT)} %, not 100 %"
        yield Check(tuple(cells), low <= 1 <= high, says)


def changes(first: Row, row: Row) -> Iterator[Check]:
    """A change in percent is what its column and the first row make of it."""
    for cell in row.cells.values():
        of = cell.column.changed
        if not of:
            continue
        key = row.columns[of].key
        now, base = row.bounded(key), first.bounded(key)
        if not now or not base or base[0].low <= 0:
            continue
        made = Range(now[0].low / base[0].high - 1, now[0].high / base[0].low - 1)
        if now[0].low < 0:
            continue
        if row is first:
            made = Range.exactly(0)  # a row against itself, however it is rounded
        says = (
            f"printed {cell.text} %, but {now[0].text} ÷ {base[0].text} − 1 = {show_range(made, _PERCENT)} % "
            f"(against line {first.line})"
        )
        yield Check((cell, now[0]), made.meets(cell.range), says)


def counts_not_negative(row: Row) -> Iterator[Check]:
    """Nothing that is counted, timed or paid is below 0."""
    for cell in row.cells.values():
        if not cell.column.name.endswith(("_percent", "_ratio")):  # `shares_in_bounds` has those
            holds = cell.range.high is None or cell.high >= 0
            yield Check((cell,), holds, f"printed {cell.text}, which is below 0", trivial=True)


def _sign(cell: Cell) -> str:
    return " %" if cell.column.scale == _PERCENT else ""
