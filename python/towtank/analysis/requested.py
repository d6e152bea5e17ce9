"""Whether pods request what they use: a cluster autoscaler adds nodes by requests alone, however busy nodes are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.engine_findings import runs_in_words
from towtank.analysis.model import Finding
from towtank.analysis.resources import NODE_PREFIX
from towtank.store.run_record import Window
from towtank.units import format_number, format_ratio

SOURCE = "kubernetes"
REQUESTED, OFFERED, UNSCHEDULED = "cpu_requested_cores", "cpu_allocatable_cores", "replicas_unscheduled"
USED_TIMES = 1.5
"""Pods that use so many times what they request use clearly more; a little more is what requests are for."""
LEAST_CORES = 0.1
"""What uses less than this crowds nobody out, whatever it requests."""
BUSY_RATIO = 0.8
"""A node that uses this share of what it offers to pods would be called full by whoever looks at it."""


@dataclass(frozen=True)
class Requested:
    """What pods of a run requested, and what there was for them.

    Parameters
    ----------
    cores : mapping
        Workload → CPU that its pods on nodes requested together, mean over the readings in the window.
    offered_cores : mapping
        Node (``node/NAME``) → CPU that it offers to pods.
    unscheduled : float, optional
        Most pods at once that no node had taken; None where it was not counted.
    """

    cores: Mapping[str, float] = field(default_factory=dict)
    offered_cores: Mapping[str, float] = field(default_factory=dict)
    unscheduled: float | None = None


@dataclass(frozen=True)
class Crowded:
    """Pods of a run that used more than they request, on a node that was busy.

    Parameters
    ----------
    run_id, treatment : str
        `treatment` is its label.
    workload : str
    used, requested : float
        Cores.
    node : str
        The busiest one.
    busy_ratio : float
        Share that was used of what it offers.
    """

    run_id: str
    treatment: str
    workload: str
    used: float
    requested: float
    node: str
    busy_ratio: float


def read_requested(samples: pa.Table, window: Window | None) -> Requested:
    """Read it from what the source `kubernetes` left; nothing without a measured window."""
    if window is None:
        return Requested()
    wanted = pc.and_(
        pc.equal(samples["source"].cast(pa.string()), SOURCE),
        pc.is_in(samples["metric"].cast(pa.string()), value_set=pa.array([REQUESTED, OFFERED, UNSCHEDULED])),
    )
    rows = samples.filter(wanted)
    frame = pd.DataFrame(
        {
            "t_us": rows["t_us"].to_numpy(),
            "instance": np.array(rows["instance"].cast(pa.string()).to_pylist(), dtype=object),
            "metric": np.array(rows["metric"].cast(pa.string()).to_pylist(), dtype=object),
            "value": rows["value"].to_numpy(),
        }
    )
    inside = frame[frame["t_us"].between(window.start_us, window.end_us)]
    of_workloads = inside[(inside["metric"] == REQUESTED) & (inside["instance"] != "")]
    offered = frame[frame["metric"] == OFFERED]  # said once of each node, often before the load
    waiting = inside[(inside["metric"] == UNSCHEDULED) & (inside["instance"] == "")]
    return Requested(
        {str(name): float(value) for name, value in of_workloads.groupby("instance")["value"].mean().items()},
        {str(name): float(value) for name, value in offered.groupby("instance")["value"].last().items()},
        None if waiting.empty else float(waiting["value"].max()),
    )


def crowded(requested: Requested, usage: pd.DataFrame, *, run_id: str, treatment: str) -> Iterator[Crowded]:
    """Workloads that used clearly more CPU than they request, where a node was busy and no pod waited for one.

    Parameters
    ----------
    requested : Requested
    usage : DataFrame
        As `usage.run_usage` has it: means over the measured window, by workload and node.
    run_id, treatment : str
    """
    if requested.unscheduled != 0 or usage.empty:
        return  # it is not known, or a pod waited: then an autoscaler adds nodes
    used = {str(name): float(cores) for name, cores in zip(usage["name"], usage["cpu_cores"], strict=True)}
    busy = {
        name.removeprefix(NODE_PREFIX): used[name] / cores
        for name, cores in requested.offered_cores.items()
        if cores > 0 and used.get(name, 0.0) / cores >= BUSY_RATIO
    }
    if not busy:
        return
    node = max(busy, key=lambda name: busy[name])
    for workload, cores in requested.cores.items():
        mine = used.get(workload, 0.0)
        if mine >= max(LEAST_CORES, USED_TIMES * cores):
            yield Crowded(run_id, treatment, workload, mine, cores, node, busy[node])


def request_findings(found: Iterable[Crowded]) -> Iterator[Finding]:
    """One finding for each workload of a treatment, with the run in which it used most."""
    grouped: dict[tuple[str, str], list[Crowded]] = defaultdict(list)
    for one in found:
        grouped[one.treatment, one.workload].append(one)
    for (treatment, workload), cases in grouped.items():
        worst = max(cases, key=lambda one: one.used)
        yield Finding(
            "requests_below_use",
            "warning",
            f"{treatment}: {workload} used {format_number(worst.used)} cores and requests "
            f"{format_number(worst.requested)}, while node {worst.node} was at {format_ratio(worst.busy_ratio)} of its "
            f"CPU and no pod waited for a node ({runs_in_words(len(cases))}). A cluster autoscaler goes by requests: "
            "it adds no nodes for this.",
            "Request what pods use (resources.requests.cpu): pods that do not fit any more then wait, and nodes come. "
            "An autoscaler of pods reckons its percentages from requests, too.",
            tuple(one.run_id for one in cases),
        )
