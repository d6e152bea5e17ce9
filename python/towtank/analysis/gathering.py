"""The runs of an experiment, one after the other: what was derived of each, put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from towtank.analysis import hops
from towtank.analysis.cold_starts import ColdStarts
from towtank.analysis.distribution import Distribution, Pool
from towtank.analysis.engine_findings import EngineFinding
from towtank.analysis.model import Finding, Quantity, RunSummary
from towtank.analysis.paid import Paid
from towtank.analysis.pods import Pods
from towtank.analysis.predicted_scaling import RunPredictions
from towtank.analysis.requested import Crowded
from towtank.analysis.run_cost import RunCost, run_costs
from towtank.analysis.run_facts import Asked, CountedFacts, RunFacts, asked_of, derive
from towtank.analysis.scaling import RunScaling
from towtank.analysis.selection import counting_attempts
from towtank.analysis.shifts import Steadiness
from towtank.analysis.steady_state import steady_findings, steady_state
from towtank.analysis.who_answered import RunAnswers
from towtank.design.plan import Plan
from towtank.store import Results
from towtank.store.derived import DerivedRuns
from towtank.store.run_folder import RunFolder
from towtank.store.run_record import RunRecord

_OF_NO_TREATMENT = Asked((), {}, {}, (), (), {}, None, None)


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
    pooled: Mapping[str, Distribution]
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
    scaling: list[RunScaling] = field(default_factory=list)
    steady: tuple[Finding, ...] = ()
    """What `answer.steady_state` left out."""
    costs: dict[str, list[RunCost]] = field(default_factory=lambda: defaultdict(list))
    """Treatment → what its runs that count cost; empty without prices."""
    heat: list[pd.DataFrame] = field(default_factory=list)
    cold: dict[str, list[ColdStarts]] = field(default_factory=lambda: defaultdict(list))
    predicted: list[RunPredictions] = field(default_factory=list)
    answers: list[RunAnswers] = field(default_factory=list)
    phases: dict[tuple[str, str], Pool] = field(default_factory=lambda: defaultdict(Pool))
    """Treatment and phase of requests → times of that phase."""


def gather(results: Results, plan: Plan, derived: DerivedRuns | None = None) -> Gathered:
    """Read all runs, one after the other; their tables are let go of.

    Parameters
    ----------
    results : Results
    plan : Plan
    derived : DerivedRuns, optional
        What an earlier analysis kept of runs: those are not read again, and what is read now is kept.
    """
    measured, steady = results.runs("all"), steady_state(results, plan, derived)
    folders = measured if steady is None else steady.applied(measured)
    records = [folder.record for folder in folders]
    chosen = counting_attempts(records)
    asked = asked_of(plan)
    counted = [record for record in records if record.run_id in chosen]
    gathered = Gathered(records, counted, [], defaultdict(list), {}, {}, defaultdict(list), [], [], [], {})
    labels = {treatment.id: treatment.label for treatment in plan.treatments}
    gathered.steady = tuple(steady_findings(steady, labels))
    pools: dict[str, Pool] = defaultdict(Pool)
    paid: dict[str, Paid] = {}
    for folder in folders:
        of_treatment = asked.get(folder.record.treatment_id, _OF_NO_TREATMENT)
        facts = _facts(results, folder, plan, of_treatment, derived, counts=folder.run_id in chosen)
        gathered.summaries.append(facts.summary)
        gathered.said[folder.run_id] = facts.said
        if facts.paid is not None:
            paid[folder.run_id] = facts.paid
        if facts.counted is not None:
            pools[folder.record.treatment_id].add(facts.counted.latency)
            _take(gathered, folder.record, facts.summary, facts.counted)
    gathered.pooled = {treatment: pool.all() for treatment, pool in pools.items()}
    _add_costs(gathered, run_costs(records, paid, plan))
    return gathered


def _add_costs(gathered: Gathered, costs: Mapping[str, RunCost]) -> None:
    """Prices come last: a run's bill may follow from what other runs had, or saw."""
    if not costs:
        return

    def with_cost(run: RunSummary) -> RunSummary:
        return replace(run, values={**run.values, **costs[run.run_id].values})

    gathered.summaries[:] = map(with_cost, gathered.summaries)
    for treatment, runs in gathered.counting.items():
        gathered.costs[treatment] = [costs[run.run_id] for run in runs]
        runs[:] = map(with_cost, runs)


def _facts(
    results: Results, folder: RunFolder, plan: Plan, asked: Asked, derived: DerivedRuns | None, *, counts: bool
) -> RunFacts:  # fmt: skip
    """What is kept of a run: as it was kept before, where nothing of it has changed since."""
    if derived is None:
        return derive(results, folder, plan, asked, counts=counts)
    told = (asked, counts, folder.later_us)
    known = derived.get(folder, told, RunFacts)
    if known is None:
        known = derive(results, folder, plan, asked, counts=counts)
        derived.put(folder, told, known)
    return known


def _take(gathered: Gathered, record: RunRecord, summary: RunSummary, run: CountedFacts) -> None:
    """Keep what is needed of a run that counts."""
    treatment = record.treatment_id
    gathered.counting[treatment].append(summary)
    gathered.timeouts_s[treatment] = record.timeout_us / 1e6
    for step, quantities in run.steps:
        gathered.steps[treatment, step].append(quantities)
    gathered.timeseries.append(run.timeseries)
    gathered.heat.append(run.heat)
    gathered.resources.append(run.resources)
    gathered.observed.append(run.observed)
    gathered.replicas.append(run.replicas)
    gathered.pods[treatment].append(run.pods)
    gathered.usage[treatment].append(run.usage)
    if treatment not in gathered.each and not run.usage.empty:
        gathered.each[treatment] = run.each
    gathered.crowded += run.crowded
    gathered.bursts += run.bursts
    if run.hops is not None:
        gathered.hops[treatment].append(run.hops)
    if run.steadiness is not None:
        gathered.steadiness.append(run.steadiness)
    if run.scaling is not None:
        gathered.scaling.append(run.scaling)
    if run.cold is not None:
        gathered.cold[treatment].append(run.cold)
    if run.predicted is not None:
        gathered.predicted.append(run.predicted)
    if run.answers is not None:
        gathered.answers.append(run.answers)
    for phase, times in run.phases.items():
        gathered.phases[treatment, phase].add(times)
