"""Pods and nodes of a run: how many there were when, and how long new ones took, from the source `kubernetes`."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.model import Quantity
from towtank.store.run_record import Window

SOURCE = "kubernetes"
SCALING = "scaling"
"""Counts instances of local deployments that are scaled, in the same words."""
COUNTING = (SOURCE, SCALING)
AGENT = "agent"
"""Knows when containers started, and nothing else of pods."""
COUNTS = {
    "replicas_ready": "pods_ready",
    "replicas_desired": "pods_desired",
    "replicas_pending": "pods_pending",
    "nodes_ready": "nodes_ready",
    "nodes": "nodes",
}
"""Metric of the whole deployment → what it is called here."""
VARIABLES = (
    "pods_ready",
    "pods_most",
    "pods_pending",
    "nodes_ready",
    "node_seconds",
    "pod_start",
    "scale_up",
)
PHASES = (
    ("created", "scheduled"),
    ("scheduled", "pulled"),
    ("pulled", "started"),
    ("started", "ready"),
    ("created", "ready"),
)
READY_OF = ("t_us", "workload", "value")
FIGURE_COLUMNS = ("treatment_id", "run_id", "t_s", "metric", "value")
START_COLUMNS = ("treatment_id", "under_load", "phase", "n", "p50_s", "p90_s", "p99_s", "max_s")
CURVE_STEPS = ("scheduled", "pulled", "started", "ready")
CURVE_COLUMNS = ("treatment_id", "under_load", "step", "t_s", "share")
_STEP = "pod_"
_CONTAINER_STARTED = "pod_container_started"
_AGREE_S = 1.25
"""Messages and the cluster's own times may differ by this: they are in whole seconds, and a message takes a while."""
_STARTED_LATE_S = 1.0
"""Kubelets look once a second whether containers run: of that a message comes later than its object's time."""
NOT_OBSERVED = Quantity(
    None,
    reason="pods were not observed: add `kubernetes` to `observe`, with local `scaling` the source `scaling`",
)


@dataclass(frozen=True, eq=False)
class Pods:
    """What is known of the pods of a run.

    Parameters
    ----------
    counts : DataFrame
        t_us, metric, value: of the whole deployment.
    lives : mapping
        Pod (its uid) → step → when it was first told, µs of the run clock.
    workloads : mapping
        Pod (its name) → what brought it.
    own_times : mapping
        Pod (its uid) → step → when it was made by the cluster's clock, s; where it is said.
    gaps_us : sequence of (int, int)
        Times in which nothing was counted.
    gaps_unlisted : bool
        There were more.
    ready_of : DataFrame
        t_us, workload, value: pods that take requests, of each workload.
    named : mapping
        Pod (its name) → its uid, or its name where none is told; the last one of that name.
    told_by : mapping
        Pod (its uid) → the source that told its life.
    started_within_us : mapping
        Pod (its uid) → how exactly an agent knows when its first container started.
    """

    counts: pd.DataFrame
    lives: dict[str, dict[str, int]]
    workloads: dict[str, str]
    own_times: dict[str, dict[str, float]] = field(default_factory=dict)
    gaps_us: Sequence[tuple[int, int]] = ()
    gaps_unlisted: bool = False
    ready_of: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(READY_OF)))
    named: dict[str, str] = field(default_factory=dict)
    told_by: dict[str, str] = field(default_factory=dict)
    started_within_us: dict[str, int] = field(default_factory=dict)

    @property
    def observed(self) -> bool:
        """Whether there is anything."""
        return not self.counts.empty or bool(self.lives)


def read_pods(samples: pa.Table, events: pa.Table, telemetry: Mapping[str, Any] | None = None) -> Pods:
    """Read what the source `kubernetes`, or `scaling`, left in a run's telemetry.

    Parameters
    ----------
    samples, events : pa.Table
    telemetry : mapping, optional
        What the run's record says of its sources.
    """
    lives: dict[str, dict[str, int]] = {}
    own_times: dict[str, dict[str, float]] = {}
    workloads: dict[str, str] = {}
    named: dict[str, str] = {}
    told_by: dict[str, str] = {}
    for row in _of_source(events).to_pylist():
        if not row["kind"].startswith(_STEP):
            continue
        detail, step = json.loads(row["detail"] or "{}"), row["kind"].removeprefix(_STEP)
        pod = detail.get("uid") or row["instance"]
        if row["instance"] and step not in lives.setdefault(pod, {}):
            lives[pod][step] = int(row["t_us"])
            named[row["instance"]], told_by[pod] = pod, row["source"]
            own = _instant_s(detail.get("object_time", ""))
            if own is not None:
                own_times.setdefault(pod, {})[step] = own
        if detail.get("workload"):
            workloads[row["instance"]] = detail["workload"]
    within_us = _note_container_starts(lives, events)
    counted = _of_source(samples)
    rows = counted.filter(
        pc.and_(
            pc.equal(counted["instance"].cast(pa.string()), ""),
            pc.is_in(counted["metric"].cast(pa.string()), value_set=pa.array(list(COUNTS))),
        )
    )
    counts = pd.DataFrame(
        {
            "t_us": rows["t_us"].to_numpy(),
            "metric": [COUNTS[name] for name in rows["metric"].cast(pa.string()).to_pylist()],
            "value": rows["value"].to_numpy(),
        }
    )
    known = telemetry or {}
    gaps = known.get("gaps", ())
    return Pods(
        counts,
        lives,
        workloads,
        own_times,
        [(gap["from_us"], gap["to_us"]) for gap in gaps if gap["source"] in COUNTING],
        known.get("gap_count", 0) > len(gaps),
        _ready_of(counted),
        named,
        told_by,
        within_us,
    )


