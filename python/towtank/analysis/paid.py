"""What a run had of what is paid for, whatever it costs: counts, busy seconds, bytes; from its own tables alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.logs import logged_bytes
from towtank.analysis.model import Quantity
from towtank.analysis.pods import SOURCE
from towtank.analysis.summaries import RunTables
from towtank.cost.bill import Share
from towtank.cost.busy import US, UnnamedInstanceError, busy_seconds, request_seconds
from towtank.cost.price_list import OwnHardware, PerInstance, PerRequest, PodRequests, Reserved
from towtank.cost.spec import PricedDeployment
from towtank.store.run_record import LOGGED_IN_DRIVE

if TYPE_CHECKING:
    import pyarrow.dataset as ds

NODES, READY, PENDING, TERMINATING = "nodes", "replicas_ready", "replicas_pending", "replicas_terminating"
CORES, BYTES = "cpu_requested_cores", "memory_requested_bytes"
_COUNTED: Mapping[type, tuple[str, ...]] = {
    Reserved: (NODES,),
    PodRequests: (READY, PENDING, TERMINATING, CORES, BYTES),
    PerInstance: (READY, PENDING, TERMINATING),
}
"""Model of price list → metrics of the whole deployment that it is billed by."""
_NODE_STEPS = {"node_added": 1.0, "node_removed": -1.0}
_TIMES = ("scheduled_us", "lag_us", "wait_us", "ttfb_us", "after_ttfb_us")
BATCH_ROWS, BATCHES_AHEAD = 250_000, 2
"""Requests that are read at once, and how many such batches Arrow may read ahead: 16 of them would fill the memory."""


class PaidTables(RunTables, Protocol):
    """`RunTables` with single requests, which only busy intervals need; `store.RunFolder` fits."""

    def requests(self) -> ds.Dataset:
        """`requests.parquet`."""


@dataclass(frozen=True, eq=False)
class Series:
    """Values at their times, ascending: µs of the run clock, negative before the load."""

    t_us: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    values: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))


@dataclass(frozen=True)
class Work:
    """For how long instances worked, s as billed; and how that was approximated, empty where it was not."""

    seconds: float
    approximation: str = ""


@dataclass(frozen=True, eq=False)
class Paid:
    """What a run had of what is paid for; None where it is not known.

    Parameters
    ----------
    sent : int
        Requests that were sent, warm-up included.
    mean_s : float
        Mean time of one.
    successes, due : int
        Expected answers, and all requests; warm-up included.
    logged : Quantity
        Bytes logged from the start of the load to the end of the measured window, or why they are not known.
    egress_bytes : float, optional
        Bytes of all answers.
    busy_ratio : float, optional
        Mean share of this machine's CPU that worked.
    work : Work, optional
        Only where instances are paid by their work.
    counts : dict
        Metric of the source `kubernetes` → its values of the whole deployment.
    node_steps : Series
        Nodes that came (1) and went (-1).
    """

    sent: int
    mean_s: float
    successes: int
    due: int
    logged: Quantity
    egress_bytes: float | None = None
    busy_ratio: float | None = None
    work: Work | None = None
    counts: dict[str, Series] = field(default_factory=dict)
    node_steps: Series = field(default_factory=Series)

    @property
    def share(self) -> Share:
        """Its part of a bill."""
        return Share(self.sent, self.mean_s)


def read_paid(folder: PaidTables, priced: PricedDeployment) -> Paid | None:
    """Read what a deployment's price list or bill asks for; None where nothing was driven.

    Parameters
    ----------
    folder : PaidTables
    priced : PricedDeployment
    """
    window = folder.record.window
    if window is None:
        return None
    took, count = _sent(folder)
    sent = int(count.sum())
    successes, due = _due(folder)
    mean_s = float(np.dot(took.astype(float), count)) / sent / US if sent else 0.0
    prices = priced.prices
    return Paid(
        sent,
        mean_s,
        successes,
        due,
        logged_bytes(folder.record, LOGGED_IN_DRIVE),
        _egress(folder),
        _busy_ratio(folder.samples(), window.end_us) if isinstance(prices, OwnHardware) else None,
        _work(folder, prices, took, count) if isinstance(prices, PerRequest) else None,
        _counts(folder, _COUNTED.get(type(prices), ())),
        _node_steps(folder.events()) if isinstance(prices, Reserved) else Series(),
    )


def _sent(folder: RunTables) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Times of requests that were sent, µs, and how many took so long; warm-up included."""
    table = folder.counts(["total"])
    rows = table.filter(pc.equal(table["variable"].cast(pa.string()), "total"))
    took, count = (rows[name].to_numpy().astype(np.int64) for name in ("value", "count"))
    return took, count


