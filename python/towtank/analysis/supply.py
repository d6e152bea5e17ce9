"""Supply: how many instances of a run took requests when, in a cluster and on this machine."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from towtank.analysis.counted import held_us
from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.pods import NOT_OBSERVED, Pods
from towtank.analysis.step_function import StepFunction
from towtank.store.run_record import RunRecord

LOCAL = "local"
ENDS = frozenset({"exited", "crashed", "oom_killed"})
OUT = frozenset({"kill", "stop"})
"""Faults that leave an instance unable to answer until they are undone."""
_TOTAL = "pods_ready"


@dataclass(frozen=True, eq=False)
class Supply:
    """Ready instances over time.

    Parameters
    ----------
    steps : StepFunction or None
        nan over a gap of the observation.
    reason : str
        Why there is none.
    """

    steps: StepFunction | None
    reason: str = ""


def supply_of(record: RunRecord, pods: Pods, events: pa.Table, *, scaled: str | None = None) -> Supply:
    """Count what was ready until the end of a run's measured window.

    Parameters
    ----------
    record : RunRecord
        With its window.
    pods : Pods
        What the source `kubernetes` counted.
    events : pa.Table
    scaled : str, optional
        Workload (``Deployment/shop``) or component whose instances count; without it, those of all.
    """
    window = record.window
    until_s = window.end_us * MICROSECOND_S if window is not None else 0.0
    if pods.observed:
        held_s = 0.0 if window is None else held_us(record, window) * MICROSECOND_S
        return of_pods(pods, until_s, held_s=held_s, scaled=scaled)
    if record.deployment.get("platform") == LOCAL and not record.deployment.get("scaling"):
        return of_processes(record, events, until_s, scaled=scaled)
    return Supply(None, NOT_OBSERVED.reason)


def of_pods(pods: Pods, until_s: float, *, held_s: float = 0.0, scaled: str | None = None) -> Supply:
    """Ready pods from the first count for as long as the last one holds, or to the end of the gap after it."""
    known = sorted(set(pods.ready_of["workload"])) if not pods.ready_of.empty else []
    if scaled is None and len(known) > 1:
        return Supply(None, _several("workloads", known))
    if scaled is not None and scaled not in known:
        return Supply(None, _unknown("workload", scaled, known))
    counted = (
        pods.counts[pods.counts["metric"] == _TOTAL]
        if scaled is None
        else pods.ready_of[pods.ready_of["workload"] == scaled]
    )
    mine = counted.sort_values("t_us").drop_duplicates("t_us", keep="last")
    times = mine["t_us"].to_numpy(dtype=float) * MICROSECOND_S
    if pods.gaps_unlisted or times.size < 2:
        return Supply(None, "pods were not counted all the time")
    # what was missed at the end is a gap, too: without it, half a window would stand for the whole
    missed_s = [to_us * MICROSECOND_S for _, to_us in pods.gaps_us]
    end_s = min(max(float(times[-1]) + held_s, *missed_s, 0.0), until_s)
    steps = dict(zip(times.tolist(), mine["value"].tolist(), strict=True))
    for gap_from, gap_to in pods.gaps_us:
        began, over = gap_from * MICROSECOND_S, gap_to * MICROSECOND_S
        steps = {at: float("nan") if began <= at < over else value for at, value in steps.items()}
        earlier = max((at for at in steps if at <= began), default=None)
        if earlier is not None:
            steps[earlier] = float("nan")  # what holds until the next count, holds into the gap
    if not any(at < end_s for at in steps):
        return Supply(None, "pods were counted after the measured window only")
    return Supply(StepFunction.of(steps, end_s))


def of_processes(record: RunRecord, events: pa.Table, until_s: float, *, scaled: str | None = None) -> Supply:
    """Local instances that run: all from the start on, without those that ended, were killed or stopped.

    One that is started again counts from then on: whether it answers already is not known.
    """
    component = {
        str(one["name"]): str(one.get("component", "")) for one in record.deployment.get("instances", ())
    }
    known = sorted(set(component.values()))
    if scaled is None and len(known) > 1:
        return Supply(None, _several("components", known))
    if scaled is not None and scaled not in known:
        return Supply(None, _unknown("component", scaled, known))
    mine = {name for name, of in component.items() if scaled in (None, of)}
    if not mine:
        return Supply(None, "no instance was running")
    away = _away(record, events)
    start_s = min(0.0, record.window.start_us * MICROSECOND_S if record.window is not None else 0.0)
    moments = sorted({start_s, *(at for name in mine for part in away.get(name, ()) for at in part)})
    steps = {
        max(at, start_s): float(sum(not _is_away(away.get(name, ()), at) for name in mine))
        for at in moments
        if at >= start_s and np.isfinite(at)
    }
    return Supply(StepFunction.of(steps, until_s))


Stretches = list[tuple[float, float]]


def _away(record: RunRecord, events: pa.Table) -> Mapping[str, Stretches]:
    """Instance → when it could not answer, s; infinite where it did not come back."""
    found: dict[str, Stretches] = defaultdict(list)
    for fault in record.faults:
        if fault.kind in OUT and fault.began_us is not None:
            until = np.inf if fault.undone_us is None else fault.undone_us * MICROSECOND_S
            for name in fault.instances:
                found[name].append((fault.began_us * MICROSECOND_S, until))
    for row in events.to_pylist():
        # an instance that lost a process and went on has no pid in its event
        if row["source"] == LOCAL and row["kind"] in ENDS and "pid" in json.loads(row["detail"] or "{}"):
            found[row["instance"]].append((row["t_us"] * MICROSECOND_S, np.inf))
    return found


def _is_away(stretches: Stretches | tuple[()], at: float) -> bool:
    return any(begin <= at < end for begin, end in stretches)


def _several(kind: str, known: list[str]) -> str:
    return (
        f"the deployment has several {kind} ({', '.join(known)}); name the one whose instances count under "
        "`demand.scaled`"
    )


def _unknown(kind: str, scaled: str, known: list[str]) -> str:
    return f"there is no {kind} {scaled!r} (`demand.scaled`); there are {', '.join(known) or 'none'}"
