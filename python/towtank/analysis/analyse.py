"""From a result folder to everything that a report shows: the one function that joins the parts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from towtank.analysis import (
    each,
    ecdf,
    factorial,
    findings,
    generators,
    headline,
    hops,
    logs,
    observed,
    pods,
    resources,
    slo,
    timeseries,
    usage,
)
from towtank.analysis.comparison import Values, compare
from towtank.analysis.deployments import deployments_of
from towtank.analysis.distribution import Distribution, merge
from towtank.analysis.engine_findings import EngineFinding, engine_findings
from towtank.analysis.estimates import bootstrap_check, estimate, median_estimate
from towtank.analysis.fault_findings import faults_made
from towtank.analysis.model import (
    Comparison,
    Estimate,
    ExperimentAnalysis,
    Finding,
    Quantity,
    RunSummary,
    TreatmentSummary,
)
from towtank.analysis.pods import Pods
from towtank.analysis.requested import Crowded, crowded, request_findings
from towtank.analysis.selection import counting_attempts, wanted_variables
from towtank.analysis.summaries import STANDARD_VARIABLES, RunData, latency_value, summarise_run
from towtank.analysis.tables import step_label
from towtank.analysis.trace_findings import trace_findings
from towtank.design import load_shape
from towtank.design.foreign import ForeignWorkload
from towtank.design.journey_shape import step_timeouts_s, trace_shares
from towtank.design.model import Adaptive
from towtank.design.plan import Plan, Treatment
from towtank.store import Results
from towtank.store.run_record import RunRecord
from towtank.variables import variable

POOLED = ("min", "mean", "median", "p90", "p95", "p99", "max", "median_ok", "p95_ok", "p99_ok", "goodput")
STEP_COLUMNS = ("treatment_id", "step", "variable", "mean", "low", "high", "n", "above", "method", "reason")


def analyse(results: Results) -> ExperimentAnalysis:
    """Analyse an experiment from its stored tables.

    Parameters
    ----------
    results : Results
        Only plan, run records, count tables, totals and samples are read; requests are scanned only in runs that have
        spans, which are joined to them.

    Returns
    -------
    ExperimentAnalysis
        Also of an unfinished experiment: what cannot be said yet is None with a reason.
    """
    plan = results.plan
    gathered = _gather(results, plan)
    confidence = plan.experiment.answer.confidence if plan.experiment.answer else 0.95
    counting = gathered.counting
    values = _values(counting)
    treatments = tuple(
        _treatment(treatment, gathered, confidence=confidence, seed=plan.experiment.seed)
        for treatment in plan.treatments
    )
    deployments = deployments_of(gathered.counted)
    block_s = _block_s(plan, gathered.counted)
    compared = compare(plan, values, deployments=deployments, block_s=block_s)
    comparisons = _marked(plan, counting, compared, deployments)
    resting = _resting(counting, comparisons)
    table = slo.slo_table(plan, counting, treatments)
    found = findings.findings(
        plan, gathered.records, gathered.summaries, treatments, comparisons,
        said=gathered.said, damage=[str(item) for item in results.damage], deployments=deployments,
    )  # fmt: skip
    traced = [run for runs in gathered.hops.values() for run in runs]
    found = (*resting, *found, *trace_findings(traced), *request_findings(gathered.crowded))
    series = _concat(gathered.timeseries, timeseries.COLUMNS)
    return ExperimentAnalysis(
        headline=headline.headline(plan, treatments, comparisons, gathered.records),
        decided=headline.is_decided(comparisons),
        slo_held=slo.all_held(table),
        runs=tuple(gathered.summaries),
        treatments=treatments,
        comparisons=comparisons,
        findings=found,
        timeseries=series,
        resources=_concat(
            gathered.resources, ("treatment_id", "run_id", "t_s", "instance", "metric", "value")
        ),
        observed=_concat(gathered.observed, observed.COLUMNS),
        hops=hops.table(gathered.hops),
        ecdf=_per_treatment(plan, gathered.pooled, ecdf.ecdf, ("treatment_id", "latency_s", "share")),
        percentiles=_per_treatment(
            plan, gathered.pooled, ecdf.percentile_line, ("treatment_id", "percentile", "latency_s")
        ),
        stages=_stages(plan, gathered.records),
        faults=faults_made(gathered.counted),
        slo=table,
        meta=_meta(results, plan, gathered.records, comparisons),
        timeseries_mean=timeseries.mean_timeseries(series),
        steps=_steps(plan, gathered, confidence=confidence),
        factorial=factorial.factorial_table(plan, values, names=_factorial_names(plan)),
        caution=_caution(resting, gathered),
        bursts=gathered.bursts,
        replicas=_concat(gathered.replicas, pods.FIGURE_COLUMNS),
        pod_starts=_concat(
            [pods.pod_starts(*of_one) for of_one in gathered.pods.items()], pods.START_COLUMNS
        ),
        pod_curves=_concat(
            [pods.start_curves(*of_one) for of_one in gathered.pods.items()], pods.CURVE_COLUMNS
        ),
        generators=generators.generators_of(gathered.counted),
        usage=_concat([usage.mean_usage(*of_one) for of_one in gathered.usage.items()], usage.USAGE_COLUMNS),
        each=_concat(list(gathered.each.values()), each.COLUMNS),
    )


@dataclass
class _Gathered:
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
    crowded: list[Crowded] = field(default_factory=list)
    each: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Of the first run of a treatment in which there is more than the deployment as a whole."""
    bursts: list[dict[str, Any]] = field(default_factory=list)


