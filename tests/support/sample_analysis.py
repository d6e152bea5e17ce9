"""An `ExperimentAnalysis` with realistic numbers, simulated: three deployments, 8 blocks, one spike workload.

A first-come first-served queue with lognormal service times stands in for the application, so that percentiles,
time series, outcomes and intervals belong together the way they do in a real experiment.
"""

from __future__ import annotations

import functools
import heapq
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from towtank.analysis.model import (
    Comparison,
    Estimate,
    ExperimentAnalysis,
    Finding,
    Quantity,
    RunSummary,
    TreatmentSummary,
)
from towtank.variables import variable

TIMEOUT_S = 2.0
STAGES = (("plateau", 0.0, 3.0, 20.0), ("spike", 3.0, 5.0, 200.0), ("plateau again", 5.0, 8.0, 20.0))
WARMUP_S, END_S, BIN_S, BLOCKS = 1.0, 8.0, 0.5, 8
SHOWN = (
    "requests",
    "throughput",
    "goodput",
    "error_ratio",
    "min",
    "mean",
    "median",
    "p90",
    "p95",
    "p99",
    "max",
    "p95_ok",
    "p99_ok",
    "cpu_cores",
    "memory_bytes",
    "bytes_in_per_s",
    "collapsed",
)


@dataclass(frozen=True)
class Kind:
    """How a deployment behaves in the simulation."""

    id: str
    servers: int
    service_s: float
    memory_mib: float
    limit_cores: float | None = None


KINDS = (
    Kind("one-process", 1, 0.0049, 61.0),
    Kind("two-processes", 2, 0.0064, 118.0),
    Kind("two-processes-limited", 2, 0.0194, 117.0, 0.6),
)


@dataclass
class _Run:
    treatment: str
    block: int
    attempt: int
    scheduled: np.ndarray
    latency: np.ndarray
    ok: np.ndarray
    outcome: np.ndarray
    instance: np.ndarray
    cpu: pd.DataFrame
    collapsed: bool


def _arrivals() -> np.ndarray:
    parts = [np.arange(a, b, 1.0 / rate) for _, a, b, rate in STAGES]
    return np.concatenate(parts)


def _simulate(kind: Kind, block: int, attempt: int, rng: np.random.Generator) -> _Run:
    due = _arrivals()
    block_effect = math.exp(rng.normal(0, 0.05))
    heavy = rng.random(due.size) < 0.15
    service = (
        kind.service_s * block_effect * rng.lognormal(-0.06, 0.35, due.size) * np.where(heavy, 2.2, 0.79)
    )
    free = [(0.0, k) for k in range(kind.servers)]
    heapq.heapify(free)
    latency, instance, busy = (
        np.empty(due.size),
        np.empty(due.size, dtype=int),
        np.zeros(int(END_S * 10) + 40),
    )
    for i, t in enumerate(due):
        at, k = heapq.heappop(free)
        start = max(at, t)
        end = start + (service[i] if start - t < TIMEOUT_S else 0.0)
        heapq.heappush(free, (end, k))
        latency[i], instance[i] = end - t + 0.0004, k
        if int(start * 10) < busy.size:
            busy[int(start * 10)] += end - start
    ok = latency <= TIMEOUT_S
    collapsed = kind.limit_cores is not None and block in (1, 4, 6)
    outcome = np.where(ok, "answered", "timeout:first_byte").astype(object)
    if collapsed:
        dead = (due > 4.4) & (due < 4.4 + 0.25) & (rng.random(due.size) < 0.7)
        outcome[dead], ok[dead] = "reset", False
    cpu_factor = 0.9 if kind.limit_cores is None else 0.29
    t = np.arange(0, END_S, 0.2)
    used = busy.reshape(-1, 2).sum(axis=1)[: t.size] / 0.2 * cpu_factor
    rows = []
    for k in range(kind.servers):
        name = f"app-{k}"
        share = used / kind.servers * rng.uniform(0.94, 1.06) + 0.01
        grow = (
            kind.memory_mib
            * rng.uniform(0.98, 1.02)
            / kind.servers
            * 2**20
            * (1 + 0.04 * np.minimum(t, 5) / 5)
        )
        rows += [(t[j], name, "cpu_cores", share[j]) for j in range(t.size)]
        rows += [(t[j], name, "memory_bytes", grow[j]) for j in range(t.size)]
    cpu = pd.DataFrame(rows, columns=["t_s", "instance", "metric", "value"])
    return _Run(kind.id, block, attempt, due, latency, ok, outcome, instance, cpu, collapsed)


