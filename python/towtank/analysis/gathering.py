"""Reading the runs of an experiment one after the other, and keeping of each what its analysis needs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from towtank.analysis import each, hops, logs, observed, pods, resources, shifts, timeseries
from towtank.analysis.distribution import Distribution, merge
from towtank.analysis.engine_findings import EngineFinding, engine_findings
from towtank.analysis.model import Quantity, RunSummary
from towtank.analysis.own_values import own_values
from towtank.analysis.pods import Pods
from towtank.analysis.requested import Crowded, crowded
from towtank.analysis.selection import counting_attempts, wanted_variables
from towtank.analysis.shifts import Steadiness
from towtank.analysis.summaries import RunData, summarise_run
from towtank.analysis.tables import step_label
from towtank.design import load_shape
from towtank.design.journey_shape import step_timeouts_s, trace_shares
from towtank.design.plan import Plan, Treatment
from towtank.store import Results
from towtank.store.run_record import RunRecord


@dataclass
class Gathered:
    """What is kept of the runs while they are read one after the other.

    `counting` holds the runs that enter numbers: per treatment, one valid attempt of each planned run; `counted` their
    records.
    """

    records: list[RunRecord]
    counted: list[RunRecord]
    summaries: list[RunSummary]
    counting: dict[str, list[RunSummary]]
    timeouts_s: dict[str, float]
    pooled: dict[str, Distribution]
    steps: dict[tuple[str, str], list[dict[str, Quantity]]]
    timeseries: list[pd.DataFrame]
    resources: list[pd.DataFrame]
    observed: list[pd.DataFrame]
    said: dict[str, tuple[EngineFinding, ...]]
    replicas: list[pd.DataFrame] = field(default_factory=list)
    pods: dict[str, list[Pods]] = field(default_factory=lambda: defaultdict(list))
    usage: dict[str, list[pd.DataFrame]] = field(default_factory=lambda: defaultdict(list))
    hops: dict[str, list[hops.RunHops]] = field(default_factory=lambda: defaultdict(list))
    steadiness: list[Steadiness] = field(default_factory=list)
    crowded: list[Crowded] = field(default_factory=list)
    each: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Of the first run of a treatment in which there is more than the deployment as a whole."""
    bursts: list[dict[str, Any]] = field(default_factory=list)


def gather(results: Results, plan: Plan) -> Gathered:
    """Read all runs, one after the other; their tables are let go of."""
    folders = results.runs("all")
    records = [folder.record for folder in folders]
    chosen = counting_attempts(records)
    wanted = wanted_variables(plan)
    step_limits = {t.id: _step_limits(t) for t in plan.treatments}
    rises = {t.id: _rises_s(t) for t in plan.treatments}
    stretches = {t.id: shifts.constant_stretches(t) for t in plan.treatments}
    shares = {t.id: trace_shares(t.spec.driven, t.spec.generator.traceparent) for t in plan.treatments}
    counted = [record for record in records if record.run_id in chosen]
    gathered = Gathered(records, counted, [], defaultdict(list), {}, {}, defaultdict(list), [], [], [], {})
    for folder in folders:
        limits = step_limits.get(folder.record.treatment_id)
        rises_s = rises.get(folder.record.treatment_id, ())
        own = own_values(results, folder, plan)
        run = summarise_run(folder, wanted=wanted, step_limits_s=limits, rises_s=rises_s, own=own)
        gathered.summaries.append(run.summary)
        events = folder.events()
        gathered.said[run.record.run_id] = engine_findings(events)
        if run.record.run_id in chosen:
            _take(gathered, run)
            treatment_id, run_id = run.record.treatment_id, run.record.run_id
            gathered.bursts += logs.bursts(events, treatment_id=treatment_id, run_id=run_id)
            steady = shifts.of_run(
                run.record,
                gathered.timeseries[-1],
                events,
                stretches.get(treatment_id, ()),
            )
            gathered.steadiness += [] if steady is None else [steady]
            gathered.observed.append(observed.of_run(folder))
            traced = hops.of_run(folder, shares.get(treatment_id, {}))
            if traced is not None:
                gathered.hops[treatment_id].append(traced)
    return gathered


def _step_limits(treatment: Treatment) -> dict[str, float]:
    """Step → its timeout; where several workloads are driven, steps bear their names."""
    workloads = treatment.spec.workloads
    several = len(workloads) > 1
    return {
        step_label(name, step) if several else step: limit
        for name, workload in workloads.items()
        for step, limit in step_timeouts_s(workload).items()
    }


def _rises_s(treatment: Treatment) -> tuple[float, ...]:
    """When the load of any workload rises."""
    workloads = treatment.spec.workloads.values()
    return tuple(sorted({rise_s for workload in workloads for rise_s in load_shape.rises_s(workload.load)}))


def _take(gathered: Gathered, run: RunData) -> None:
    """Keep what is needed of a run that counts; its tables are let go of."""
    treatment = run.record.treatment_id
    gathered.counting[treatment].append(run.summary)
    gathered.timeouts_s[treatment] = run.record.timeout_us / 1e6
    known = gathered.pooled.get(treatment)
    gathered.pooled[treatment] = run.latency if known is None else merge((known, run.latency))
    for step, quantities in run.steps:
        gathered.steps[treatment, step].append(quantities)
    gathered.timeseries.append(timeseries.run_timeseries(run))
    gathered.resources.append(
        resources.for_figures(
            run.samples, treatment_id=treatment, run_id=run.record.run_id, bin_us=run.record.bin_us
        )
    )
    gathered.replicas.append(pods.for_figures(run.pods, treatment_id=treatment, run_id=run.record.run_id))
    gathered.pods[treatment].append(run.pods)
    gathered.usage[treatment].append(run.usage)
    if treatment not in gathered.each and not run.usage.empty:
        gathered.each[treatment] = each.each(
            run.samples, run.nodes, treatment_id=treatment, run_id=run.record.run_id
        )
    gathered.crowded += crowded(
        run.requested, run.usage, run_id=run.record.run_id, treatment=run.record.treatment_label
    )