def _gather(results: Results, plan: Plan) -> _Gathered:
    folders = results.runs("all")
    records = [folder.record for folder in folders]
    chosen = counting_attempts(records)
    wanted = wanted_variables(plan)
    step_limits = {t.id: _step_limits(t) for t in plan.treatments}
    rises = {t.id: _rises_s(t) for t in plan.treatments}
    shares = {t.id: trace_shares(t.spec.driven, t.spec.generator.traceparent) for t in plan.treatments}
    counted = [record for record in records if record.run_id in chosen]
    gathered = _Gathered(records, counted, [], defaultdict(list), {}, {}, defaultdict(list), [], [], [], {})
    for folder in folders:
        limits = step_limits.get(folder.record.treatment_id)
        rises_s = rises.get(folder.record.treatment_id, ())
        run = summarise_run(folder, wanted=wanted, step_limits_s=limits, rises_s=rises_s)
        gathered.summaries.append(run.summary)
        events = folder.events()
        gathered.said[run.record.run_id] = engine_findings(events)
        if run.record.run_id in chosen:
            _take(gathered, run)
            treatment_id, run_id = run.record.treatment_id, run.record.run_id
            gathered.bursts += logs.bursts(events, treatment_id=treatment_id, run_id=run_id)
            gathered.observed.append(observed.of_run(folder))
            traced = hops.of_run(folder, shares.get(folder.record.treatment_id, {}))
            if traced is not None:
                gathered.hops[folder.record.treatment_id].append(traced)
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


def _take(gathered: _Gathered, run: RunData) -> None:
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


def _values(counting: Mapping[str, Sequence[RunSummary]]) -> Values:
    """Variable → treatment → block → value."""
    values: dict[str, dict[str, dict[int, Quantity]]] = {}
    for treatment, runs in counting.items():
        for run in runs:
            for name, quantity in run.values.items():
                values.setdefault(name, {}).setdefault(treatment, {})[run.block] = quantity
    return values


def _treatment(
    treatment: Treatment, gathered: _Gathered, *, confidence: float, seed: int
) -> TreatmentSummary:
    runs = gathered.counting.get(treatment.id, [])
    names = list(runs[0].values) if runs else list(STANDARD_VARIABLES)
    estimates: dict[str, Estimate] = {}
    medians: dict[str, Estimate] = {}
    bootstrap: dict[str, tuple[float, float]] = {}
    for name in names:
        described = variable(name)
        quantities = [run.values[name] for run in runs]
        estimates[name] = estimate(described, quantities, confidence=confidence)
        medians[name] = median_estimate(described, quantities, confidence=confidence)
        rng = np.random.default_rng([seed, treatment.index])
        checked = bootstrap_check(quantities, confidence=confidence, rng=rng)
        if checked is not None:
            bootstrap[name] = checked
    pooled = gathered.pooled.get(treatment.id, Distribution.of([]))
    limit_s = gathered.timeouts_s.get(treatment.id, 0.0)
    own = [run for run in gathered.summaries if run.treatment_id == treatment.id]
    return TreatmentSummary(
        treatment_id=treatment.id,
        label=treatment.label,
        levels=dict(treatment.levels),
        n_valid=len(runs),
        n_invalid=sum(run.instrument == "invalid" for run in own),
        n_collapsed=sum(run.system == "collapsed" for run in runs),
        n_degraded=sum(run.system == "degraded" for run in runs),
        estimates=estimates,
        pooled={name: latency_value(name, pooled, limit_s=limit_s) for name in POOLED},
        outcomes=_added(run.outcomes for run in runs),
        statuses=_added(run.statuses for run in runs),
        instances=_added(run.instances for run in runs),
        medians=medians,
        bootstrap=bootstrap,
    )