def _percentile(latency: np.ndarray, ok: np.ndarray, q: float) -> Quantity:
    ranked = np.sort(np.where(ok, latency, np.inf))
    high = math.ceil((ranked.size - 1) * q / 100)
    if not math.isfinite(ranked[high]):
        return Quantity(TIMEOUT_S, above=True)
    return Quantity(
        float(np.percentile(ranked[np.isfinite(ranked)], q * ranked.size / np.isfinite(ranked).sum()))
        if np.isfinite(ranked).all()
        else float(ranked[high])
    )


def _values(run: _Run) -> dict[str, Quantity]:
    window = run.scheduled >= WARMUP_S
    latency, ok = run.latency[window], run.ok[window]
    seconds = END_S - WARMUP_S
    cpu = run.cpu[run.cpu.t_s >= WARMUP_S].groupby(["t_s", "metric"]).value.sum().unstack()
    values = {
        "requests": Quantity(float(window.sum())),
        "throughput": Quantity(float(((run.latency < TIMEOUT_S) & window).sum() / seconds)),
        "goodput": Quantity(float(ok.mean())),
        "error_ratio": Quantity(float(1 - ok.mean())),
        "min": Quantity(float(latency[ok].min())),
        "mean": Quantity(float(latency[ok].mean())),
        "max": _percentile(latency, ok, 100),
        "median": _percentile(latency, ok, 50),
        "cpu_cores": Quantity(float(cpu["cpu_cores"].mean())),
        "memory_bytes": Quantity(float(cpu["memory_bytes"].max())),
        "bytes_in_per_s": Quantity(float(ok.sum() * 2216 / seconds)),
        "collapsed": Quantity(1.0 if run.collapsed else 0.0),
    }
    for q in (90, 95, 99):
        values[f"p{q}"] = _percentile(latency, ok, q)
        values[f"p{q}_ok"] = Quantity(float(np.percentile(latency[ok], q)))
    return values


def _counts(values: np.ndarray) -> dict[str, int]:
    names, counts = np.unique(values.astype(str), return_counts=True)
    return {str(n): int(c) for n, c in zip(names, counts, strict=True)}


def _estimate(name: str, runs: list[RunSummary]) -> Estimate:
    method = "t"
    found = [r.values[name] for r in runs]
    numbers = np.array([q.value for q in found if q.value is not None])
    if any(q.above for q in found):
        reason = f"in {sum(q.above for q in found)} of {len(found)} runs it falls among the failures"
        return Estimate(name, TIMEOUT_S, None, None, len(found), 0.95, method, reason, above=True)
    mean, half = float(numbers.mean()), 0.0
    if numbers.size > 1:
        half = float(stats.t.ppf(0.975, numbers.size - 1) * numbers.std(ddof=1) / math.sqrt(numbers.size))
    return Estimate(name, mean, mean - half, mean + half, numbers.size, 0.95, method)


