"""What the analysis finds, as plain frozen data: the seam to the report, the terminal and notebooks.

Durations in seconds, shares 0–1. A value that cannot be said is `None` with a reason, never nan or a silent 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from towtank.design.capacity_file import Capacity
from towtank.variables import Variable

if TYPE_CHECKING:  # they are made of what is here
    from towtank.analysis.break_even import BreakEven
    from towtank.analysis.cost_items import CostItem
    from towtank.analysis.descriptive import Spread
    from towtank.analysis.load_curves import LoadCurve, Scales
    from towtank.analysis.load_levels import LoadFamily
    from towtank.analysis.normality import Normality

VerdictWord = Literal["better", "worse", "equivalent", "not worse", "undecided"]


@dataclass(frozen=True)
class Quantity:
    """A value of a response variable that may be censored.

    ``above=True`` means "more than `value`": a percentile that falls among failures prints as "> 30 s".
    """

    value: float | None
    above: bool = False
    reason: str = ""


@dataclass(frozen=True)
class RunSummary:
    """One run in numbers."""

    run_id: str
    treatment_id: str
    block: int
    position: int
    attempt: int
    instrument: str
    system: str
    reasons: tuple[str, ...]
    values: dict[str, Quantity]
    outcomes: dict[str, int]
    statuses: dict[str, int]
    instances: dict[str, int]
    window_s: float
    due: int
    answers: dict[str, int] = field(default_factory=dict)
    """Requests of the window by status code; "timeout" or the outcome where there was none."""


@dataclass(frozen=True)
class Estimate:
    """Mean over runs of a per-run value, with its interval.

    Parameters
    ----------
    mean, low, high : float or None
        In the variable's base unit; low/high are the `confidence` interval, None with fewer than two runs.
    n : int
        Runs that entered.
    """

    variable: str
    mean: float | None
    low: float | None
    high: float | None
    n: int
    confidence: float
    method: str
    reason: str = ""
    above: bool = False


@dataclass(frozen=True)
class TreatmentSummary:
    """One treatment over its valid runs."""

    treatment_id: str
    label: str
    levels: dict[str, Any]
    n_valid: int
    n_invalid: int
    n_collapsed: int
    n_degraded: int
    estimates: dict[str, Estimate]
    pooled: dict[str, Quantity]
    outcomes: dict[str, int]
    statuses: dict[str, int]
    instances: dict[str, int]
    answers: dict[str, int] = field(default_factory=dict)
    medians: dict[str, Estimate] = field(default_factory=dict)
    """Median over runs with its exact interval; holds where runs are censored."""
    bootstrap: dict[str, tuple[float, float]] = field(default_factory=dict)
    """From 20 runs: studentised bootstrap interval of the mean, a check of the t interval."""


@dataclass(frozen=True)
class Comparison:
    """One contrast on one variable.

    Parameters
    ----------
    estimate, low, high : float or None
        Ratio treatment ÷ baseline (``scale="log"``), or difference treatment − baseline; the interval is
        simultaneous over the confirmatory family.
    p_value, p_adjusted : float or None
        Two-sided; adjusted by Holm (confirmatory) or FDR (exploratory).
    verdict : str or None
        None for exploratory comparisons: they carry no verdict words.
    sentence : str
        The finding in plain words.
    """

    variable: str
    treatment_id: str
    baseline_id: str
    confirmatory: bool
    scale: Literal["log", "difference"]
    n: int
    estimate: float | None
    low: float | None
    high: float | None
    confidence: float
    p_value: float | None
    p_adjusted: float | None
    p_permutation: float | None
    verdict: VerdictWord | None
    sentence: str
    method: str
    reason: str = ""
    checks: dict[str, float] = field(default_factory=dict)
    """p-values of the methods that check the main one: sign_flip, mann_whitney, brunner_munzel …"""
    fragile: str = ""
    """What becomes of a decided verdict without the suspect runs; empty when it stands."""


@dataclass(frozen=True)
class Finding:
    """Something a reader should know, with what to do about it."""

    name: str
    severity: Literal["info", "warning", "serious"]
    message: str
    advice: str
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Condition:
    """Something that was so in the experiment, and that its claims rest on.

    Parameters
    ----------
    topic : str
        data state, lifetime, load generator, stand-ins, environment, order, collapses, instrument.
    said : str
        What was so.
    weakens : str
        What it means for claims; empty where it means nothing.
    labels : tuple of str
        Treatments that it is said of; empty for all.
    """

    topic: str
    said: str
    weakens: str = ""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExperimentAnalysis:
    """Everything the report shows.

    Parameters
    ----------
    headline : str
        The answer in one or two sentences.
    caution : str
        What the reader must know with the answer: decided claims that rest on suspect runs; else empty.
    runs : tuple of RunSummary
    treatments : tuple of TreatmentSummary
        In the order of the file.
    comparisons : tuple of Comparison
        Confirmatory first.
    findings : tuple of Finding
        Also the threats to validity.
    timeseries : DataFrame
        treatment_id, run_id, t_s (bin start), bin_s, requests_per_s, done_per_s, p50_s, p95_s, goodput, due.
    resources : DataFrame
        treatment_id, run_id, t_s, instance, metric (cpu_cores, memory_bytes), value.
    observed : DataFrame
        treatment_id, run_id, t_s, bin_s, source, metric, value: what the experiment file names itself to be observed.
    replicas : DataFrame
        treatment_id, run_id, t_s, metric (pods_ready, pods_desired, pods_pending, nodes_ready, nodes), value; empty
        where no pods were observed.
    pod_starts : DataFrame
        treatment_id, under_load, phase, n, p50_s, p90_s, p99_s, max_s: pooled over the pods of all runs, descriptive.
    pod_curves : DataFrame
        treatment_id, under_load, step, t_s, share: pooled distribution of the time since pods were created.
    usage : DataFrame
        treatment_id, runs, name (of a workload or node), cpu_cores, memory_bytes, pods, and median and most of single
        pods: pod_cpu_median, pod_cpu_most, pod_memory_median, pod_memory_most; mean over runs.
    each : DataFrame
        treatment_id, run_id, row, instance, t_s, bin_s, value, of: single pods and nodes of one run (`each.each`).
    generators : DataFrame
        kind, where, host, control, target, runs, workers, connect_us_low, connect_us_high, offset_us_low,
        offset_us_high, uncertainty_us: where workers stood; empty where one engine of this machine made the load.
    hops : DataFrame
        treatment_id, step, group (median, slow), percentile, requests, latency_s, kind (before, span, other, outside),
        service, name, self_s, spans, first_s: mean self time of each hop over the traced requests of a group.
    heat : DataFrame
        treatment_id, t_s, bin_s, low_s, high_s (null: failed), requests, share of the bin; pooled, descriptive.
    ecdf : DataFrame
        treatment_id, latency_s, share; pooled, descriptive.
    percentiles : DataFrame
        treatment_id, percentile, latency_s (pooled; null where it falls among failures).
    stages : list of dict
        treatment_id, workload, name, start_s, end_s, of each treatment's first workload.
    slo : DataFrame
        treatment_id, variable, bound, value, held.
    meta : dict
        experiment, question, answer, seed, order, versions, hosts, files, digest.
    timeseries_mean : DataFrame
        treatment_id, t_s, bin_s, variable, mean, low, high, runs: mean over runs of a bin's per-run value, with the
        smallest and largest run; null where some run's value falls among failures.
    steps : DataFrame
        treatment_id, step, variable, mean, low, high, n, above, reason: estimates for every step of the journey.
    faults : list of dict
        treatment_id, kind, target, instances, start_s, end_s (None: never undone): of each treatment's first run.
    bursts : list of dict
        treatment_id, run_id, t_s, instance, bytes: seconds in which an instance logged far more than usual.
    elasticity : DataFrame
        treatment_id, run_id, metric, value, low, high, reason: supply against demand of each run whose pods were
        counted; low and high are bounds by the calibration.
    scaling : DataFrame
        treatment_id, run_id, t_s, metric (supply, demand, demand_low, demand_high, load), value: where each changes.
    factorial : DataFrame
        variable, term, df, sum_sq, f, p, share: analysis of variance, exploratory; empty with one factor.
    """

    headline: str
    decided: bool
    slo_held: bool | None
    runs: tuple[RunSummary, ...]
    treatments: tuple[TreatmentSummary, ...]
    comparisons: tuple[Comparison, ...]
    findings: tuple[Finding, ...]
    timeseries: pd.DataFrame
    resources: pd.DataFrame
    ecdf: pd.DataFrame
    percentiles: pd.DataFrame
    stages: list[dict[str, Any]]
    slo: pd.DataFrame
    meta: dict[str, Any] = field(default_factory=dict)
    timeseries_mean: pd.DataFrame = field(default_factory=pd.DataFrame)
    steps: pd.DataFrame = field(default_factory=pd.DataFrame)
    factorial: pd.DataFrame = field(default_factory=pd.DataFrame)
    observed: pd.DataFrame = field(default_factory=pd.DataFrame)
    hops: pd.DataFrame = field(default_factory=pd.DataFrame)
    caution: str = ""
    faults: list[dict[str, Any]] = field(default_factory=list)
    replicas: pd.DataFrame = field(default_factory=pd.DataFrame)
    pod_starts: pd.DataFrame = field(default_factory=pd.DataFrame)
    pod_curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    capacities: tuple[Capacity, ...] = ()
    """What a search for capacities found, where these are its results."""
    load_families: tuple[LoadFamily, ...] = ()
    """Treatments that differ in nothing but their load."""
    load_points: pd.DataFrame = field(default_factory=pd.DataFrame)
    """family, treatment_id, run_id, load, variable, value, above, kept: every run of those families."""
    load_curves: tuple[LoadCurve, ...] = ()
    scaling_laws: tuple[Scales, ...] = ()
    elasticity: pd.DataFrame = field(default_factory=pd.DataFrame)
    elasticity_means: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Mean over runs of each treatment and metric with its interval, and at the bounds of the calibration."""
    elastic_speedups: pd.DataFrame = field(default_factory=pd.DataFrame)
    """treatment_id, baseline_id, value, reason."""
    scaling: pd.DataFrame = field(default_factory=pd.DataFrame)
    usage: pd.DataFrame = field(default_factory=pd.DataFrame)
    each: pd.DataFrame = field(default_factory=pd.DataFrame)
    bursts: list[dict[str, Any]] = field(default_factory=list)
    generators: pd.DataFrame = field(default_factory=pd.DataFrame)
    spreads: tuple[Spread, ...] = ()
    normality: tuple[Normality, ...] = ()
    break_even: BreakEven | None = None
    """Loads at which deployments change places in cost; None without prices."""
    cost_items: tuple[CostItem, ...] = ()
    """What the cost of a run is made of."""
    heat: pd.DataFrame = field(default_factory=pd.DataFrame)
    conditions: tuple[Condition, ...] = ()
    """What claims rest on, whether or not anything went wrong."""
    own: Mapping[str, Variable] = field(default_factory=dict)
    """Response variables that the experiment file declares."""
    cold_spreads: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Time to first byte of cold requests, pooled over runs (`cold_starts.spreads`)."""
    cold_phases: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Phases of cold requests, means over requests (`cold_starts.anatomy`)."""
    phase_spreads: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Phases of warm requests that `answer.phases` names, pooled over runs (`request_phases.spreads`)."""
    phase_curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Their distributions as lines (`request_phases.curves`)."""
    who_answered: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Who made the answers that refused requests (`who_answered.COLUMNS`)."""
    predictions: pd.DataFrame = field(default_factory=pd.DataFrame)
    """How well each autoscaler of each run is predicted (`predicted_scaling.COLUMNS`)."""
    predicted_scaling: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Instances that should have been wanted, that were, and that were ready (`predicted_scaling.SERIES_COLUMNS`)."""