def _added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = defaultdict(int)
    for part in parts:
        for name, number in part.items():
            total[name] += number
    return dict(total)


def _suspects(counting: Mapping[str, Sequence[RunSummary]]) -> tuple[str, ...]:
    """Runs that count although their instrument is suspect."""
    return tuple(run.run_id for runs in counting.values() for run in runs if run.instrument == "suspect")


def _marked(
    plan: Plan,
    counting: Mapping[str, Sequence[RunSummary]],
    comparisons: Sequence[Comparison],
    deployments: Mapping[str, int],
) -> tuple[Comparison, ...]:
    """Mark decided claims that would not stand without the suspect runs as fragile."""
    claims = [c for c in comparisons if _is_decided(c)]
    if not _suspects(counting) or not claims:
        return tuple(comparisons)
    clean = {
        treatment: [run for run in runs if run.instrument != "suspect"]
        for treatment, runs in counting.items()
    }
    primary = {c.variable for c in claims} | {"goodput"}
    values = {name: of for name, of in _values(clean).items() if name in primary}
    once_more = compare(plan, values, deployments=deployments)
    again = {(c.variable, c.treatment_id, c.baseline_id): c for c in once_more if c.confirmatory}

    def without(claim: Comparison) -> str:
        other = again.get((claim.variable, claim.treatment_id, claim.baseline_id))
        if not _is_decided(claim) or (other is not None and other.verdict == claim.verdict):
            return ""
        word = other.verdict if other is not None else "undecided"
        return f"{word}, {other.n if other else 0} left"

    return tuple(replace(c, fragile=without(c)) for c in comparisons)


def _is_decided(comparison: Comparison) -> bool:
    return comparison.confirmatory and comparison.verdict not in (None, "undecided")


def _resting(
    counting: Mapping[str, Sequence[RunSummary]], comparisons: Sequence[Comparison]
) -> tuple[Finding, ...]:
    """Say which decided claims rest on suspect runs."""
    fragile = [c for c in comparisons if c.fragile]
    if not fragile:
        return ()
    suspects, decided = _suspects(counting), sum(_is_decided(c) for c in comparisons)
    which = "The only decided claim" if decided == 1 else f"{len(fragile)} of the {decided} decided claims"
    runs = "the suspect run" if len(suspects) == 1 else f"the {len(suspects)} suspect runs"
    told = "; ".join(f"{c.sentence.rstrip('.')} (without them: {c.fragile})" for c in fragile)
    return (
        Finding(
            "claim_rests_on_suspect_runs",
            "serious",
            f"{which} would not stand without {runs}: {told}",
            "Remove the cause of the suspicion and repeat the experiment before quoting them.",
            suspects,
        ),
    )


def _caution(resting: Sequence[Finding], gathered: _Gathered) -> str:
    """What stands under the headline: why no run could be judged, or what the claims rest on."""
    if resting:
        return resting[0].message.partition(": ")[0] + "."
    if any(record.state == "complete" for record in gathered.records):
        return ""
    causes = Counter(record.failure for record in gathered.records if record.failure)
    return f"The cause: {causes.most_common(1)[0][0]}" if causes else ""


def _block_s(plan: Plan, records: Sequence[RunRecord]) -> float | None:
    """Mean time from start to end of a run, for one run of every treatment."""
    spans = [
        (datetime.fromisoformat(r.finished_utc) - datetime.fromisoformat(r.started_utc)).total_seconds()
        for r in records
        if r.finished_utc
    ]
    return sum(spans) / len(spans) * len(plan.treatments) if spans else None