def _compare(name: str, a: list[RunSummary], b: list[RunSummary], *, family: int) -> Comparison:
    var = variable(name)
    pairs = [(x.values[name], y.values[name]) for x, y in zip(a, b, strict=True)]
    where = a[0].treatment_id, b[0].treatment_id
    confirmatory = family > 0
    base = Comparison(
        name,
        *where,
        confirmatory,
        var.scale,
        len(pairs),
        None,
        None,
        None,
        0.95,
        None,
        None,
        None,
        None,
        "",
        "mean over blocks, t interval",
    )
    if any(x.above or y.above for x, y in pairs):
        # as the analysis does: the direction is known in every block, the size is not
        reason = "in some runs this percentile falls among the failures"
        sentence = (
            f"{var.title} of {where[0]} lies above that of {where[1]} "
            f"(98.75 % simultaneous interval above 19 ×; {len(pairs)} blocks; Holm p = 0.031): worse."
        )
        return replace(
            base,
            low=19.0,
            p_value=0.0078,
            p_adjusted=0.031,
            verdict="worse" if confirmatory else None,
            reason=reason,
            sentence=sentence[:1].upper() + sentence[1:],
            method="sign test",
            confidence=0.9875,
        )
    x, y = (np.array([p[k].value for p in pairs], dtype=float) for k in (0, 1))
    log = var.scale == "log"
    delta = np.log(x / y) if log else x - y
    level = 0.95 if not confirmatory else 1 - 0.05 / family
    half = stats.t.ppf(0.5 + level / 2, delta.size - 1) * delta.std(ddof=1) / math.sqrt(delta.size)
    if delta.std() == 0:
        return replace(
            base,
            reason="all blocks agree exactly",
            estimate=math.exp(delta[0]) if log else float(delta[0]),
            verdict="equivalent" if confirmatory else None,
            sentence=f"{where[0]} has the same {var.title} as {where[1]} ({delta.size} blocks): equivalent within 5 %.",
        )
    p = float(stats.ttest_1samp(delta, 0).pvalue)
    low, mid, high = (
        float(math.exp(v)) if log else float(v)
        for v in (delta.mean() - half, delta.mean(), delta.mean() + half)
    )
    neutral, matters = (1.0, 0.05) if log else (0.0, 0.05)
    if low > neutral or high < neutral:
        verdict = "better" if (mid < neutral) == var.lower_is_better else "worse"
    else:
        verdict = "equivalent" if low > neutral - matters and high < neutral + matters else "undecided"
    change = (
        f"{abs(mid - 1):.0%} {'lower' if mid < 1 else 'higher'}"
        if log
        else f"{abs(mid) * 100:.1f} points {'lower' if mid < 0 else 'higher'}"
    )
    return replace(
        base,
        estimate=mid,
        low=low,
        high=high,
        p_value=p,
        p_adjusted=min(1.0, p * max(family, 1)),
        p_permutation=max(p, 2 / 2**delta.size),
        confidence=level,
        verdict=verdict if confirmatory else None,
        sentence=f"{where[0]} has a {var.title} {change} than {where[1]} "
        f"({level * 100:g} % simultaneous interval; {delta.size} blocks): {verdict}.",
    )


def _series(runs: list[_Run]) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows, resources = [], []
    for run in runs:
        run_id = f"b{run.block:02d}-{run.treatment}-a{run.attempt}"
        done = run.scheduled + np.minimum(run.latency, TIMEOUT_S)
        for start in np.arange(0, END_S, BIN_S):
            inside = (run.scheduled >= start) & (run.scheduled < start + BIN_S)
            ok = run.ok[inside]
            p50, p95 = (_percentile(run.latency[inside], ok, q) for q in (50, 95))
            rows.append(
                (
                    run.treatment,
                    run_id,
                    float(start),
                    BIN_S,
                    float(inside.sum() / BIN_S),
                    float(((done >= start) & (done < start + BIN_S)).sum() / BIN_S),
                    None if p50.above else p50.value,
                    None if p95.above else p95.value,
                    float(ok.mean()),
                    int(inside.sum()),
                )
            )
        resources.append(run.cpu.assign(treatment_id=run.treatment, run_id=run_id))
    columns = [
        "treatment_id",
        "run_id",
        "t_s",
        "bin_s",
        "requests_per_s",
        "done_per_s",
        "p50_s",
        "p95_s",
        "goodput",
        "due",
    ]
    return pd.DataFrame(rows, columns=columns), pd.concat(resources, ignore_index=True)


