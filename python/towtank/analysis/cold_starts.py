"""Cold starts: how long requests waited for an instance to start, and which part of its start took how long.

A cold request is joined to the instance that answered it, whose steps telemetry has told. What an instance had behind
it before the request was sent is no part of that request's wait: its phases add up to its time to first byte, always.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.intervals import FloatArray
from towtank.analysis.pods import SCALING, Pods
from towtank.store.run_folder import RunFolder

SENT, FIRST_BYTE = "sent", "first byte"
STEPS = ("created", "scheduled", "pulled", "started", "ready")
"""Of an instance, in their order; a local one has created (decided), started and ready."""
FORCED, NATURAL = "forced", "natural"
COLUMNS = ("run_id", "instance", "kind", "joined", "ttfb_s", *STEPS)
"""Steps in seconds since the request was sent (before it: below 0), nan where they are not known."""
SPREAD_COLUMNS = (
    "treatment_id", "kind", "n", "joined", "min_s", "p25_s", "median_s", "p75_s", "max_s", "std_s",
)  # fmt: skip
PHASE_COLUMNS = ("treatment_id", "kind", "n", "begin", "end", "mean_s", "within_s")
LOCAL_WITHIN_US = 100
"""Three processes of one machine write down on one clock; each does it this soon, unless the machine is overloaded."""
TOLD_WITHIN_US = {
    "created": 20_000, "scheduled": 20_000, "pulled": 100_000, "started": 1_000_000, "ready": 100_000,
}  # fmt: skip
"""How late a cluster's message of a step may come: controllers tell at once, but messages of two watches overtake each
other by milliseconds; kubelets tell of images and readiness soon, and look at containers once a second."""
_READ = ("scheduled_us", "lag_us", "wait_us", "ttfb_us", "instance", "cold")
_FEW_WITHOUT = 0.1
"""A step that more of the requests than this share do not have is not told apart."""
Settled = Literal["zero", "baseline"] | None


@dataclass(frozen=True, eq=False)
class ColdStarts:
    """Cold requests of one run.

    Parameters
    ----------
    requests : DataFrame
        `COLUMNS`; one row for each that got an answer.
    within_us : mapping
        Step → how exactly its instants are known, µs; the least exact one counts.
    """

    requests: pd.DataFrame
    within_us: Mapping[str, int]


def of_run(folder: RunFolder, pods: Pods, settled: Settled) -> ColdStarts | None:
    """Find the cold requests of a run; None where there is none.

    Cold is what its answer, or the ingress in front, says to be cold (`cold`); and, where nothing says it, what was
    sent before the process of the instance that answered it had started.

    Parameters
    ----------
    folder : RunFolder
    pods : Pods
        Lives of instances.
    settled : {"zero", "baseline"}, optional
        What the deployment had settled at when the load began.
    """
    found = _frame(_cold(folder, pods), folder.run_id, pods, settled)
    if found.empty:
        return None
    return ColdStarts(found, _within_us(pods, found))


def _cold(folder: RunFolder, pods: Pods) -> Iterator[pa.Table]:
    """Cold requests that were answered; streamed, and only the columns that are needed."""
    started = {name: pods.lives[uid].get("started") for name, uid in pods.named.items()}
    known = {name: at for name, at in started.items() if at is not None}
    names, instants = pa.array(list(known), pa.string()), pa.array(list(known.values()), pa.int64())
    for batch in folder.requests().to_batches(columns=list(_READ)):
        rows = pa.Table.from_batches([batch])
        place = pc.index_in(rows["instance"].cast(pa.string()), value_set=names)
        begun = pc.take(instants, place)
        early = pc.fill_null(pc.less(_sent_us(rows), begun), fill_value=False)
        cold = pc.and_(pc.coalesce(rows["cold"], early), pc.is_valid(rows["ttfb_us"]))
        if pc.any(cold).as_py():
            yield rows.filter(cold)


def _sent_us(rows: pa.Table) -> pa.ChunkedArray:
    late = (pc.fill_null(rows[name].cast(pa.int64()), 0) for name in ("lag_us", "wait_us"))
    sent = rows["scheduled_us"]
    for one in late:
        sent = pc.add(sent, one)
    return sent


def _frame(parts: Iterator[pa.Table], run_id: str, pods: Pods, settled: Settled) -> pd.DataFrame:
    """Cold requests with the steps of their instances."""
    first_ready = _first_ready(pods) if _from_zero(pods, settled) else {}
    steps_us = pd.DataFrame.from_dict(
        {name: [pods.lives[uid].get(step, np.nan) for step in STEPS] for name, uid in pods.named.items()},
        orient="index",
        columns=list(STEPS),
        dtype=float,
    )
    ready_us = {name: first_ready.get(pods.workloads.get(name, ""), -np.inf) for name in pods.named}
    frames = [_rows(part, steps_us, ready_us) for part in parts]
    if not frames:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat(frames, ignore_index=True).assign(run_id=run_id)[list(COLUMNS)]


def _rows(part: pa.Table, steps_us: pd.DataFrame, ready_us: Mapping[str, float]) -> pd.DataFrame:
    """Some of them; `ready_us`: until when what an instance answered was sent to none."""
    instance = part["instance"].cast(pa.string()).fill_null("").to_pandas()
    sent_us = _sent_us(part).to_numpy().astype(float)
    steps = (steps_us.reindex(instance).to_numpy(dtype=float) - sent_us[:, np.newaxis]) * MICROSECOND_S
    forced = sent_us <= instance.map(ready_us).fillna(-np.inf).to_numpy(dtype=float)
    found = pd.DataFrame(steps, columns=list(STEPS))
    return found.assign(
        instance=instance,
        kind=np.where(forced, FORCED, NATURAL),
        joined=instance.isin(steps_us.index),
        ttfb_s=part["ttfb_us"].to_numpy().astype(float) * MICROSECOND_S,
    )


def _from_zero(pods: Pods, settled: Settled) -> bool:
    """Whether it was made sure that there was no instance when the load began."""
    if settled != "baseline":
        return settled == "zero"
    ready = pods.counts[(pods.counts["metric"] == "pods_ready") & (pods.counts["t_us"] <= 0)]
    return not ready.empty and float(ready.sort_values("t_us")["value"].iloc[-1]) == 0


def _first_ready(pods: Pods) -> dict[str, int]:
    """Workload → when its first instance of the run got ready, µs."""
    found: dict[str, int] = {}
    for name, uid in pods.named.items():
        at = pods.lives[uid].get("ready")
        if at is not None and at > 0:
            workload = pods.workloads.get(name, "")
            found[workload] = min(at, found.get(workload, at))
    return found


def _within_us(pods: Pods, requests: pd.DataFrame) -> dict[str, int]:
    """How exactly the steps of the instances that answered are known."""
    found = dict.fromkeys(STEPS, 0)
    for name in set(requests["instance"]) & set(pods.named):
        uid = pods.named[name]
        for step in STEPS:
            within = LOCAL_WITHIN_US if pods.told_by.get(uid) == SCALING else TOLD_WITHIN_US[step]
            if step == "started" and uid in pods.started_within_us:
                within = pods.started_within_us[uid]
            found[step] = max(found[step], within)
    return found


# --- over the runs of a treatment --------------------------------------------------------------------------------


def _pooled(runs: Sequence[ColdStarts]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Requests of all runs by kind."""
    requests = pd.concat([run.requests for run in runs], ignore_index=True)
    for kind in (FORCED, NATURAL):
        mine = requests[requests["kind"] == kind]
        if not mine.empty:
            yield kind, mine