def _steps(plan: Plan, gathered: _Gathered, *, confidence: float) -> pd.DataFrame:
    rows = []
    order = {treatment.id: treatment.index for treatment in plan.treatments}
    for (treatment, step), runs in sorted(
        gathered.steps.items(), key=lambda item: order.get(item[0][0], len(order))
    ):
        for name in runs[0]:
            found = estimate(variable(name), [run[name] for run in runs], confidence=confidence)
            rows.append(
                {
                    "treatment_id": treatment, "step": step, "variable": name, "mean": found.mean, "low": found.low,
                    "high": found.high, "n": found.n, "above": found.above, "method": found.method,
                    "reason": found.reason,
                }
            )  # fmt: skip
    return pd.DataFrame(rows, columns=list(STEP_COLUMNS))


def _per_treatment(
    plan: Plan,
    pooled: Mapping[str, Distribution],
    line: Callable[[Distribution], pd.DataFrame],
    columns: tuple[str, ...],
) -> pd.DataFrame:
    parts = [
        line(pooled[treatment.id]).assign(treatment_id=treatment.id)
        for treatment in plan.treatments
        if treatment.id in pooled and pooled[treatment.id].n
    ]
    return _concat(parts, columns)


def _concat(parts: Sequence[pd.DataFrame], columns: tuple[str, ...]) -> pd.DataFrame:
    filled = [part for part in parts if not part.empty]
    if not filled:
        return pd.DataFrame(columns=list(columns))
    return pd.concat(filled, ignore_index=True)[list(columns)]


def _stages(plan: Plan, records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Stages of each treatment's first workload, from its first run that recorded them."""
    found: list[dict[str, Any]] = []
    for treatment in plan.treatments:
        mine = (record.stages for record in records if record.treatment_id == treatment.id and record.stages)
        stages = next(mine, ())
        found += [
            {
                "treatment_id": treatment.id, "workload": stage.workload, "name": stage.name,
                "start_s": stage.start_us / 1e6, "end_s": stage.end_us / 1e6,
            }
            for stage in stages if stage.workload == stages[0].workload
        ]  # fmt: skip
    return found


def _factorial_names(plan: Plan) -> tuple[str, ...]:
    asked = plan.experiment.answer.primary if plan.experiment.answer else ()
    return tuple(dict.fromkeys((*asked, "p95", "throughput", "cpu_cores")))


def _meta(
    results: Results, plan: Plan, records: Sequence[RunRecord], comparisons: Sequence[Comparison]
) -> dict[str, Any]:
    experiment = plan.experiment
    environment = results.environment if results.layout.environment.is_file() else {}
    host = dict(environment.get("host") or {})
    if host:
        host.setdefault("host", host.get("hostname", ""))
    finished = [record.finished_utc for record in records if record.finished_utc]
    repetitions = experiment.repetitions
    return {
        "experiment": experiment.experiment,
        "question": experiment.question,
        "answer": experiment.answer.model_dump() if experiment.answer else None,
        "seed": experiment.seed,
        "order": experiment.order,
        "profile": experiment.profile,
        "repetitions": repetitions.model_dump() if isinstance(repetitions, Adaptive) else repetitions,
        "digest": plan.digest,
        "started_utc": min((record.started_utc for record in records), default=None),
        "finished_utc": max(finished, default=None),
        "versions": _versions(environment, records),
        "hosts": [host] if host else [],
        "environment": dict(environment),
        "files": dict(results.files) or dict(plan.files),
        "family": sum(c.confirmatory for c in comparisons),
        "blocks": len({run.block for run in plan.runs}),
        "tools": _tools(plan),
    }


def _tools(plan: Plan) -> list[str]:
    """Other tools that made a load, without a schedule of ours."""
    workloads = [treatment.spec.workload for treatment in plan.treatments]
    return sorted({workload.load.tool for workload in workloads if isinstance(workload, ForeignWorkload)})


def _versions(environment: Mapping[str, Any], records: Sequence[RunRecord]) -> dict[str, str]:
    versions = {str(name): str(value) for name, value in (environment.get("versions") or {}).items()}
    for record in records:
        for name, value in record.versions.items():
            versions.setdefault(name, value)
    return versions