def _heat(runs: list[_Run]) -> pd.DataFrame:
    """Count requests by half second and by half doublings of latency, as `analysis.heat` does in its own steps."""
    parts = []
    for run in runs:
        bucket = np.where(run.ok, np.floor(np.log2(run.latency) * 2), np.nan)
        t = np.floor(run.scheduled / BIN_S) * BIN_S
        parts.append(pd.DataFrame({"treatment_id": run.treatment, "t_s": t, "bucket": bucket}))
    keys = ["treatment_id", "t_s", "bucket"]
    found = pd.concat(parts).groupby(keys, dropna=False, sort=False).size().rename("requests").reset_index()
    due = found.groupby(["treatment_id", "t_s"], sort=False).requests.transform("sum")
    low, high = 2 ** (found.bucket / 2), 2 ** ((found.bucket + 1) / 2)
    return found.assign(bin_s=BIN_S, low_s=low, high_s=high, share=found.requests / due).drop(
        columns="bucket"
    )


def _curves(runs: list[_Run]) -> tuple[pd.DataFrame, pd.DataFrame]:
    ecdf, percentiles = [], []
    for kind in KINDS:
        mine = [r for r in runs if r.treatment == kind.id]
        latency, ok = (
            np.concatenate([getattr(r, a)[r.scheduled >= WARMUP_S] for r in mine]) for a in ("latency", "ok")
        )
        good = np.sort(latency[ok])
        ecdf.append(
            pd.DataFrame(
                {"treatment_id": kind.id, "latency_s": good, "share": np.arange(1, good.size + 1) / ok.size}
            )
        )
        for q in [*np.arange(0, 99, 1.0), *np.arange(99, 99.9, 0.05), 99.9, 99.95]:
            value = _percentile(latency, ok, float(q))
            percentiles.append((kind.id, float(q), None if value.above else value.value))
    return pd.concat(ecdf, ignore_index=True), pd.DataFrame(
        percentiles, columns=["treatment_id", "percentile", "latency_s"]
    )


