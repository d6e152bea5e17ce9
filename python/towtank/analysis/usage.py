"""CPU and memory by workload, by node and by pod, where a deployment is in a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from towtank.analysis.resources import cpu_in_window, memory_in_window
from towtank.store.run_record import Window

COLUMNS = (
    "name", "cpu_cores", "memory_bytes", "pods", "pod_cpu_median", "pod_cpu_most", "pod_memory_median",
    "pod_memory_most",
)  # fmt: skip
USAGE_COLUMNS = ("treatment_id", "runs", *COLUMNS)
_UNKNOWN = "pods"
"""Where nobody said what brought them."""


def run_usage(
    samples: pd.DataFrame, nodes: pd.DataFrame, workloads: Mapping[str, str], window: Window
) -> pd.DataFrame:
    """Usage in the measured window of one run: `COLUMNS`, a row for each workload and node.

    Parameters
    ----------
    samples, nodes : DataFrame
        As `resources` reads them.
    workloads : mapping
        Pod → what brought it.
    window : Window
    """
    rows = []
    if not samples.empty:
        brought = samples["instance"].map(lambda pod: workloads.get(str(pod), _UNKNOWN))
        rows = [
            (str(name), *_both(mine, window), *_per_pod(mine, window))
            for name, mine in samples.groupby(brought, sort=True)
        ]
    rows += [
        (str(name), *_both(mine, window), np.nan, np.nan, np.nan, np.nan, np.nan)
        for name, mine in nodes.groupby("instance", sort=True)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _both(frame: pd.DataFrame, window: Window) -> tuple[float, float]:
    """Mean CPU and highest memory; nan where it is not known."""
    cpu = cpu_in_window(frame, start_us=window.start_us, end_us=window.end_us).value
    memory = memory_in_window(frame, start_us=window.start_us, end_us=window.end_us).value
    return (np.nan if cpu is None else cpu), (np.nan if memory is None else memory)


def _per_pod(frame: pd.DataFrame, window: Window) -> tuple[float, float, float, float, float]:
    each = np.array(list(_each(frame, window)), dtype=float)
    seen = each[~np.isnan(each).all(axis=1)] if each.size else each
    if not seen.size:
        return 0.0, np.nan, np.nan, np.nan, np.nan
    cpu, memory = (column[~np.isnan(column)] for column in seen.T)
    found = [float(len(seen))]
    for values in (cpu, memory):
        found += [float(np.median(values)), float(values.max())] if values.size else [np.nan, np.nan]
    pods, cpu_median, cpu_most, memory_median, memory_most = found
    return pods, cpu_median, cpu_most, memory_median, memory_most


def _each(frame: pd.DataFrame, window: Window) -> Iterator[tuple[float, float]]:
    for _, mine in frame.groupby("instance", sort=False):
        yield _both(mine, window)


def mean_usage(treatment_id: str, runs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Mean over the runs in which a workload or node was seen: `USAGE_COLUMNS`."""
    seen = [run for run in runs if not run.empty]
    if not seen:
        return pd.DataFrame(columns=list(USAGE_COLUMNS))
    grouped = pd.concat(seen, ignore_index=True).groupby("name", sort=False)
    found = grouped.mean().assign(runs=grouped.size(), treatment_id=treatment_id).reset_index()
    return found[list(USAGE_COLUMNS)]
