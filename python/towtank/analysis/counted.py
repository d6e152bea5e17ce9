"""Counts of nodes and pods over a run, and beyond its end: the run that came next saw how they went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from towtank.analysis.paid import NODES, Paid, Series
from towtank.analysis.pods import COUNTING
from towtank.store.run_record import RunRecord, Window

HELD_INTERVALS = 1.5
"""How long a count holds without another, in intervals of the source; later would be a gap (telemetry.reading)."""
NOTHING = Series()


@dataclass(frozen=True)
class NextRun:
    """The run that came next on the same cluster.

    Parameters
    ----------
    run_id : str
    later_us : int
        How much later its clock begins.
    same_deployment : bool
        It drove the very deployment of the run before: pods are the same.
    """

    run_id: str
    later_us: int
    same_deployment: bool


def next_runs(records: Iterable[RunRecord]) -> dict[str, NextRun]:
    """For each run the one that came next on its cluster; nothing for the last, and where no cluster is known.

    Times of two runs can be told from each other as long as the machine was not booted between them.
    """
    lanes: dict[tuple[str, str], list[tuple[int, RunRecord]]] = defaultdict(list)
    for record in records:
        cluster = _cluster(record)
        if record.clock is not None and cluster:
            lanes[record.clock.boot_id, cluster].append((record.clock.zero_monotonic_ns, record))
    found = {}
    for lane in lanes.values():
        lane.sort(key=lambda one: one[0])
        for (zero_ns, run), (later_ns, after) in pairwise(lane):
            same = run.run_id in after.deployment.get("runs_before", ())
            found[run.run_id] = NextRun(after.run_id, (later_ns - zero_ns) // 1000, same)
    return found


def _cluster(record: RunRecord) -> str:
    about: Mapping[str, Any] = record.deployment.get("cluster") or {}
    return str(about.get("id") or about.get("server") or "")


def continued(mine: Series, metric: str, after: Paid | None, later_us: int) -> Series:
    """Counts of a run until the next one begins.

    Parameters
    ----------
    mine : Series
    metric : str
        Of the source `kubernetes`.
    after : Paid or None
        Of the next run, if it counted the same.
    later_us : int
        How much later its clock begins.

    Returns
    -------
    Series
        Between the two runs nothing is known but nodes that were seen to come and go. Where those do not explain the
        first count of the next run, the counts end with the run.
    """
    later = (after.counts.get(metric) if after is not None else None) or NOTHING
    before = later.t_us < 0
    if after is None or not len(mine.t_us) or not before.any():
        return mine
    t_us, values = later.t_us[before] + later_us, later.values[before]
    steps = after.node_steps if metric == NODES else NOTHING
    between = (steps.t_us + later_us > mine.t_us[-1]) & (steps.t_us + later_us <= t_us[0])
    step_us, step_counts = (
        steps.t_us[between] + later_us,
        mine.values[-1] + np.cumsum(steps.values[between]),
    )
    last = step_counts[-1] if len(step_counts) else mine.values[-1]
    if t_us[0] <= mine.t_us[-1] or last != values[0]:
        return mine
    return Series(
        np.concatenate([mine.t_us, step_us, t_us, [later_us]]).astype(np.int64),
        np.concatenate([mine.values, step_counts, values, values[-1:]]),
    )


def held_us(record: RunRecord, window: Window) -> int:
    """How long the last count of a run holds: until the next was due, and until the end of a window that ended early.

    Where the last request ended before the window did, nobody counted until its end. A run that does not say how often
    it was counted adds nothing.
    """
    early_us = window.end_us - window.drained_us if 0 < window.drained_us < window.end_us else 0
    for one in record.telemetry.get("sources", ()):
        if one.get("source") in COUNTING:
            return early_us + round(HELD_INTERVALS * 1e6 * float(one.get("interval_s") or 0.0))
    return early_us