@functools.cache
def sample_analysis() -> ExperimentAnalysis:
    """Simulate the experiment once per process; seeded."""
    rng = np.random.default_rng(7)
    raw = [_simulate(kind, block, 1, rng) for block in range(1, BLOCKS + 1) for kind in KINDS]
    order = {id(r): i % len(KINDS) + 1 for i, r in enumerate(raw)}
    runs: list[RunSummary] = []
    for r in raw:
        window = r.scheduled >= WARMUP_S
        answered = r.outcome == "answered"
        runs.append(
            RunSummary(
                f"b{r.block:02d}-{r.treatment}-a1",
                r.treatment,
                r.block,
                order[id(r)],
                1,
                "valid",
                "collapsed" if r.collapsed else "degraded" if not r.ok.all() else "intact",
                ("crashed: app-1 exited with code 137 under load",) if r.collapsed else (),
                _values(r),
                _counts(r.outcome[window]),
                {"200": int((answered & window).sum())},
                _counts(np.array([f"app-{k}" for k in r.instance[window]])),
                END_S - WARMUP_S,
                int(window.sum()),
            )
        )
    spoiled = replace(
        runs[4],
        run_id="b02-two-processes-a1",
        instrument="invalid",
        reasons=("run_queue_wait: the engine waited 41 % of the time for a CPU (allowed 5 %)",),
    )
    runs[4] = replace(runs[4], run_id="b02-two-processes-a2", attempt=2, position=4)
    runs[7] = replace(runs[7], instrument="suspect", reasons=("late: lag p99 1.4 ms (suspect from 1 ms)",))
    valid = {k.id: [r for r in runs if r.treatment_id == k.id] for k in KINDS}
    treatments = []
    for kind in KINDS:
        mine = valid[kind.id]
        merged = [
            pd.DataFrame([getattr(r, a) for r in mine]).sum().astype(int).to_dict()
            for a in ("outcomes", "statuses", "instances")
        ]
        both = [r for r in raw if r.treatment == kind.id]
        latency, ok = (
            np.concatenate([getattr(r, a)[r.scheduled >= WARMUP_S] for r in both]) for a in ("latency", "ok")
        )
        treatments.append(
            TreatmentSummary(
                kind.id,
                kind.id,
                {"deployment": kind.id},
                len(mine),
                1 if kind.id == "two-processes" else 0,
                sum(r.system == "collapsed" for r in mine),
                sum(r.system == "degraded" for r in mine),
                {name: _estimate(name, mine) for name in SHOWN},
                {f"p{q}": _percentile(latency, ok, q) for q in (50, 90, 95, 99)},
                *merged,
            )
        )
    base = valid["one-process"]
    others = ("two-processes", "two-processes-limited")
    comparisons = [_compare(v, valid[t], base, family=4) for v in ("p95", "goodput") for t in others]
    comparisons += [
        _compare(v, valid[t], base, family=0)
        for v in ("median", "throughput", "cpu_cores", "memory_bytes")
        for t in others
    ]
    timeseries, resources = _series(raw)
    ecdf, percentiles = _curves(raw)
    slo = pd.DataFrame(
        [
            (
                t.treatment_id,
                "goodput",
                0.99,
                t.estimates["goodput"].mean,
                (t.estimates["goodput"].mean or 0) >= 0.99,
            )
            for t in treatments
        ],
        columns=["treatment_id", "variable", "bound", "value", "held"],
    )
    slo = slo.assign(runs=8, runs_held=[8, 8, 5], worst=[1.0, 1.0, 0.89], reason="")
    return ExperimentAnalysis(
        headline=(
            "Two processes serve this workload better than one: p95 latency is "
            f"{1 - comparisons[0].estimate:.0%} lower, with 98.75 % confidence. "  # type: ignore[operator]
            "With a CPU limit of 0.6 cores they lose requests, and 3 of 8 runs collapsed."
        ),
        decided=True,
        slo_held=False,
        runs=(*sorted([*runs, spoiled], key=lambda r: (r.block, r.attempt, r.position)),),
        treatments=tuple(treatments),
        comparisons=tuple(comparisons),
        findings=_FINDINGS,
        timeseries=timeseries,
        heat=_heat(raw),
        resources=resources,
        ecdf=ecdf,
        percentiles=percentiles,
        stages=[
            {"treatment_id": t.treatment_id, "workload": "spike", "name": n, "start_s": a, "end_s": b}
            for t in treatments
            for n, a, b, _ in STAGES
        ],
        slo=slo,
        meta=_META,
    )


_FINDINGS = (
    Finding(
        "engine_starved",
        "warning",
        "One run was spoiled by the instrument: the engine waited for a CPU 41 % of the time.",
        "It was repeated at the end of its block and enters no estimate. Close other programs here.",
        ("b02-two-processes-a1",),
    ),
    Finding(
        "collapsed",
        "serious",
        "two-processes-limited collapsed in 3 of 8 runs: app-1 was killed under load.",
        "This is a result, not an error; raise the memory limit to tell the CPU limit's effect alone.",
        ("b01-two-processes-limited-a1", "b04-two-processes-limited-a1", "b06-two-processes-limited-a1"),
    ),
    Finding(
        "same_host",
        "info",
        "The load engine shares this machine's 2 cores with what it measures.",
        "Ratios between treatments are fair; absolute latencies are higher than with a generator of its own.",
    ),
)

_FILE = """\
experiment: quickstart
question: Which deployment of the catalogue serves a sudden spike best?
answer: {primary: [p95, goodput], baseline: one-process, matters: 5%}
repetitions: 8
seed: 7
factors:
  deployment: [one-process, two-processes, two-processes-limited]
workloads:
  spike:
    load:
      model: open
      stages:
        - {name: plateau, rate: 20/s, hold: 3s}
        - {name: spike, rate: 200/s, hold: 2s}
        - {name: plateau again, rate: 20/s, hold: 3s}
    journey: journeys/shopper.yaml
    timeout: 2s
"""

