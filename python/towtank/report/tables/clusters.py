"""Deployments in a cluster: pods and nodes, how long pods took to start, who used CPU and memory."""

from __future__ import annotations

import math

from towtank.analysis.model import ExperimentAnalysis
from towtank.analysis.pods import VARIABLES
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import column, nothing, row_head
from towtank.report.text import clean
from towtank.report.values import count, estimate, known, show

MAX_USERS = 40
"""Workloads and nodes of a treatment that are listed."""


_MESSAGES = (
    " Instants are those at which the cluster's messages came; pulled means that the image was there, whether it had "
    "to be pulled or not. Left out is what came late, so that it disagrees with the cluster's own times."
)
"""Of processes on this machine, which nobody schedules, instants are known as they are."""


def pods(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """One row per treatment: how many pods and nodes, and how fast new ones came."""
    shown = [
        name
        for name in VARIABLES
        if any(name in t.estimates and t.estimates[name].mean is not None for t in analysis.treatments)
    ]
    if not shown:
        return None
    rows = tuple(
        (row_head(names, t.treatment_id), *(estimate(t.estimates.get(name)) for name in shown))
        for t in analysis.treatments
    )
    columns = (Column("Treatment"), *(column(name) for name in shown))
    return Table("pods", "Pods and nodes: mean over runs, its interval below", columns, rows)


def pod_starts(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """How long each phase of a pod's start took."""
    if analysis.pod_starts.empty:
        return None
    seconds = known("pod_start")
    rows = tuple(
        (
            row_head(names, str(row["treatment_id"])),
            Cell("under load" if row["under_load"] else "before the load"),
            Cell(clean(row["phase"])),
            Cell(count(int(row["n"])), sort=float(row["n"])),
            *(
                Cell(show(seconds, float(row[name])), sort=float(row[name]))
                for name in ("p50_s", "p90_s", "p99_s", "max_s")
            ),
        )
        for row in names.in_order(analysis.pod_starts).to_dict(orient="records")
    )
    columns = (
        Column("Treatment"),
        Column("Created"),
        Column("Phase"),
        Column("Pods", numeric=True),
        *(Column(title, numeric=True) for title in ("median", "p90", "p99", "slowest")),
    )
    told = _MESSAGES if analysis.pod_starts["phase"].str.contains("scheduled").any() else ""
    remark = f"Over the pods of all valid runs together: a description, no estimate.{told}"
    return Table("pod-starts", "How long pods took to start", columns, rows, remark, folded=True)


def usage(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """CPU and memory by workload and node, and how unlike their pods are."""
    if analysis.usage.empty:
        return None
    rows = tuple(
        (
            row_head(names, str(treatment_id)),
            Cell(clean(row["name"])),
            _cell("cpu_cores", row["cpu_cores"]),
            _cell("memory_bytes", row["memory_bytes"]),
            _cell("pods_ready", row["pods"]),
            _pair("cpu_cores", row["pod_cpu_median"], row["pod_cpu_most"]),
            _pair("memory_bytes", row["pod_memory_median"], row["pod_memory_most"]),
        )
        for treatment_id, mine in analysis.usage.groupby("treatment_id", sort=False)
        for row in mine.head(MAX_USERS).to_dict(orient="records")
    )
    columns = (
        Column("Treatment"),
        Column("Of"),
        Column("CPU", numeric=True, explanation="mean in the measured window, all its pods together"),
        Column("Memory", numeric=True, explanation="highest in the measured window, all its pods together"),
        Column("Pods", numeric=True, explanation="pods that were seen in the measured window"),
        Column("CPU of a pod", numeric=True, explanation="median pod; the one with most below"),
        Column("Memory of a pod", numeric=True, explanation="median pod; the one with most below"),
    )
    remark = "Mean over runs. A node is what everything on it used, whosever it was."
    return Table("usage", "CPU and memory by workload and node", columns, rows, remark, folded=True)


def _cell(name: str, value: float) -> Cell:
    if math.isnan(value):
        return nothing("not measured")
    return Cell(show(known(name), value), sort=value)


def _pair(name: str, median: float, most: float) -> Cell:
    if math.isnan(median):
        return nothing("not measured")
    return Cell(show(known(name), median), detail=f"most {show(known(name), most)}", sort=median)
