"""What an analysis keeps of one run: small, and the same whichever runs stand beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from towtank.analysis import (
    activations,
    cold_starts,
    each,
    heat,
    hops,
    logs,
    observed,
    pods,
    predicted_scaling,
    request_phases,
    resources,
    scaling,
    shifts,
    timeseries,
    who_answered,
)
from towtank.analysis.cold_starts import ColdStarts, Settled
from towtank.analysis.distribution import Distribution
from towtank.analysis.engine_findings import EngineFinding, engine_findings
from towtank.analysis.hops import RunHops
from towtank.analysis.model import Quantity, RunSummary
from towtank.analysis.own_values import own_values
from towtank.analysis.paid import Paid, read_paid
from towtank.analysis.pods import Pods
from towtank.analysis.predicted_scaling import RunPredictions
from towtank.analysis.requested import Crowded, crowded
from towtank.analysis.run_values import rises_s
from towtank.analysis.scaling import Demanded, RunScaling
from towtank.analysis.selection import wanted_variables
from towtank.analysis.shifts import Steadiness
from towtank.analysis.summaries import RunData, summarise_run
from towtank.analysis.tables import step_label
from towtank.analysis.who_answered import RunAnswers
from towtank.cost.spec import PricedDeployment
from towtank.design.constant_load import constant_stretches
from towtank.design.journey_shape import step_timeouts_s, trace_shares
from towtank.design.plan import Plan, Treatment
from towtank.store import Results
from towtank.store.run_folder import RunFolder
from towtank.variables import COST_VARIABLES, DEMAND_VARIABLES


@dataclass(frozen=True)
class Asked:
    """What of the plan decides how a run of one treatment is read.

    Parameters
    ----------
    wanted : tuple of str
        Response variables beyond the standard ones.
    own : mapping
        Variable that the experiment declares → its SQL.
    step_limits_s : mapping
        Step → its timeout.
    rises_s : tuple of float
        When the intended load rises.
    stretches : sequence of (float, float)
        In which it is constant.
    shares : mapping
        Share of requests that carry a trace id, by workload and step.
    demanded : Demanded or None
        What supply is compared with.
    priced : PricedDeployment, optional
        What its deployment is paid by; None without a price.
    settled : {"zero", "baseline"}, optional
        What its deployment had settled at before the load.
    tells_cold : bool
        Its answers tell cold starts.
    phases : tuple of str
        Of requests, that are described by themselves.
    """

    wanted: tuple[str, ...]
    own: Mapping[str, str]
    step_limits_s: Mapping[str, float]
    rises_s: tuple[float, ...]
    stretches: Sequence[tuple[float, float]]
    shares: Mapping[tuple[str, str], float]
    demanded: Demanded | None
    priced: PricedDeployment | None
    settled: Settled = None
    tells_cold: bool = False
    phases: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CountedFacts:
    """What figures and pooled numbers need of a run that counts."""

    latency: Distribution
    steps: tuple[tuple[str, dict[str, Quantity]], ...]
    timeseries: pd.DataFrame
    heat: pd.DataFrame
    resources: pd.DataFrame
    observed: pd.DataFrame
    replicas: pd.DataFrame
    pods: Pods
    usage: pd.DataFrame
    each: pd.DataFrame
    crowded: tuple[Crowded, ...]
    bursts: tuple[dict[str, Any], ...]
    hops: RunHops | None
    steadiness: Steadiness | None
    scaling: RunScaling | None
    cold: ColdStarts | None
    predicted: RunPredictions | None
    answers: RunAnswers | None
    phases: Mapping[str, Distribution]


@dataclass(frozen=True, eq=False)
class RunFacts:
    """One run, derived.

    Parameters
    ----------
    summary : RunSummary
    said : tuple of EngineFinding
    counted : CountedFacts or None
        Of a run that enters numbers.
    paid : Paid or None
        What it had of what its deployment is paid by; prices are put on it when all runs are known.
    """

    summary: RunSummary
    said: tuple[EngineFinding, ...]
    counted: CountedFacts | None
    paid: Paid | None = None


def asked_of(plan: Plan) -> dict[str, Asked]:
    """What is asked of the runs of each treatment, by its id."""
    wanted = tuple(
        name for name in wanted_variables(plan) if name not in (*COST_VARIABLES, *DEMAND_VARIABLES)
    )
    cost = plan.experiment.cost
    declared = plan.experiment.answer.variables if plan.experiment.answer else {}
    own = {name: one.sql for name, one in declared.items()}
    return {
        treatment.id: Asked(
            wanted,
            own,
            _step_limits(treatment),
            rises_s(treatment),
            constant_stretches(treatment.spec),
            trace_shares(treatment.spec.driven, treatment.spec.generator.traceparent),
            scaling.demanded(treatment.spec),
            cost.deployments.get(treatment.spec.deployment_name) if cost is not None else None,
            treatment.spec.settle.until.replicas,
            any(one.cold is not None for one in treatment.spec.driven.values()),
            plan.experiment.answer.phases if plan.experiment.answer else (),
        )
        for treatment in plan.treatments
    }


def derive(results: Results, folder: RunFolder, plan: Plan, asked: Asked, *, counts: bool) -> RunFacts:
    """Read the tables of one run.

    Parameters
    ----------
    results : Results
    folder : RunFolder
    plan : Plan
    asked : Asked
    counts : bool
        The run enters numbers; of others no more than a summary is needed.
    """
    run = summarise_run(
        folder,
        wanted=asked.wanted,
        step_limits_s=asked.step_limits_s,
        rises_s=asked.rises_s,
        own=own_values(results, folder, plan),
    )
    scaled = scaling.of_run(run, asked.demanded)
    summary = scaling.with_demand(run.summary, scaled, asked.demanded)
    said = engine_findings(run.events)
    paid = None if asked.priced is None else read_paid(folder, asked.priced)
    return RunFacts(summary, said, _counted(folder, run, asked, scaled) if counts else None, paid)


def _counted(folder: RunFolder, run: RunData, asked: Asked, scaled: RunScaling | None) -> CountedFacts:
    record = run.record
    of_run = {"treatment_id": record.treatment_id, "run_id": record.run_id}
    series = timeseries.run_timeseries(run)
    shown = resources.for_figures(run.samples, **of_run, bin_us=record.bin_us)
    samples, is_scaled = folder.samples(), predicted_scaling.is_scaled(record)
    single = pd.DataFrame() if run.usage.empty else each.each(run.samples, run.nodes, **of_run)
    return CountedFacts(
        latency=run.latency,
        steps=run.steps,
        timeseries=series,
        heat=heat.run_heat(run),
        resources=shown,
        observed=observed.of_run(record, samples),
        replicas=pods.for_figures(run.pods, **of_run),
        pods=run.pods,
        usage=run.usage,
        each=single,
        crowded=tuple(
            crowded(run.requested, run.usage, run_id=record.run_id, treatment=record.treatment_label)
        ),
        bursts=tuple(logs.bursts(run.events, **of_run)),
        hops=hops.of_run(folder, asked.shares),
        steadiness=shifts.of_run(record, series, run.events, asked.stretches),
        scaling=scaled,
        cold=_cold_starts(folder, run, asked),
        predicted=predicted_scaling.of_run(record, samples) if is_scaled else None,
        answers=who_answered.of_run(record.treatment_id, samples, run.events, run.totals)
        if is_scaled
        else None,
        phases=request_phases.of_run(folder, asked.phases),
    )


def _cold_starts(folder: RunFolder, run: RunData, asked: Asked) -> ColdStarts | None:
    """Requests are scanned only where some of them can have been cold."""
    told = activations.of_run(folder, run.events)
    if told is not None:
        return told
    if not run.pods.lives and not asked.tells_cold:
        return None
    return cold_starts.of_run(folder, run.pods, asked.settled)


def _step_limits(treatment: Treatment) -> dict[str, float]:
    """Step → its timeout; where several workloads are driven, steps bear their names."""
    workloads = treatment.spec.workloads
    several = len(workloads) > 1
    return {
        step_label(name, step) if several else step: limit
        for name, workload in workloads.items()
        for step, limit in step_timeouts_s(workload).items()
    }