def _due(folder: RunTables) -> tuple[int, int]:
    """Expected answers, and all requests; those of the warm-up are paid for, too."""
    table = folder.counts(["latency"])
    mine = table.filter(pc.equal(table["variable"].cast(pa.string()), "latency"))
    good = mine.filter(pc.equal(mine["outcome_class"].cast(pa.string()), "ok"))
    successes, due = (int(pc.sum(rows["count"]).as_py() or 0) for rows in (good, mine))
    return successes, due


def _counts(folder: RunTables, metrics: Sequence[str]) -> dict[str, Series]:
    """What was counted of the whole deployment, by metric; without any, samples are not read."""
    if not metrics:
        return {}
    samples = folder.samples()
    return {metric: _series(samples, metric) for metric in metrics}


def _series(samples: pa.Table, metric: str) -> Series:
    rows = _of_source(samples, SOURCE, metric)
    rows = rows.filter(pc.equal(rows["instance"].cast(pa.string()), "")).sort_by("t_us")
    return Series(rows["t_us"].to_numpy().astype(np.int64), rows["value"].to_numpy().astype(float))


def _node_steps(events: pa.Table) -> Series:
    rows = events.filter(
        pc.and_(
            pc.equal(events["source"].cast(pa.string()), SOURCE),
            pc.is_in(events["kind"].cast(pa.string()), value_set=pa.array(list(_NODE_STEPS))),
        )
    ).sort_by("t_us")
    steps = [_NODE_STEPS[kind] for kind in rows["kind"].to_pylist()]
    return Series(rows["t_us"].to_numpy().astype(np.int64), np.array(steps, dtype=float))


def _of_source(samples: pa.Table, source: str, metric: str) -> pa.Table:
    return samples.filter(
        pc.and_(
            pc.equal(samples["source"].cast(pa.string()), source),
            pc.equal(samples["metric"].cast(pa.string()), metric),
        )
    )


def _busy_ratio(samples: pa.Table, end_us: int) -> float | None:
    """Mean share of this machine's CPU that worked while it was driven, all that ran on it included."""
    rows = _of_source(samples, "host", "cpu_busy_ratio")
    inside = pc.and_(pc.greater(rows["t_us"], 0), pc.less_equal(rows["t_us"], end_us))
    values = rows.filter(inside)["value"].to_numpy()
    return float(values.mean()) if len(values) else None


def _work(
    folder: PaidTables, prices: PerRequest, took: npt.NDArray[np.int64], count: npt.NDArray[np.int64]
) -> Work:
    alone = request_seconds(took, count, granularity_s=prices.granularity)
    if prices.rounded == "request":
        return Work(alone)
    try:
        return Work(busy_seconds(_requests(folder), granularity_s=prices.granularity, rounded=prices.rounded))
    except UnnamedInstanceError:
        return Work(alone, _APPROXIMATION)


_APPROXIMATION = "requests × time, as answers do not name their instance: too much where requests shared one"


def _requests(folder: PaidTables) -> Iterator[pd.DataFrame]:
    """Requests that were sent, as `busy_seconds` reads them, some at a time."""
    found = folder.requests().to_batches(
        columns=["instance", *_TIMES], batch_size=BATCH_ROWS, batch_readahead=BATCHES_AHEAD
    )
    for batch in found:
        rows = batch.filter(pc.is_valid(batch["after_ttfb_us"]))  # the others were never sent
        times = {
            name: pc.fill_null(rows[name].cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
            for name in _TIMES
        }
        instance = rows["instance"].cast(pa.string()).dictionary_encode().to_pandas()
        yield pd.DataFrame(
            {
                "instance": instance,
                "due_us": times["scheduled_us"],
                "started_us": times["scheduled_us"] + times["lag_us"] + times["wait_us"],
                "total_us": times["ttfb_us"] + times["after_ttfb_us"],
            }
        )


def _egress(folder: RunTables) -> float | None:
    """Bytes of all answers; None where the requests do not say."""
    if "bytes_in_per_s" in folder.record.unknown:
        return None
    return float(pc.sum(folder.totals()["bytes_in"]).as_py() or 0)
