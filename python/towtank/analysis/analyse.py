"""From a result folder to everything that a report shows: the one function that joins the parts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from towtank.analysis import (
    cold_starts,
    conditions,
    descriptive,
    each,
    ecdf,
    factorial,
    findings,
    generators,
    headline,
    heat,
    hops,
    load_curves,
    normality,
    observed,
    pods,
    predicted_scaling,
    request_phases,
    scaling,
    shifts,
    slo,
    timeseries,
    usage,
    who_answered,
)
from towtank.analysis.break_even import break_even
from towtank.analysis.capacity import searched_in, sentence
from towtank.analysis.comparison import Values, compare
from towtank.analysis.cost_findings import break_even_findings, cost_findings, uncounted_findings
from towtank.analysis.cost_items import cost_items
from towtank.analysis.deployments import deployments_of
from towtank.analysis.distribution import Distribution
from towtank.analysis.estimates import bootstrap_check, estimate, median_estimate
from towtank.analysis.fault_findings import faults_made
from towtank.analysis.gathering import Gathered, gather
from towtank.analysis.load_levels import load_families
from towtank.analysis.model import (
    Comparison,
    Estimate,
    ExperimentAnalysis,
    Finding,
    Quantity,
    RunSummary,
    TreatmentSummary,
)
from towtank.analysis.ramp_turns import ramp_turns
from towtank.analysis.requested import request_findings
from towtank.analysis.summaries import STANDARD_VARIABLES, latency_value
from towtank.analysis.trace_findings import trace_findings
from towtank.design.foreign import ForeignWorkload
from towtank.design.model import Adaptive, ExperimentSpec
from towtank.design.plan import Plan, Treatment
from towtank.store import Results
from towtank.store.derived import DerivedRuns
from towtank.store.run_record import RunRecord
from towtank.variables import variable

POOLED = ("min", "mean", "median", "p90", "p95", "p99", "max", "median_ok", "p95_ok", "p99_ok", "goodput")
STEP_COLUMNS = ("treatment_id", "step", "variable", "mean", "low", "high", "n", "above", "method", "reason")


def analyse(results: Results, *, derived: DerivedRuns | None = None) -> ExperimentAnalysis:
    """Analyse an experiment from its stored tables.

    Parameters
    ----------
    results : Results
        Only plan, run records, count tables, totals and samples are read; requests are scanned only in runs that have
        spans, which are joined to them, or may have cold starts, and where `answer.phases` asks for times of theirs.
    derived : DerivedRuns, optional
        Where what is derived of single runs is kept (`kept_runs`): runs that have not changed are not read again.

    Returns
    -------
    ExperimentAnalysis
        Also of an unfinished experiment: what cannot be said yet is None with a reason.
    """
    plan = results.plan
    gathered = gather(results, plan, derived)
    confidence = plan.experiment.answer.confidence if plan.experiment.answer else 0.95
    counting = gathered.counting
    values = _values(counting)
    treatments = tuple(
        _treatment(treatment, gathered, plan.experiment, confidence=confidence)
        for treatment in plan.treatments
    )
    deployments = deployments_of(gathered.counted)
    block_s = _block_s(plan, gathered.counted)
    compared = compare(plan, values, deployments=deployments, block_s=block_s)
    comparisons = _marked(plan, counting, compared, deployments)
    resting = _resting(counting, comparisons)
    level = break_even(plan, gathered.costs, confidence=confidence)
    table = slo.slo_table(plan, counting, treatments)
    found = findings.findings(
        plan, gathered.records, gathered.summaries, treatments, comparisons,
        said=gathered.said, damage=[str(item) for item in results.damage], deployments=deployments,
    )  # fmt: skip
    traced = [run for runs in gathered.hops.values() for run in runs]
    found = (
        *resting, *gathered.steady, *found, *shifts.shift_findings(plan, gathered.steadiness), *trace_findings(traced),
        *request_findings(gathered.crowded),
        *cost_findings(plan.experiment.cost, counting), *uncounted_findings(gathered.costs, counting),
        *break_even_findings(level),
    )  # fmt: skip
    series = _concat(gathered.timeseries, timeseries.COLUMNS)
    searched = searched_in(results.path)
    elastic = scaling.table(gathered.scaling)
    elastic_means = scaling.means(elastic, confidence=confidence)
    families = load_families(plan)
    points = load_curves.load_points(families, counting)
    return ExperimentAnalysis(
        headline=" ".join(f"{sentence(one)}." for one in searched)
        or headline.headline(plan, treatments, comparisons, gathered.records),
        capacities=searched,
        load_families=families,
        load_points=points,
        load_curves=(
            *load_curves.load_curves(families, points, seed=plan.experiment.seed),
            *ramp_turns(plan, counting, series, confidence=confidence),
        ),
        scaling_laws=load_curves.scaling_laws(families, points, searched),
        decided=headline.is_decided(comparisons),
        slo_held=slo.all_held(table),
        runs=tuple(gathered.summaries),
        treatments=treatments,
        comparisons=comparisons,
        findings=found,
        timeseries=series,
        conditions=conditions.conditions(plan, gathered.counted, gathered.summaries, treatments, deployments),
        heat=heat.pooled_heat(gathered.heat),
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
        elasticity=elastic,
        elasticity_means=elastic_means,
        elastic_speedups=scaling.speedups(plan, elastic_means),
        scaling=_concat([one.series for one in gathered.scaling], scaling.SERIES_COLUMNS),
        pod_starts=_concat(
            [pods.pod_starts(*of_one) for of_one in gathered.pods.items()], pods.START_COLUMNS
        ),
        pod_curves=_concat(
            [pods.start_curves(*of_one) for of_one in gathered.pods.items()], pods.CURVE_COLUMNS
        ),
        generators=generators.generators_of(gathered.counted),
        cold_spreads=cold_starts.spreads(gathered.cold),
        cold_phases=cold_starts.anatomy(gathered.cold),
        phase_spreads=request_phases.spreads(gathered.phases, (one.id for one in plan.treatments)),
        phase_curves=request_phases.curves(gathered.phases, (one.id for one in plan.treatments)),
        predictions=predicted_scaling.table(gathered.predicted),
        who_answered=who_answered.table(gathered.answers),
        predicted_scaling=predicted_scaling.series(gathered.predicted),
        spreads=descriptive.spreads(plan, counting, blocks=len({run.block for run in gathered.records})),
        normality=normality.normality_table(plan, counting, alpha=1 - confidence),
        break_even=level,
        cost_items=cost_items(
            {t.id: gathered.costs.get(t.id, ()) for t in plan.treatments}, confidence=confidence
        ),
        own=plan.experiment.own,
        usage=_concat([usage.mean_usage(*of_one) for of_one in gathered.usage.items()], usage.USAGE_COLUMNS),
        each=_concat(list(gathered.each.values()), each.COLUMNS),
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
    treatment: Treatment, gathered: Gathered, experiment: ExperimentSpec, *, confidence: float
) -> TreatmentSummary:
    runs = gathered.counting.get(treatment.id, [])
    names = list(runs[0].values) if runs else list(STANDARD_VARIABLES)
    estimates: dict[str, Estimate] = {}
    medians: dict[str, Estimate] = {}
    bootstrap: dict[str, tuple[float, float]] = {}
    for name in names:
        described = experiment.variable(name)
        quantities = [run.values[name] for run in runs]
        estimates[name] = estimate(described, quantities, confidence=confidence)
        medians[name] = median_estimate(described, quantities, confidence=confidence)
        rng = np.random.default_rng([experiment.seed, treatment.index])
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
        answers=_added(run.answers for run in runs),
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


def _caution(resting: Sequence[Finding], gathered: Gathered) -> str:
    """What stands under the headline: why no run could be judged, or what the claims rest on."""
    if resting:
        return resting[0].message.partition(": ")[0] + "."
    if any(record.state == "complete" for record in gathered.records):
        return ""
    causes = Counter(record.failure for record in gathered.records if record.failure)
    quoted = causes.most_common(1)[0][0] if causes else ""
    return f"The cause: “{quoted}”" if quoted else ""


def _block_s(plan: Plan, records: Sequence[RunRecord]) -> float | None:
    """Mean time from start to end of a run, for one run of every treatment."""
    spans = [
        (datetime.fromisoformat(r.finished_utc) - datetime.fromisoformat(r.started_utc)).total_seconds()
        for r in records
        if r.finished_utc
    ]
    return sum(spans) / len(spans) * len(plan.treatments) if spans else None


def _steps(plan: Plan, gathered: Gathered, *, confidence: float) -> pd.DataFrame:
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
        **_prices(plan),
    }


def _prices(plan: Plan) -> dict[str, Any]:
    """Currency of the report, and whose prices were taken for which deployment."""
    cost = plan.experiment.cost
    if cost is None:
        return {}
    return {
        "currency": cost.currency,
        "per_1000": cost.per_1000,
        "by_use": [t.id for t in plan.treatments if cost.is_by_use(t.spec.deployment_name)],
        "prices": {
            name: {
                "list": one.prices.prices, "of": one.prices.date, "source": one.prices.source, "note": one.prices.note,
            } if one.prices is not None else {"list": "a bill, shared out", "lines": len(one.bill)}
            for name, one in cost.deployments.items()
        },
    }  # fmt: skip


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
