"""Where time went, hop by hop: traced requests of a step, the median ones beside the slow ones.

Groups are formed within each run, by the latency of its own traced requests, and their requests are pooled over runs:
means are descriptive, no claim is made from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.self_times import RequestTimes, Work, take_apart
from towtank.analysis.tables import step_label
from towtank.store.run_folder import RunFolder
from towtank.store.traced import Shares, traced_requests

COLUMNS = ("treatment_id", "step", "group", "percentile", "requests", "latency_s", "kind", "service", "name",
           "self_s", "spans", "first_s")  # fmt: skip
MEDIAN, SLOW = "median", "slow"
_BETWEEN = (40, 60)
"""Percentiles of latency between which a request is a median one."""
_SLOW = (99, 95)
"""A request at or above this percentile is a slow one; the second where the first leaves too few."""
FEWEST_SLOW = 20
MOST_HOPS = 12
"""Hops of one step that are told apart; names that hold ids would be as many as requests."""
BEFORE, OUTSIDE, SPAN, OTHER = "before", "outside", "span", "other"
"""Kinds of rows: due → sent, outside of the outermost span, a hop, all further hops."""

Hop = tuple[str, str, str]
"""Kind, service, name."""


@dataclass
class Sums:
    """Requests of one group, added up."""

    requests: int = 0
    latency_us: int = 0
    hops: dict[Hop, tuple[int, int, int]] = field(default_factory=dict)
    """Self time, spans, and when the first began after the request was sent, summed over requests that have it."""

    def add(self, other: Sums) -> None:
        """Add another run's."""
        self.requests += other.requests
        self.latency_us += other.latency_us
        for hop, numbers in other.hops.items():
            self.put(hop, *numbers)

    def put(self, hop: Hop, self_us: int, spans: int, first_us: int) -> None:
        """Add to a hop."""
        known = self.hops.get(hop, (0, 0, 0))
        self.hops[hop] = known[0] + self_us, known[1] + spans, known[2] + first_us


@dataclass(frozen=True)
class RunHops:
    """What the spans of one run say.

    Parameters
    ----------
    groups : mapping
        Step and group (`median`, or ``slow-99``, ``slow-95``) → sums.
    traced : int
        Answered requests of the measured window that carried a trace id.
    without_spans, incomplete : int
        Of these.
    foreign_spans : int
        Spans of no request of this run.
    """

    run_id: str
    groups: Mapping[tuple[str, str], Sums]
    traced: int
    without_spans: int
    incomplete: int
    foreign_spans: int


@dataclass(frozen=True)
class _Request:
    step: str
    due_us: int
    started_us: int
    ended_us: int
    times: RequestTimes


def of_run(folder: RunFolder, shares: Shares) -> RunHops | None:
    """Join the spans of a run to its requests; None where no source kept any."""
    spans = folder.spans()
    if not spans.num_rows or not shares:
        return None
    record = folder.record
    rows = traced_requests(folder.request_batches(), record.run_id, shares)
    known = pc.is_in(spans["trace_id"], value_set=rows["trace_id"])
    foreign = spans.num_rows - int(pc.sum(known).as_py() or 0)
    if record.window is not None:
        due = rows["scheduled_us"]
        rows = rows.filter(
            pc.and_(pc.greater_equal(due, record.window.start_us), pc.less(due, record.window.end_us))
        )
    rows = rows.filter(rows["answered"])
    found = list(_requests(rows, _by_trace(spans.filter(known))))
    whole = [request for request in found if request.times.whole]
    return RunHops(
        record.run_id,
        _groups(whole),
        rows.num_rows,
        rows.num_rows - len(found),
        len(found) - len(whole),
        foreign,
    )


def _by_trace(spans: pa.Table) -> dict[str, list[Work]]:
    names = ("trace_id", "span_id", "parent_id", "service", "name", "instance", "start_us", "duration_us")
    found: dict[str, list[Work]] = defaultdict(list)
    for trace, span, parent, service, name, instance, start, duration in zip(
        *(spans[column].to_pylist() for column in names), strict=True
    ):
        found[trace].append(Work(span, parent, (service, name), (service, instance), start, start + duration))
    return found