def spreads(runs: Mapping[str, Sequence[ColdStarts]]) -> pd.DataFrame:
    """Order statistics of the time to first byte of cold requests, pooled over the runs of each treatment.

    Returns
    -------
    DataFrame
        `SPREAD_COLUMNS`; quantiles are of type 7, the standard deviation of a sample (nan of one request).
    """
    rows = []
    for treatment, mine in runs.items():
        for kind, requests in _pooled(mine):
            ttfb = requests["ttfb_s"].to_numpy(dtype=float)
            deviation = float(np.std(ttfb, ddof=1)) if ttfb.size > 1 else np.nan
            rows.append(
                (
                    treatment, kind, ttfb.size, int(requests["joined"].sum()),
                    *np.percentile(ttfb, (0, 25, 50, 75, 100)).tolist(), deviation,
                )
            )  # fmt: skip
    return pd.DataFrame(rows, columns=list(SPREAD_COLUMNS))


def anatomy(runs: Mapping[str, Sequence[ColdStarts]]) -> pd.DataFrame:
    """Mean length of each phase of a cold request, over the requests of each treatment and kind.

    Returns
    -------
    DataFrame
        `PHASE_COLUMNS`: the phases of a kind add up to the mean time to first byte of its `n` requests. What is
        shorter than `within_s`, how exactly its length is known, was merged with the phase beside it.
    """
    rows = []
    for treatment, mine in runs.items():
        within: dict[str, int] = defaultdict(int)
        for run in mine:
            for step, us in run.within_us.items():
                within[step] = max(within[step], us)
        for kind, requests in _pooled(mine):
            joined = requests[requests["joined"].astype(bool)]
            rows += [(treatment, kind, *row) for row in _phases(joined, within)]
    return pd.DataFrame(rows, columns=list(PHASE_COLUMNS))


