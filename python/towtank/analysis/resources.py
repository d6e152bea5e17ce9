"""CPU and memory of a deployment, from the samples of the finest source that has them, summed over instances.

A sample at t says what was used between the previous sample of that instance and t.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.model import Quantity
from towtank.variables import variable

METRICS = ("cpu_cores", "memory_bytes")
SOURCES = ("process", "kubelet", "metrics-server", "agent")
"""Sources of CPU and memory; of a run the first that saw the deployment counts. Agents see nodes only."""
OWN_PREFIX = "towtank"
"""Instances of this name are Towtank's own processes, not the system under test."""
NODE_PREFIX = "node/"
"""Instances of this name are nodes of a cluster, with whatever else runs there."""
RAW_LIMIT = 2_000
"""More samples than this of one instance and metric are shown binned."""


def deployment_samples(samples: pa.Table) -> pd.DataFrame:
    """CPU and memory samples of the deployment's own processes or pods: t_us, instance, metric, value.

    All instances have a sample at each of the times, as sums need it.
    """
    frame = _usage(samples)
    foreign = frame["instance"].astype(str).str.startswith((OWN_PREFIX, NODE_PREFIX))
    return _of_one_source(frame[~foreign])


def node_samples(samples: pa.Table) -> pd.DataFrame:
    """CPU and memory samples of the nodes under it, whoever used them; columns as of `deployment_samples`."""
    frame = _usage(samples)
    return _of_one_source(frame[frame["instance"].astype(str).str.startswith(NODE_PREFIX)])


def _usage(samples: pa.Table) -> pd.DataFrame:
    wanted = pc.and_(
        pc.is_in(samples["source"].cast(pa.string()), value_set=pa.array(SOURCES)),
        pc.is_in(samples["metric"].cast(pa.string()), value_set=pa.array(METRICS)),
    )
    rows = samples.filter(wanted)
    return pd.DataFrame(
        {
            "t_us": rows["t_us"].to_numpy(),
            "source": np.array(rows["source"].cast(pa.string()).to_pylist(), dtype=object),
            "instance": np.array(rows["instance"].cast(pa.string()).to_pylist(), dtype=object),
            "metric": np.array(rows["metric"].cast(pa.string()).to_pylist(), dtype=object),
            "value": rows["value"].to_numpy(),
        }
    )


def _of_one_source(frame: pd.DataFrame) -> pd.DataFrame:
    there = set(frame["source"])
    chosen = next((source for source in SOURCES if source in there), None)
    mine = frame[frame["source"] == chosen].drop(columns="source")
    return mine if chosen in (None, "process") else aligned(mine)


def aligned(frame: pd.DataFrame) -> pd.DataFrame:
    """Give every instance a sample at every time: each counts since its previous one, so the next one says it.

    What is read through others comes when it was measured anew, and that is not the same moment for all.
    """
    parts = [frame.iloc[:0]]
    for metric, of_metric in frame.groupby("metric", sort=False):
        times = np.unique(of_metric["t_us"].to_numpy(dtype=np.int64))
        for instance, one in of_metric.groupby("instance", sort=False):
            ordered = one.sort_values("t_us")
            own = ordered["t_us"].to_numpy(dtype=np.int64)
            within = times[(times >= own[0]) & (times <= own[-1])]
            value = ordered["value"].to_numpy(dtype=float)[np.searchsorted(own, within)]
            columns = {"t_us": within, "instance": instance, "metric": metric, "value": value}
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True).sort_values("t_us", kind="stable", ignore_index=True)


def cpu_in_window(frame: pd.DataFrame, *, start_us: int, end_us: int) -> Quantity:
    """Time-weighted mean CPU of all instances together in the window, cores (`mean_in_window`)."""
    return mean_in_window(frame, "cpu_cores", start_us=start_us, end_us=end_us)


def mean_in_window(frame: pd.DataFrame, metric: str, *, start_us: int, end_us: int) -> Quantity:
    """Time-weighted mean of a rate of all instances together in the window.

    Notes
    -----
    Σ value × overlap ÷ covered time, where the overlap is that of the interval since the instance's previous sample
    with the window, and the covered time runs from the first to the last such interval of any instance: an
    instance that died counts as 0 from then on.
    """
    rates = frame[frame["metric"] == metric].sort_values("t_us")
    total, first, last = 0.0, end_us, start_us
    for _, one in rates.groupby("instance", sort=False):
        t = one["t_us"].to_numpy(dtype=np.int64)
        if t.size == 1:  # nothing says since when; the sample stands for its moment only
            continue
        begin, end = np.maximum(t[:-1], start_us), np.minimum(t[1:], end_us)
        overlap = np.maximum(end - begin, 0)
        if overlap.any():
            total += float(np.dot(one["value"].to_numpy(dtype=float)[1:], overlap))
            inside = overlap > 0
            first, last = min(first, int(begin[inside][0])), max(last, int(end[inside][-1]))
    if last <= first:
        what = "CPU" if metric == "cpu_cores" else variable(metric).title
        return Quantity(None, reason=f"no {what} samples of the deployment in the measured window")
    return Quantity(total / (last - first))


def memory_in_window(frame: pd.DataFrame, *, start_us: int, end_us: int) -> Quantity:
    """Highest memory of all instances together at one moment of the window, bytes."""
    inside = (frame["metric"] == "memory_bytes") & frame["t_us"].between(start_us, end_us)
    memory = frame[inside]
    if memory.empty:
        return Quantity(None, reason="no memory samples of the deployment in the measured window")
    return Quantity(float(memory.groupby("t_us")["value"].sum().max()))


def for_figures(frame: pd.DataFrame, *, treatment_id: str, run_id: str, bin_us: int) -> pd.DataFrame:
    """Samples of one run for figures: treatment_id, run_id, t_s, instance, metric, value.

    Long series are binned: mean CPU and highest memory of each bin.
    """
    shown: dict[str, Any] = {"treatment_id": treatment_id, "run_id": run_id}
    if frame.empty:
        return _figure_columns(frame.assign(**shown, t_s=np.array([], dtype=float)))
    if frame.groupby(["instance", "metric"]).size().max() > RAW_LIMIT:
        keyed = frame.assign(t_us=frame["t_us"] // bin_us * bin_us)
        groups = keyed.groupby(["t_us", "instance", "metric"], as_index=False)["value"]
        mean, peak = groups.mean(), groups.max()
        frame = mean.assign(value=mean["value"].where(mean["metric"] == "cpu_cores", peak["value"]))
    return _figure_columns(frame.assign(**shown, t_s=frame["t_us"] / 1e6))


def _figure_columns(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[["treatment_id", "run_id", "t_s", "instance", "metric", "value"]].reset_index(drop=True)
