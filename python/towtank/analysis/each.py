"""CPU and memory of single pods and nodes over time: of one run of a treatment, those that used most."""

from __future__ import annotations

import numpy as np
import pandas as pd

COLUMNS = ("treatment_id", "run_id", "row", "instance", "t_s", "bin_s", "value", "of")
MOST = 20
"""Pods, or nodes, of which there is a line: more would be a carpet. Tables and `towtank sql` have the others."""
MOST_BINS = 120
LEAST_BIN_S = 1.0
_ROWS = {"cpu_cores": "cpu", "memory_bytes": "memory"}


def each(samples: pd.DataFrame, nodes: pd.DataFrame, *, treatment_id: str, run_id: str) -> pd.DataFrame:
    """Means in bins, of pods and of nodes.

    Parameters
    ----------
    samples, nodes : DataFrame
        As `resources.deployment_samples` and `resources.node_samples` read them.
    treatment_id, run_id : str

    Returns
    -------
    DataFrame
        `COLUMNS`: `row` is pod_cpu (cores), pod_memory (bytes), node_cpu or node_memory; `of` says how many pods or
        nodes there were, of which the `MOST` with the highest mean are kept.
    """
    parts = [
        _of_row(frame[(frame["metric"] == metric) & (frame["t_us"] >= 0)]).assign(row=f"{what}_{name}")
        for what, frame in (("pod", samples), ("node", nodes))
        for metric, name in _ROWS.items()
    ]
    found = pd.concat([part for part in parts if not part.empty] or parts[:1], ignore_index=True)
    return found.assign(treatment_id=treatment_id, run_id=run_id).reindex(columns=list(COLUMNS))


def _of_row(frame: pd.DataFrame) -> pd.DataFrame:
    if frame.empty:
        return pd.DataFrame()
    means = frame.groupby("instance")["value"].mean().sort_values(ascending=False, kind="stable")
    mine = frame[frame["instance"].isin(list(means.index[:MOST]))]
    bin_s = max(LEAST_BIN_S, float(mine["t_us"].max()) / 1e6 / MOST_BINS)
    binned = mine.assign(t_s=np.floor(mine["t_us"] / 1e6 / bin_s + 1e-9) * bin_s)
    found = binned.groupby(["instance", "t_s"], sort=True)["value"].mean().reset_index()
    return found.assign(bin_s=bin_s, of=len(means))
