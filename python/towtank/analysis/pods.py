"""Pods and nodes of a run: how many there were when, and how long new ones took, from the source `kubernetes`."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.model import Quantity
from towtank.store.run_record import Window

SOURCE = "kubernetes"
COUNTS = {
    "replicas_ready": "pods_ready",
    "replicas_desired": "pods_desired",
    "replicas_pending": "pods_pending",
    "nodes_ready": "nodes_ready",
}
"""Metric of the whole deployment → what it is called here."""
VARIABLES = ("pods_ready", "pods_most", "pods_pending", "nodes_ready", "pod_start", "scale_up")
PHASES = (
    ("created", "scheduled"),
    ("scheduled", "pulled"),
    ("pulled", "started"),
    ("started", "ready"),
    ("created", "ready"),
)
FIGURE_COLUMNS = ("treatment_id", "run_id", "t_s", "metric", "value")
START_COLUMNS = ("treatment_id", "under_load", "phase", "n", "p50_s", "p90_s", "p99_s", "max_s")
_STEP = "pod_"
NOT_OBSERVED = Quantity(None, reason="pods were not observed: add `kubernetes` to `observe`")


@dataclass(frozen=True, eq=False)
class Pods:
    """What is known of the pods of a run.

    Parameters
    ----------
    counts : DataFrame
        t_us, metric, value: of the whole deployment.
    lives : mapping
        Pod → step → when it was first made, µs of the run clock.
    workloads : mapping
        Pod → what brought it.
    """

    counts: pd.DataFrame
    lives: dict[str, dict[str, int]]
    workloads: dict[str, str]

    @property
    def observed(self) -> bool:
        """Whether there is anything."""
        return not self.counts.empty or bool(self.lives)


def read_pods(samples: pa.Table, events: pa.Table) -> Pods:
    """Read what the source `kubernetes` left in a run's telemetry."""
    lives: dict[str, dict[str, int]] = {}
    workloads: dict[str, str] = {}
    for row in _of_source(events).to_pylist():
        if not row["kind"].startswith(_STEP):
            continue
        lives.setdefault(row["instance"], {}).setdefault(row["kind"].removeprefix(_STEP), int(row["t_us"]))
        workload = json.loads(row["detail"] or "{}").get("workload")
        if workload:
            workloads[row["instance"]] = workload
    rows = _of_source(samples)
    rows = rows.filter(
        pc.and_(
            pc.equal(rows["instance"].cast(pa.string()), ""),
            pc.is_in(rows["metric"].cast(pa.string()), value_set=pa.array(list(COUNTS))),
        )
    )
    counts = pd.DataFrame(
        {
            "t_us": rows["t_us"].to_numpy(),
            "metric": [COUNTS[name] for name in rows["metric"].cast(pa.string()).to_pylist()],
            "value": rows["value"].to_numpy(),
        }
    )
    return Pods(counts, lives, workloads)


def _of_source(table: pa.Table) -> pa.Table:
    return table.filter(pc.equal(table["source"].cast(pa.string()), SOURCE))


def pod_values(pods: Pods, window: Window, rises_us: Sequence[int]) -> dict[str, Quantity]:
    """Every response variable about pods and nodes.

    Parameters
    ----------
    pods : Pods
    window : Window
        The measured one.
    rises_us : sequence of int
        When the intended load rises, ascending.
    """
    if not pods.observed:
        return dict.fromkeys(VARIABLES, NOT_OBSERVED)
    found = {name: _mean(pods, name, window) for name in ("pods_ready", "pods_pending", "nodes_ready")}
    inside = pods.counts[
        (pods.counts["metric"] == "pods_ready") & pods.counts["t_us"].between(window.start_us, window.end_us)
    ]
    found["pods_most"] = (
        Quantity(None, reason="pods were not counted in the measured window")
        if inside.empty
        else Quantity(float(inside["value"].max()))
    )
    starts = _durations(pods, "created", "ready", under_load=True)
    found["pod_start"] = (
        Quantity(float(np.median(starts)) * MICROSECOND_S)
        if starts
        else Quantity(None, reason="no pod was created and became ready under load")
    )
    found["scale_up"] = _scale_up(pods, rises_us)
    return found


def _mean(pods: Pods, metric: str, window: Window) -> Quantity:
    """Mean over the time in which it is known: a count holds until the next one."""
    mine = pods.counts[pods.counts["metric"] == metric].sort_values("t_us")
    t = mine["t_us"].to_numpy(dtype=np.int64)
    begin = np.clip(t[:-1], window.start_us, window.end_us)
    end = np.clip(t[1:], window.start_us, window.end_us)
    covered = int((end - begin).sum())
    if covered <= 0:
        return Quantity(None, reason=f"{metric.replace('_', ' ')} was not counted in the measured window")
    return Quantity(float(np.dot(mine["value"].to_numpy(dtype=float)[:-1], end - begin)) / covered)


def _scale_up(pods: Pods, rises_us: Sequence[int]) -> Quantity:
    """Mean time from a rise of the load to the first pod that was created after it and became ready.

    A pod belongs to the last rise before it was created.
    """
    if not rises_us:
        return Quantity(None, reason="it is not known when the intended load rises")
    first: dict[int, int] = {}
    for steps in pods.lives.values():
        if "created" not in steps or "ready" not in steps:
            continue
        rise = bisect_left(rises_us, steps["created"]) - 1
        if rise >= 0:
            took = steps["ready"] - rises_us[rise]
            first[rise] = min(took, first.get(rise, took))
    if not first:
        return Quantity(None, reason="no rise of the load brought a new pod")
    return Quantity(sum(first.values()) / len(first) * MICROSECOND_S)


def _durations(pods: Pods, begin: str, end: str, *, under_load: bool) -> list[int]:
    """Times between two steps of pods that were created under load, or before, µs."""
    return [
        max(0, steps[end] - steps[begin])  # messages of two watches may come in another order
        for steps in pods.lives.values()
        if begin in steps and end in steps and "created" in steps and (steps["created"] >= 0) == under_load
    ]


def pod_starts(treatment_id: str, runs: Iterable[Pods]) -> pd.DataFrame:
    """How long each phase of a pod's start took, over the pods of all runs: `START_COLUMNS`."""
    known = list(runs)
    rows = []
    for under_load in (False, True):
        for begin, end in PHASES:
            took = [us for pods in known for us in _durations(pods, begin, end, under_load=under_load)]
            if not took:
                continue
            p50, p90, p99 = np.percentile(np.array(took) * MICROSECOND_S, (50, 90, 99))
            rows.append(
                (
                    treatment_id, under_load, f"{begin} → {end}", len(took), p50, p90, p99, max(took) * MICROSECOND_S,
                )
            )  # fmt: skip
    return pd.DataFrame(rows, columns=list(START_COLUMNS))


def for_figures(pods: Pods, *, treatment_id: str, run_id: str) -> pd.DataFrame:
    """Counts over time of one run: `FIGURE_COLUMNS`."""
    frame = pods.counts.assign(
        treatment_id=treatment_id, run_id=run_id, t_s=pods.counts["t_us"] * MICROSECOND_S
    )
    return frame[list(FIGURE_COLUMNS)]
