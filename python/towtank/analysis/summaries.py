"""One run in numbers: every response variable over the measured window, and the same per step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from towtank.analysis import recovery, sentences
from towtank.analysis.distribution import MICROSECOND_S, Distribution
from towtank.analysis.logs import logged_values
from towtank.analysis.model import Quantity, RunSummary
from towtank.analysis.pods import VARIABLES as OF_PODS
from towtank.analysis.pods import Pods, pod_values, read_pods
from towtank.analysis.requested import Requested, read_requested
from towtank.analysis.resources import cpu_in_window, deployment_samples, memory_in_window, node_samples
from towtank.analysis.storage import VARIABLES as OF_STORAGE
from towtank.analysis.storage import storage_values
from towtank.analysis.tables import LatencyCounts, Totals
from towtank.analysis.usage import run_usage
from towtank.store.run_record import RunRecord, Window
from towtank.variables import FAULT_VARIABLES, variable

STANDARD_VARIABLES = (
    "requests", "throughput", "throughput_median", "goodput", "error_ratio",
    "min", "mean", "median", "p90", "p95", "p99", "max",
    "median_ok", "p90_ok", "p95_ok", "p99_ok", "max_ok",
    "cpu_cores", "memory_bytes", "bytes_in_per_s", "bytes_out_per_s", "bytes_logged",
    "bytes_logged_per_request", "collapsed",
)  # fmt: skip
"""Known of every run, whatever the experiment file asks for."""
RATES = frozenset({"throughput", "throughput_median", "bytes_in_per_s", "bytes_out_per_s"})
"""What follows from sums per second; the rest of a workload follows from its latencies."""
SECOND_US = 1_000_000
STEP_VARIABLES = ("requests", "goodput", "mean", "median", "p90", "p95", "p99", "max")


class RunTables(Protocol):
    """What is read of a run folder; `store.RunFolder` fits."""

    @property
    def record(self) -> RunRecord:
        """`run.json`."""

    def counts(self, variables: Sequence[str] | None = None) -> pa.Table:
        """`counts.parquet`, of some variables only."""

    def totals(self) -> pa.Table:
        """`totals.parquet`."""

    def samples(self) -> pa.Table:
        """`samples.parquet`."""

    def events(self) -> pa.Table:
        """`events.parquet`."""

    def fault_counts(self) -> pa.Table:
        """`fault_counts.parquet`."""


@dataclass(frozen=True, eq=False)
class RunData:
    """A run, summarised, with what figures and pooled percentiles still need of it."""

    record: RunRecord
    summary: RunSummary
    latency: Distribution
    steps: tuple[tuple[str, dict[str, Quantity]], ...]
    counts: LatencyCounts | None
    totals: Totals | None
    samples: pd.DataFrame
    nodes: pd.DataFrame
    pods: Pods
    usage: pd.DataFrame
    """As `usage.run_usage` has it; empty where there are no pods."""
    requested: Requested
    events: pa.Table
    """`events.parquet`."""


def summarise_run(
    folder: RunTables,
    *,
    wanted: Iterable[str] = (),
    step_limits_s: Mapping[str, float] | None = None,
    rises_s: Sequence[float] = (),
    own: Mapping[str, Quantity] | None = None,
) -> RunData:
    """Summarise one run from its count tables.

    Parameters
    ----------
    folder : RunTables
    wanted : iterable of str
        Response variables beyond the standard ones: primaries, SLOs.
    step_limits_s : mapping, optional
        Step → its own timeout; without, the longest of the run.
    rises_s : sequence of float, optional
        When the intended load rises, ascending.
    own : mapping, optional
        Values of the response variables that the experiment declares (`own_values`).

    Returns
    -------
    RunData
        Every value is a `Quantity`; what cannot be said has None and a reason.
    """
    record = folder.record
    of_faults = FAULT_VARIABLES if record.faults else ()
    declared = own or {}
    names = dict.fromkeys(n for n in (*STANDARD_VARIABLES, *of_faults, *wanted) if n not in declared)
    counts, totals, observed = _read(folder, with_storage=any(name in OF_STORAGE for name in names))
    samples = observed.samples
    if record.window is None or counts is None or totals is None:
        reason = _why_not(record, "the run ended before its load was recorded")
        return _without_load(record, names, declared, reason=reason, observed=observed)
    window_s = (record.window.end_us - record.window.start_us) * MICROSECOND_S
    latency = counts.distribution(counts.in_window)
    if not window_s or not latency.n:
        reason = (
            "no requests in the measured window"
            if window_s
            else "the load was over before the measured window begins"
        )
        return _without_load(record, names, declared, reason=reason, observed=observed)
    limit_s = record.timeout_us * MICROSECOND_S
    values = _rates(record.window, totals)
    values |= {
        "collapsed": _collapsed(record),
        "cpu_cores": cpu_in_window(samples, start_us=record.window.start_us, end_us=record.window.end_us),
        "memory_bytes": memory_in_window(
            samples, start_us=record.window.start_us, end_us=record.window.end_us
        ),
    }
    values |= logged_values(record, latency.n)
    values |= recovery.fault_values(
        record.faults, record.window, folder, users_wait=record.load_model != "open"
    )
    if any(name in OF_PODS for name in names):
        rises_us = [round(rise_s / MICROSECOND_S) for rise_s in rises_s]
        values |= pod_values(observed.pods, record.window, rises_us)
    values |= observed.storage
    parts = _Parts(latency, counts, totals, record.window)
    values |= {name: parts.value(name, limit_s=limit_s) for name in names if name not in values}
    values |= {
        name: Quantity(None, reason=record.unknown[base])
        for name in values
        if (base := variable(name).base) in record.unknown
    }
    limits = step_limits_s or {}
    steps = tuple(
        (
            step,
            {
                name: Quantity(None, reason=record.unknown[name])
                if name in record.unknown
                else latency_value(name, part, limit_s=limits.get(step, limit_s))
                for name in STEP_VARIABLES
            },
        )
        for index, step in enumerate(counts.steps)
        # where there is one step, its requests are all there are, and are sorted already
        if (part := latency if len(counts.steps) == 1 else counts.of_step(index)).n
    )
    said = {**{name: values[name] for name in names}, **declared}
    summary = _summary(record, said, totals, window_s, latency.n)
    usage = observed.usage(record.window)
    return RunData(
        record,
        summary,
        latency,
        steps,
        counts,
        totals,
        samples,
        observed.nodes,
        observed.pods,
        usage,
        observed.requested,
        observed.events,
    )


@dataclass(frozen=True, eq=False)
class _Parts:
    """What the requests of a run say, of all workloads together and of each."""

    whole: Distribution
    counts: LatencyCounts
    totals: Totals
    window: Window

    def value(self, name: str, *, limit_s: float) -> Quantity:
        described = variable(name)
        if described.workload is None:
            return latency_value(name, self.whole, limit_s=limit_s)
        if described.workload not in self.counts.workloads:
            return Quantity(None, reason=f"{described.workload} was not driven")
        if described.base in RATES:
            return _rates(self.window, self.totals.of_workload(described.workload))[described.base]
        mine = self.counts.in_window & self.counts.of_workload(described.workload)
        return latency_value(described.base, self.counts.distribution(mine), limit_s=limit_s)


def latency_value(name: str, latency: Distribution, *, limit_s: float) -> Quantity:
    """Value of a variable that follows from the latency distribution alone.

    Parameters
    ----------
    name : str
        requests, goodput, error_ratio, mean, min, median, max, p…, each also with `_ok`.
    latency : Distribution
    limit_s : float
        The longest timeout, seconds: what a percentile among failures is said to be above of.
    """
    described = variable(name)
    if latency.n == 0 and name != "requests":
        return Quantity(None, reason="no requests")
    match name:
        case "requests":
            return Quantity(float(latency.n))
        case "goodput" | "error_ratio":
            good = name == "goodput"
            return Quantity((latency.successes if good else latency.failures) / latency.n)
        case _ if described.successes_only and not latency.successes:
            return Quantity(None, reason="no request succeeded")
        case "mean" | "min":
            return Quantity(latency.mean() if name == "mean" else latency.only_successes().percentile(0))
    if described.percentile is None:
        raise KeyError(name)
    considered = latency.only_successes() if described.successes_only else latency
    return considered.quantity(described.percentile, limit_s=limit_s)


@dataclass(frozen=True, eq=False)
class _Observed:
    """What telemetry saw of a run."""

    samples: pd.DataFrame
    nodes: pd.DataFrame
    pods: Pods
    requested: Requested
    storage: Mapping[str, Quantity]
    events: pa.Table

    def usage(self, window: Window) -> pd.DataFrame:
        """By workload and node; only in a cluster is there more to say than of the whole deployment."""
        if self.nodes.empty and not self.pods.workloads:
            return pd.DataFrame()
        return run_usage(self.samples, self.nodes, self.pods.workloads, window)


def _read(folder: RunTables, *, with_storage: bool) -> tuple[LatencyCounts | None, Totals | None, _Observed]:
    """Read each table once; of the samples only what is needed of them is kept."""
    counts = folder.counts(["latency"])
    latency = LatencyCounts.read(counts) if counts.num_rows else None
    del counts
    # Arrow keeps what it freed for itself; of a table with ten million rows that is as much as the arrays.
    pa.default_memory_pool().release_unused()
    totals = folder.totals()
    samples, events, window = folder.samples(), folder.events(), folder.record.window
    observed = _Observed(
        deployment_samples(samples),
        node_samples(samples),
        read_pods(samples, events, folder.record.telemetry),
        read_requested(samples, window),
        storage_values(samples, window) if with_storage and window is not None else {},
        events,
    )
    return latency, Totals.read(totals) if totals.num_rows else None, observed


def _rates(window: Window, totals: Totals) -> dict[str, Quantity]:
    """Throughput and bytes per second of the measured window.

    Completions are counted by the second they ended in, over the whole seconds inside the window: a queue that
    drains after the window does not lend it throughput.
    """
    first, last = -(-window.start_us // SECOND_US), window.end_us // SECOND_US
    window_s = (window.end_us - window.start_us) * MICROSECOND_S
    values = {
        "bytes_in_per_s": Quantity(float(totals.bytes_in[totals.in_window].sum()) / window_s),
        "bytes_out_per_s": Quantity(float(totals.bytes_out[totals.in_window].sum()) / window_s),
    }
    if last <= first:
        nothing = Quantity(None, reason="the measured window holds no whole second")
        return values | {"throughput": nothing, "throughput_median": nothing}
    seconds, done = totals.completions()
    per_second = np.zeros(last - first)
    inside = (seconds >= first) & (seconds < last)
    per_second[seconds[inside] - first] = done[inside]
    return values | {
        "throughput": Quantity(float(per_second.mean())),
        "throughput_median": Quantity(float(np.median(per_second))),
    }


def _collapsed(record: RunRecord) -> Quantity:
    if record.verdicts is None:
        return Quantity(None, reason="the run was not judged")
    return Quantity(1.0 if record.verdicts.system == "collapsed" else 0.0)


def _without_load(
    record: RunRecord,
    names: Iterable[str],
    own: Mapping[str, Quantity],
    *,
    reason: str,
    observed: _Observed,
) -> RunData:
    """A run without requests.

    When the system collapsed before the load came, nothing was answered: its latency ranks above every success and
    its goodput is 0. That is a result. In all other cases nothing can be said.
    """
    collapse = _collapsed(record)
    values = {name: Quantity(None, reason=reason) for name in names}
    if collapse.value == 1.0:
        for name in values:
            described = variable(name)
            if described.base in ("goodput", "throughput", "throughput_median", "availability"):
                values[name] = Quantity(0.0, reason=reason)
            elif described.base == "error_ratio":
                values[name] = Quantity(1.0, reason=reason)
            elif described.percentile is not None and not described.successes_only:
                values[name] = Quantity(record.timeout_us * MICROSECOND_S, above=True, reason=reason)
    values["collapsed"] = collapse
    summary = _summary(record, {**values, **own}, None, 0.0, 0)
    nothing = Distribution.of([])
    return RunData(
        record,
        summary,
        nothing,
        (),
        None,
        None,
        observed.samples,
        observed.nodes,
        observed.pods,
        pd.DataFrame(),
        observed.requested,
        observed.events,
    )


def _why_not(record: RunRecord, otherwise: str) -> str:
    return sentences.failure(record.failure) if record.failure else otherwise


def _summary(
    record: RunRecord, values: dict[str, Quantity], totals: Totals | None, window_s: float, due: int
) -> RunSummary:
    verdicts = record.verdicts
    instrument: str
    reasons: tuple[str, ...]
    if record.state != "complete" or verdicts is None:
        instrument, reasons = "incomplete", (_why_not(record, "the run was cut off before it was judged"),)
    else:
        instrument = verdicts.instrument
        reasons = tuple(r.message for r in (*verdicts.instrument_reasons, *verdicts.system_reasons))
    return RunSummary(
        run_id=record.run_id,
        treatment_id=record.treatment_id,
        block=record.block,
        position=record.position,
        attempt=record.attempt,
        instrument=instrument,
        system=verdicts.system if verdicts else "unknown",
        reasons=reasons,
        values=values,
        outcomes=totals.by_outcome() if totals else {},
        statuses=totals.by_status() if totals else {},
        answers=totals.by_answer() if totals else {},
        instances=totals.by_instance() if totals else {},
        window_s=window_s,
        due=due,
    )