def _ready_of(counted: pa.Table) -> pd.DataFrame:
    """Ready pods of each workload: `READY_OF`."""
    named = pc.not_equal(counted["instance"].cast(pa.string()), "")
    mine = counted.filter(pc.and_(named, pc.equal(counted["metric"].cast(pa.string()), "replicas_ready")))
    columns = (mine["t_us"], mine["instance"].cast(pa.string()), mine["value"])
    return pd.DataFrame({name: column.to_pandas() for name, column in zip(READY_OF, columns, strict=True)})


def _note_container_starts(lives: dict[str, dict[str, int]], events: pa.Table) -> dict[str, int]:
    """Where an agent saw a pod's first container start, that instant counts: the message of it comes later.

    Returns how exactly these instants are known, µs.
    """
    within_us: dict[str, int] = {}
    for row in _of_source(events, (AGENT,)).to_pylist():
        detail = json.loads(row["detail"] or "{}") if row["kind"] == _CONTAINER_STARTED else {}
        life = lives.get(detail.get("uid", ""), {})
        if "started" in life and not detail.get("init"):
            life["started"] = min(life["started"], int(row["t_us"]))
            within_us[detail["uid"]] = int(detail.get("uncertainty_us", 0))
    return within_us


def _instant_s(text: str) -> float | None:
    """An object's own time; None where there is none that can be read."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _of_source(table: pa.Table, sources: tuple[str, ...] = COUNTING) -> pa.Table:
    return table.filter(pc.is_in(table["source"].cast(pa.string()), pa.array(sources)))


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
    found["node_seconds"] = _node_seconds(pods, window)
    found["pod_start"] = _pod_start(pods)
    found["scale_up"] = _scale_up(pods, rises_us)
    return found


def _mean(pods: Pods, metric: str, window: Window) -> Quantity:
    """Mean over the time in which it is known: a count holds until the next one, and not over a gap."""
    if pods.gaps_unlisted:
        return Quantity(None, reason="there are more gaps in the observation than run.json lists")
    mine = pods.counts[pods.counts["metric"] == metric].sort_values("t_us")
    t = mine["t_us"].to_numpy(dtype=np.int64)
    begin = np.clip(t[:-1], window.start_us, window.end_us)
    end = np.clip(t[1:], window.start_us, window.end_us)
    for gap_from, gap_to in pods.gaps_us:
        end = np.where((t[:-1] < gap_to) & (t[1:] > gap_from), begin, end)
    covered = int((end - begin).sum())
    if covered <= 0:
        return Quantity(None, reason=f"{metric.replace('_', ' ')} was not counted in the measured window")
    return Quantity(float(np.dot(mine["value"].to_numpy(dtype=float)[:-1], end - begin)) / covered)


def _node_seconds(pods: Pods, window: Window) -> Quantity:
    """Nodes × time over the window; where nothing was counted, the mean of the rest stands for it."""
    mean = _mean(pods, "nodes", window)
    if mean.value is None:
        return mean
    return Quantity(mean.value * (window.end_us - window.start_us) * MICROSECOND_S)


def _pod_start(pods: Pods) -> Quantity:
    """Median time that pods which were created under load took to become ready."""
    unsure = [pod for pod in _born(pods, under_load=True) if _is_unsure(pods, pod)]
    if unsure:
        return _not_known(pods, unsure)
    starts = _durations(pods, "created", "ready", under_load=True)
    if not starts:
        return Quantity(None, reason="no pod was created and became ready under load")
    return Quantity(float(np.median(starts)) * MICROSECOND_S)


def _scale_up(pods: Pods, rises_us: Sequence[int]) -> Quantity:
    """Mean time from a rise of the load to the first pod that was created after it and became ready.

    A pod belongs to the last rise before it was created. One that takes the place of another is no new one: since the
    rise, more pods must have been wanted than at it.
    """
    if not rises_us:
        return Quantity(None, reason="it is not known when the intended load rises")
    first: dict[int, int] = {}
    unsure: list[str] = []
    for pod, steps in pods.lives.items():
        if "created" not in steps or "ready" not in steps:
            continue
        rise = bisect_left(rises_us, steps["created"]) - 1
        if rise >= 0 and _more_wanted(pods, rises_us[rise], steps["ready"]):
            unsure += [pod] if _is_unsure(pods, pod) else []
            took = steps["ready"] - rises_us[rise]
            first[rise] = min(took, first.get(rise, took))
    if unsure:
        return _not_known(pods, unsure)
    if not first:
        return Quantity(None, reason="no rise of the load brought a new pod")
    return Quantity(sum(first.values()) / len(first) * MICROSECOND_S)


def _more_wanted(pods: Pods, since_us: int, until_us: int) -> bool:
    """Whether more pods were wanted in a time than when it began; yes where that was not counted.

    Counting begins with the load, up to an interval after its first rise: then the first count stands for that moment.
    """
    wanted = pods.counts[pods.counts["metric"] == "pods_desired"].sort_values("t_us")
    before = wanted[wanted["t_us"] <= since_us]["value"]
    inside = wanted[wanted["t_us"].between(since_us, until_us, inclusive="right")]["value"]
    if inside.empty:
        return True
    at_first = inside.iloc[0] if before.empty else before.iloc[-1]
    return bool(inside.max() > at_first)


def _born(pods: Pods, *, under_load: bool) -> list[str]:
    """Pods that were created under load, or before."""
    return [
        pod for pod, steps in pods.lives.items()
        if "created" in steps and (steps["created"] >= 0) == under_load
    ]  # fmt: skip


def _durations(pods: Pods, begin: str, end: str, *, under_load: bool) -> list[int]:
    """Times between two steps of pods that were created under load, or before, µs; those that are sure."""
    # Messages of two watches may come in another order.
    return [
        max(0, pods.lives[pod][end] - pods.lives[pod][begin])
        for pod in _born(pods, under_load=under_load)
        if begin in pods.lives[pod] and end in pods.lives[pod] and not _is_unsure(pods, pod, begin, end)
    ]


def _is_unsure(pods: Pods, pod: str, begin: str = "created", end: str = "ready") -> bool:
    """Whether both steps were told, and not when they were made: a watch that broke off tells all at once later."""
    steps, own = pods.lives[pod], pods.own_times.get(pod, {})
    if begin not in steps or end not in steps:
        return False
    if begin == "created" and steps[begin] == steps[end]:
        return True  # one message of both: a pod that is seen when it is created has not made another step
    if begin not in own or end not in own:
        return False
    allowed_s = _AGREE_S + _STARTED_LATE_S * ("started" in (begin, end))
    return abs((steps[end] - steps[begin]) * MICROSECOND_S - (own[end] - own[begin])) > allowed_s


def _not_known(pods: Pods, unsure: Sequence[str]) -> Quantity:
    """No value, for pods of which the messages came late."""
    of = sum("ready" in pods.lives[pod] for pod in _born(pods, under_load=True))
    reason = (
        f"of {len(unsure)} of {of} pods that came under load it was not seen when they were created and became ready: "
        "what was told of them came at once, or disagrees with the cluster's own times by more than a second (was "
        "the API server away?)"
    )
    return Quantity(None, reason=reason)


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


def start_curves(treatment_id: str, runs: Iterable[Pods]) -> pd.DataFrame:
    """Share of pods that had made each step within a time since their creation: `CURVE_COLUMNS`.

    Pooled over the pods of all runs. A share is of all pods that were surely seen to be created and to make any of the
    steps, so a line that ends below 1 tells of pods that did not get there.
    """
    known = list(runs)
    parts = []
    for under_load in (False, True):
        took = {
            step: sorted(
                us for pods in known for us in _durations(pods, "created", step, under_load=under_load)
            )
            for step in CURVE_STEPS
        }
        most = max(map(len, took.values()))
        parts += [
            (treatment_id, under_load, step, us * MICROSECOND_S, number / most)
            for step, all_us in took.items()
            for number, us in enumerate(all_us, 1)
        ]
    return pd.DataFrame(parts, columns=list(CURVE_COLUMNS))


def for_figures(pods: Pods, *, treatment_id: str, run_id: str) -> pd.DataFrame:
    """Counts over time of one run: `FIGURE_COLUMNS`."""
    frame = pods.counts.assign(
        treatment_id=treatment_id, run_id=run_id, t_s=pods.counts["t_us"] * MICROSECOND_S
    )
    return frame[list(FIGURE_COLUMNS)]