def _requests(rows: pa.Table, spans: Mapping[str, Sequence[Work]]) -> Iterator[_Request]:
    """Requests that have spans, taken apart."""
    several = len(pc.unique(rows["workload"])) > 1
    for row in rows.to_pylist():
        work = spans.get(row["trace_id"])
        if work:
            times = take_apart(
                work, parent_id=row["parent_id"], started_us=row["started_us"], ended_us=row["ended_us"]
            )
            step = step_label(row["workload"], row["step"]) if several else row["step"]
            yield _Request(step, row["scheduled_us"], row["started_us"], row["ended_us"], times)


def _groups(requests: Iterable[_Request]) -> dict[tuple[str, str], Sums]:
    by_step: dict[str, list[_Request]] = defaultdict(list)
    for request in requests:
        by_step[request.step].append(request)
    groups: dict[tuple[str, str], Sums] = {}
    for step, mine in by_step.items():
        latency = np.array([request.ended_us - request.due_us for request in mine])
        low, high, *slow = np.percentile(latency, [*_BETWEEN, *_SLOW])
        chosen = {MEDIAN: (latency >= low) & (latency <= high)}
        chosen |= {f"{SLOW}-{p}": latency >= bound for p, bound in zip(_SLOW, slow, strict=True)}
        for group, mask in chosen.items():
            groups[step, group] = _sums([mine[i] for i in np.flatnonzero(mask)])
    return groups


def _sums(requests: Sequence[_Request]) -> Sums:
    sums = Sums(len(requests), sum(request.ended_us - request.due_us for request in requests))
    for request in requests:
        sums.put((BEFORE, "", ""), request.started_us - request.due_us, 0, 0)
        sums.put((OUTSIDE, "", ""), request.times.outside_us, 0, 0)
        for (service, name), numbers in request.times.self_us.items():
            sums.put((SPAN, service, name), *numbers)
    return sums


def table(runs: Mapping[str, Sequence[RunHops]]) -> pd.DataFrame:
    """Means over the requests of each group, of all counting runs of a treatment.

    Parameters
    ----------
    runs : mapping
        Treatment → what its runs say.

    Returns
    -------
    DataFrame
        `COLUMNS`: `self_s` and `spans` are means a request; rows of a group are in the order in which hops begin.
    """
    rows = []
    for treatment, mine in runs.items():
        pooled: dict[tuple[str, str], Sums] = defaultdict(Sums)
        for run in mine:
            for key, sums in run.groups.items():
                pooled[key].add(sums)
        for step in dict.fromkeys(step for step, _ in pooled):
            percentile = _slow_percentile(pooled, step)
            shown = {
                (MEDIAN, 50): pooled[step, MEDIAN],
                (SLOW, percentile): pooled[step, f"{SLOW}-{percentile}"],
            }
            kept = _largest(shown.values())
            for (group, at), sums in shown.items():
                rows += [(treatment, step, group, at, *row) for row in _rows(sums, kept)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _slow_percentile(pooled: Mapping[tuple[str, str], Sums], step: str) -> int:
    first, second = _SLOW
    return first if pooled[step, f"{SLOW}-{first}"].requests >= FEWEST_SLOW else second


def _largest(groups: Iterable[Sums]) -> set[Hop]:
    """Hops of a step that are told apart: those in which most time went, in either group."""
    weight: dict[Hop, float] = defaultdict(float)
    for sums in groups:
        for hop, (self_us, _, _) in sums.hops.items():
            weight[hop] += self_us / max(sums.latency_us, 1)
    ranked = sorted((hop for hop in weight if hop[0] == SPAN), key=lambda hop: (-weight[hop], hop))
    return set(ranked if len(ranked) <= MOST_HOPS else ranked[: MOST_HOPS - 1])


def _rows(sums: Sums, kept: set[Hop]) -> list[tuple[object, ...]]:
    shown = Sums(sums.requests, sums.latency_us)
    for hop, numbers in sums.hops.items():
        shown.put(hop if hop[0] != SPAN or hop in kept else (OTHER, "", ""), *numbers)
    n = max(shown.requests, 1)
    order = {BEFORE: 0, SPAN: 1, OTHER: 2, OUTSIDE: 3}
    return [
        (sums.requests, sums.latency_us / n / 1e6, *hop, self_us / n / 1e6, spans / n, first_us / n / 1e6)
        for hop, (self_us, spans, first_us) in sorted(
            shown.hops.items(), key=lambda item: (order[item[0][0]], item[1][2] / n, item[0])
        )
    ]
