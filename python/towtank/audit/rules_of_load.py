"""Requests against time: what closed users can have made, and what a rate makes of a duration."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from towtank.audit.check import Check
from towtank.audit.printed import Range, show_range
from towtank.audit.table import Row

SLACK = Fraction(5, 100)
"""A ramp has steps, a load generator needs time of its own, and runs end a little after their time: what no table
prints. Requests that are further off than this share follow from none of it."""


def closed_loop(row: Row) -> Iterator[Check]:
    """In a closed loop, requests = user-seconds ÷ (mean latency + pause).

    Notes
    -----
    Each user is either waiting for an answer or pausing, so that its time is the sum of both (Little's law). A request
    of each user may be cut off at the end; `SLACK` is for the rest.
    """
    known = row.bounded("mean", "pause", "total")
    if not known:
        return
    mean, pause, total = known
    users = row.bounded("users")
    given = row.bounded("user_seconds")
    if given:
        seconds, text, named = given[0].range, given[0].text, given
    else:
        both = row.bounded("users", "duration")
        if not both:
            return
        seconds = Range(both[0].low * both[1].low, both[0].high * both[1].high)
        text, named = f"{both[0].text} × {both[1].said}", both
    shortest = max(mean.low, Fraction(0)) + max(pause.low, Fraction(0))
    if shortest <= 0 or seconds.high is None:
        return  # printed so coarsely that nothing follows
    made = Range(seconds.low / (mean.high + pause.high), seconds.high / shortest)
    cut_off = users[0].high if users else Fraction(0)
    assert made.high is not None  # noqa: S101 - both ends were made
    allowed = made.widened(SLACK)
    assert allowed.high is not None  # noqa: S101
    allowed = Range(allowed.low - cut_off, allowed.high + cut_off)
    says = (
        f"printed {total.text}, but {text} user-seconds ÷ (mean {mean.said} + pause {pause.said}) = {show_range(made)} "
        f"requests, give or take {float(SLACK):.0%}"
    )
    yield Check((total, mean, pause, *named), allowed.meets(total.range), says)


def rate_makes_total(row: Row) -> Iterator[Check]:
    """Requests = rate × duration; a measured duration (`elapsed`) is held to its digits, a planned one is not."""
    for key, slack in (("elapsed", Fraction(0)), ("duration", SLACK)):
        known = row.bounded("throughput_per_s", key, "total")
        if not known or (key == "duration" and "elapsed" in row.cells):
            continue
        rate, time, total = known
        made = Range(rate.low * time.low, rate.high * time.high)
        completed = _completed(row, total.range)
        give = f", give or take {float(slack):.0%}" if slack else ""
        says = f"printed {total.text}, but {rate.text} requests/s × {time.said} = {show_range(made)} requests{give}"
        yield Check((total, rate, time), made.widened(slack).meets(completed), says)


def _completed(row: Row, total: Range) -> Range:
    """What a rate may count: all requests, or those that did not fail."""
    failed = row.bounded("failed")
    if not failed:
        return total
    return Range(max(total.low - failed[0].high, Fraction(0)), total.high)