def _phases(joined: pd.DataFrame, within_us: Mapping[str, int]) -> Iterator[tuple[object, ...]]:
    """Phases of some requests that have their instances: n, begin, end, mean, within."""
    if joined.empty:
        return
    steps = [step for step in STEPS if joined[step].isna().mean() <= _FEW_WITHOUT]
    whole = joined.dropna(subset=steps)
    if whole.empty or not steps:
        return
    ttfb = whole["ttfb_s"].to_numpy(dtype=float)
    instants = boundaries(whole[steps].to_numpy(dtype=float), ttfb)
    exact = [0.0, *(within_us.get(step, 0) * MICROSECOND_S for step in steps), 0.0]
    names = [SENT, *steps, FIRST_BYTE]
    kept = merged(instants, exact)
    for begin, end in pairwise(kept):
        length = float((instants[:, end] - instants[:, begin]).mean())
        yield len(whole), names[begin], names[end], length, exact[begin] + exact[end]


def boundaries(steps: FloatArray, ttfb: FloatArray) -> FloatArray:
    """When each phase of a request begins and ends, seconds since it was sent.

    Parameters
    ----------
    steps : array of shape (n, k)
        Steps of the instances, since the request was sent.
    ttfb : array of shape (n,)
        Time to first byte.

    Returns
    -------
    array of shape (n, k + 2)
        From 0 to the first byte, never falling: what was done before the request was sent took nothing of its time,
        nor did what is told after its first byte.
    """
    inside = np.maximum.accumulate(np.clip(steps, 0.0, ttfb[:, np.newaxis]), axis=1)
    return np.column_stack([np.zeros(len(ttfb)), inside, ttfb])


def merged(instants: FloatArray, within_s: Sequence[float]) -> list[int]:
    """Which boundaries tell phases apart: those of which no phase is shorter than its length is known.

    Parameters
    ----------
    instants : array of shape (n, k)
        As `boundaries` has them.
    within_s : sequence of float
        How exactly each boundary is known; the first and the last are the request's own.

    Returns
    -------
    list of int
        Indices, the first and the last among them. Of the two ends of a phase that is too short, the one that is known
        less exactly goes; the shortest phase first.
    """
    kept = list(range(instants.shape[1]))
    means: npt.NDArray[np.float64] = instants.mean(axis=0)
    while len(kept) > 2:
        lengths = [
            (float(means[b] - means[a]), index)
            for index, (a, b) in enumerate(pairwise(kept))
            if means[b] - means[a] < within_s[a] + within_s[b]
        ]
        if not lengths:
            break
        _, index = min(lengths)
        inner = [i for i in (index, index + 1) if 0 < i < len(kept) - 1]
        del kept[max(inner, key=lambda i: within_s[kept[i]])]
    return kept