_JOURNEY = """\
steps:
  - {name: list, path: /items}
  - {name: read, path: "/items/{{ random_int(1, 500) }}"}
"""

_META: dict[str, Any] = {
    "experiment": "quickstart",
    "question": "Which deployment of the catalogue serves a sudden spike best?",
    "answer": {
        "primary": ["p95", "goodput"],
        "baseline": "one-process",
        "contrasts": "baseline",
        "matters": 0.05,
        "confidence": 0.95,
    },
    "seed": 7,
    "order": "randomized-blocks",
    "digest": "9f2c1f9c0d1b4e0c8b7a2f7c7d3f63c0aa0c2d1f5b9e4d7c8a6b5c4d3e2f1a09",
    "started_utc": "2026-03-02T09:14:05Z",
    "finished_utc": "2026-03-02T09:18:41Z",
    "versions": {
        "towtank": "0.1.0",
        "towtank-engine": "0.1.0 (release)",
        "python": "3.11.9",
        "apps/catalogue": "9bb1c1d",
    },
    "hosts": [
        {
            "host": "lab-3",
            "cpu": "AMD EPYC 7B13",
            "cores": 2,
            "memory_bytes": 8 * 2**30,
            "kernel": "Linux 6.1.0-28-amd64",
        }
    ],
    "files": {"experiment.yaml": _FILE, "journeys/shopper.yaml": _JOURNEY},
    "command": "towtank run experiment.yaml",
}

HOSTILE = (
    '<img src=x onerror="alert(1)">',
    "</script><script>alert(2)</script>",
    "[click](javascript:alert(3))",
    "\x1b[31mred\x1b[0m\x07\u202e|`*_#",
    "}</style><style>body{display:none}",
    "<!--\u2028{{ 7*7 }}{% raw %}",
)
"""What a file or a server might plant: HTML, script, Markdown, terminal, CSS and template injections."""


def hostile_analysis() -> ExperimentAnalysis:
    """Turn every string that a file or a server can choose into something that tries to break out."""
    clean = sample_analysis()
    name = dict(zip([t.treatment_id for t in clean.treatments], HOSTILE, strict=False))
    runs = tuple(
        replace(
            r,
            treatment_id=r.treatment_id,
            reasons=(*r.reasons, HOSTILE[1], HOSTILE[3]),
            outcomes={**r.outcomes, HOSTILE[0]: 3, HOSTILE[3]: 1},
            statuses={**r.statuses, HOSTILE[1]: 2},
            instances={HOSTILE[i % 6]: n for i, n in enumerate(r.instances.values())},
        )
        for r in clean.runs
    )
    treatments = tuple(
        replace(
            t,
            label=name[t.treatment_id],
            levels={"deployment": name[t.treatment_id]},
            outcomes={**t.outcomes, HOSTILE[0]: 24, HOSTILE[3]: 8},
            statuses={**t.statuses, HOSTILE[1]: 16},
            instances={HOSTILE[i]: n for i, n in enumerate(t.instances.values())},
        )
        for t in clean.treatments
    )
    planted = " ".join(HOSTILE)
    return replace(
        clean,
        headline=planted,
        runs=runs,
        treatments=treatments,
        comparisons=tuple(
            replace(c, sentence=planted, reason=planted, method=planted) for c in clean.comparisons
        ),
        findings=tuple(Finding(h, "warning", h, h, (h,)) for h in HOSTILE),
        stages=[
            {**s, "name": HOSTILE[i % len(STAGES)], "workload": HOSTILE[0]}
            for i, s in enumerate(clean.stages)
        ],
        meta={
            **clean.meta,
            "experiment": HOSTILE[0],
            "question": planted,
            "command": planted,
            "digest": HOSTILE[1],
            "files": {HOSTILE[1]: planted + "\n```\n# heading\n", HOSTILE[0]: planted},
            "versions": {HOSTILE[4]: HOSTILE[1]},
            "hosts": [{HOSTILE[2]: HOSTILE[0]}],
        },
    )
