"""Where the time of one request went: each span's own time, and what lies outside of all of them.

A span's self time is its duration minus the time that its children cover together. A child on another machine may seem
to lie beside its parent when clocks differ; it is moved by as little as puts it inside. What a child does after its
parent has ended is not time that the parent waited for, and counts for the child alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Interval = tuple[int, int]


class Work(NamedTuple):
    """A span, as far as it matters here; times in µs on one clock."""

    span_id: str
    parent_id: str
    hop: tuple[str, str]
    """Service and name."""
    place: tuple[str, str]
    """Service and instance: whose clock it is."""
    start_us: int
    end_us: int


@dataclass(frozen=True)
class RequestTimes:
    """One request, taken apart.

    Parameters
    ----------
    self_us : mapping
        Hop → self time of its spans together, their number, and when the first began after the request was sent.
    outside_us : int
        Sent → over, without what the outermost spans cover: network, queues, the client.
    whole : bool
        It has an outermost span, and no span's parent is missing.
    """

    self_us: Mapping[tuple[str, str], tuple[int, int, int]]
    outside_us: int
    whole: bool


def take_apart(spans: Sequence[Work], *, parent_id: str, started_us: int, ended_us: int) -> RequestTimes:
    """Find out where the time between `started_us` and `ended_us` went.

    Parameters
    ----------
    spans : sequence of Work
        All of the request's trace.
    parent_id : str
        Span id of the request itself: the parent of its outermost spans.
    started_us, ended_us : int
        When it was sent and when it was over.
    """
    unique = {span.span_id: span for span in spans}  # an export that was sent twice counts once
    children: dict[str, list[Work]] = defaultdict(list)
    for span in unique.values():
        children[span.parent_id].append(span)
    roots = children.get(parent_id, [])
    whole = bool(roots) and all(span.parent_id in unique or span.parent_id == parent_id for span in spans)
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    for span in unique.values():
        covered = covered_us(
            (span.start_us, span.end_us),
            [_seen_from(span, child) for child in children.get(span.span_id, ())],
        )
        before_us, number, first_us = found.get(span.hop, (0, 0, span.start_us - started_us))
        own_us = span.end_us - span.start_us - covered
        found[span.hop] = before_us + own_us, number + 1, min(first_us, span.start_us - started_us)
    inside = covered_us((started_us, ended_us), [(root.start_us, root.end_us) for root in roots])
    return RequestTimes(found, ended_us - started_us - inside, whole)


def covered_us(within: Interval, parts: Iterable[Interval]) -> int:
    """Time within an interval that parts cover together; where they overlap it counts once.

    >>> covered_us((0, 100), [(10, 40), (30, 50), (90, 120)])
    50
    """
    begin, end = within
    covered, until = 0, begin
    for start, stop in sorted(parts):
        low, high = max(start, until), min(stop, end)
        if high > low:
            covered, until = covered + high - low, high
    return covered


def _seen_from(parent: Work, child: Work) -> Interval:
    """A child's interval on its parent's clock."""
    if child.place == parent.place:
        return child.start_us, child.end_us
    length = min(child.end_us - child.start_us, parent.end_us - parent.start_us)
    start = min(max(child.start_us, parent.start_us), parent.end_us - length)
    return start, start + length
