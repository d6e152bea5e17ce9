"""Who answered a request that was refused: the ingress, the activator, a queue-proxy, or the function itself.

Each part on the way counts the answers that pass it, its own and those from behind it. What is a part's own is what
passed it and came from nobody behind; what none of them can have counted is said to be attributed to nobody.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.tables import Totals

INGRESS, ACTIVATOR, QUEUE_PROXY, FUNCTION = "ingress", "activator", "queue_proxy", "function"
PARTS = (INGRESS, ACTIVATOR, QUEUE_PROXY, FUNCTION)
COLUMNS = ("treatment_id", "status", "total", *PARTS, "unattributed", "beyond")
"""A part that was not observed has no value."""
STATUSES = ("429", "502", "503", "504")
"""What ingresses and proxies answer themselves; any other failure is the function's."""
_PASSED = {
    ACTIVATOR: "activator_answered_",
    QUEUE_PROXY: "queue_proxy_answered_",
    FUNCTION: "instances_answered_",
}
_MADE = "ingress_made_"
_SAID = "ingress_answered_"
"""Event of an ingress: how many requests it answered itself for a reason, and with which status."""
_OBSERVED = {"scaling": (INGRESS, FUNCTION), "knative": PARTS}
"""Source → the parts that it sees."""


@dataclass(frozen=True)
class Answered:
    """Answers of one status in one run.

    Parameters
    ----------
    total : int
        Requests that the load engine saw answered so.
    own : mapping
        Part → how many of these it made itself; only parts that were observed.
    unattributed : int
        What nobody is known to have made.
    beyond : int
        How many more were counted than the load engine saw: requests of others, or answers that came too late.
    """

    total: int
    own: Mapping[str, int]
    unattributed: int
    beyond: int


@dataclass(frozen=True)
class RunAnswers:
    """All statuses of one run."""

    treatment_id: str
    by_status: Mapping[str, Answered]


def attribute(total: int, made: int, passed: Mapping[str, int]) -> Answered:
    """Say who made the answers of one status.

    Parameters
    ----------
    total : int
        As the load engine counted them.
    made : int
        Answers that the ingress made itself.
    passed : mapping
        Part → answers that passed it, its own and those from behind: `ACTIVATOR`, `QUEUE_PROXY`, `FUNCTION`.

    Notes
    -----
    Not every request goes through the activator, so that of those it passed on some are counted behind it and some are
    not: what is its own is at least what passed it less what passed the queue-proxies, and no more is attributed to it.
    """
    own = {INGRESS: made}
    behind = passed.get(FUNCTION, 0)
    if QUEUE_PROXY in passed:
        own[QUEUE_PROXY] = max(0, passed[QUEUE_PROXY] - behind)
        behind = max(behind, passed[QUEUE_PROXY])
    if ACTIVATOR in passed:
        own[ACTIVATOR] = max(0, passed[ACTIVATOR] - behind)
    if FUNCTION in passed:
        own[FUNCTION] = passed[FUNCTION]
    left = total - sum(own.values())
    return Answered(total, own, max(0, left), max(0, -left))


def of_run(
    treatment_id: str, samples: pa.Table, events: pa.Table, totals: Totals | None
) -> RunAnswers | None:
    """Attribute the refusals of a run; None where nobody on the way was observed, or nothing was refused.

    Counted is the whole load, warm-up and what came after the measured window too.
    """
    source = samples["source"].cast(pa.string())
    mine = samples.filter(
        pc.and_(pc.is_in(source, value_set=pa.array(list(_OBSERVED))), pc.greater(samples["t_us"], 0))
    )
    sources = set(pc.unique(mine["source"].cast(pa.string())).to_pylist())
    if totals is None or not sources:
        return None
    counted: Counter[str] = Counter()
    for metric, value in zip(
        mine["metric"].cast(pa.string()).to_pylist(), mine["value"].to_pylist(), strict=True
    ):
        counted[metric] += round(value) if metric.startswith((_MADE, *_PASSED.values())) else 0
    made = _made(counted, events)
    observed = {part for one in sources for part in _OBSERVED[one]}
    seen = totals.all_by_status()
    by_status = {}
    for status in STATUSES:
        passed = {part: counted[f"{prefix}{status}"] for part, prefix in _PASSED.items() if part in observed}
        if seen.get(status, 0) or made.get(status, 0):
            by_status[status] = attribute(seen.get(status, 0), made.get(status, 0), passed)
    return RunAnswers(treatment_id, by_status) if by_status else None


def _made(counted: Mapping[str, int], events: pa.Table) -> dict[str, int]:
    """Status → answers that the ingress made itself under load; which status a reason has, its event says."""
    found: dict[str, int] = defaultdict(int)
    kinds = events["kind"].cast(pa.string())
    said = events.filter(pc.starts_with(kinds, _SAID))
    for kind, detail in zip(said["kind"].to_pylist(), said["detail"].to_pylist(), strict=True):
        status = json.loads(detail or "{}").get("status")
        if status is not None:
            found[str(status)] += counted.get(f"{_MADE}{str(kind).removeprefix(_SAID)}", 0)
    return dict(found)


def table(runs: Iterable[RunAnswers]) -> pd.DataFrame:
    """Sums over the runs of each treatment: `COLUMNS`; a row for each status that was seen."""
    grouped: dict[tuple[str, str], list[Answered]] = defaultdict(list)
    for run in runs:
        for status, answered in run.by_status.items():
            grouped[run.treatment_id, status].append(answered)
    rows = [(treatment, status, *_summed(mine)) for (treatment, status), mine in grouped.items()]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _summed(mine: Sequence[Answered]) -> tuple[int | None, ...]:
    parts = [
        sum(one.own[part] for one in mine) if all(part in one.own for one in mine) else None for part in PARTS
    ]
    return (
        sum(one.total for one in mine), *parts, sum(one.unattributed for one in mine), sum(one.beyond for one in mine),
    )  # fmt: skip
