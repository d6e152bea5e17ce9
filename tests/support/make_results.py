"""Realistic synthetic result folders with planted effects: seeded, fast, exactly the format of docs/formats.md.

The tables are drawn with numpy, everything else goes through the real writer, so that what tests read is what
campaigns write. Nothing here runs a load.

>>> make_results(folder, treatments={"one": TreatmentModel(), "two": TreatmentModel(median_ms=8)}, blocks=8)
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from towtank.design.model import (
    Answer,
    ClosedLoad,
    Expect,
    ExperimentSpec,
    Journey,
    Observe,
    OpenLoad,
    OpenStage,
    Request,
    TreatmentSpec,
    Workload,
)
from towtank.design.plan import Plan, PlannedRun, Treatment
from towtank.platforms.external_config import ExternalConfig
from towtank.store.run_record import ClockRecord, Reason, RunRecord, StageWindow, Verdicts, Window
from towtank.store.schemas import REQUESTS
from towtank.store.writer import RunWriter, create_results
from towtank.telemetry.base import Event, Sample

BOOT_ID = "5a4f0c1e-0000-4000-8000-000000000000"
WORKLOAD = "shop"


@dataclass(frozen=True)
class Step:
    """One request of the journey; its service time is the treatment's times `factor`."""

    name: str
    factor: float = 1.0
    bytes_in: int = 400


@dataclass(frozen=True)
class Stage:
    """A share of the run at a multiple of the rate; latency grows with `(multiple - 1) * treatment.load_effect`."""

    name: str
    multiple: float
    share: float


@dataclass(frozen=True)
class TreatmentModel:
    """What the requests of a treatment look like.

    Parameters
    ----------
    levels : mapping, optional
        Default: ``{"deployment": <id>}``.
    median_ms, sigma : float
        Lognormal service time of a step with factor 1.
    load_effect : float
        How much a spike stretches latencies.
    slow_start : float
        By how much, as a multiple, the first requests are slower; it fades with `SLOW_START_S`.
    run_sd : float
        Standard deviation of the log of the run's own factor, on top of the block's.
    errors, timeouts, refused, not_sent : float
        Shares of requests, 0–1.
    collapsed, degraded, invalid, suspect : sequence of int
        Blocks (from 1). A collapsed run fails from 60 % on; an invalid one is followed by a good attempt.
    unfinished : sequence of int
        Blocks whose run stays `running`, its requests still in the engine's logs.
    """

    levels: Mapping[str, Any] | None = None
    median_ms: float = 10.0
    sigma: float = 0.4
    load_effect: float = 0.1
    slow_start: float = 0.0
    run_sd: float = 0.03
    errors: float = 0.0
    timeouts: float = 0.0
    refused: float = 0.0
    not_sent: float = 0.0
    instances: int = 1
    cpu_cores: float = 0.5
    memory_mib: float = 64.0
    collapsed: Sequence[int] = ()
    degraded: Sequence[int] = ()
    invalid: Sequence[int] = ()
    suspect: Sequence[int] = ()
    unfinished: Sequence[int] = ()


SLOW_START_S = 3.0
PLATEAU = (Stage("plateau", 1.0, 1.0),)
SPIKE = (Stage("plateau", 1.0, 0.4), Stage("spike", 10.0, 0.2), Stage("recovery", 1.0, 0.4))
JOURNEY = (Step("list"), Step("read", 0.5, 1200), Step("cpu", 2.0, 80))


@dataclass(frozen=True)
class Setting:
    """What is the same in all runs of one folder."""

    load: Literal["open", "closed"]
    rate_per_s: float
    users: int
    duration_us: int
    warmup_us: int
    timeout_us: int
    stages: Sequence[Stage]
    steps: Sequence[Step]
    poisson: bool
    sample_hz: float
    worker_count: int = 1
    bounds_us: list[int] = field(default_factory=list)


def make_results(
    path: Path,
    *,
    treatments: Mapping[str, TreatmentModel],
    blocks: int = 8,
    seed: int = 7,
    load: Literal["open", "closed"] = "open",
    rate_per_s: float = 50.0,
    users: int = 10,
    duration_s: float = 8.0,
    warmup_s: float = 1.0,
    timeout_s: float = 5.0,
    stages: Sequence[Stage] = PLATEAU,
    steps: Sequence[Step] = JOURNEY,
    poisson: bool = False,
    block_sd: float = 0.05,
    sample_hz: float = 5.0,
    workers: int = 1,
    experiment: str = "synthetic",
    question: str = "Which deployment serves the workload better?",
    answer: Answer | None = None,
    baseline: str | None = None,
    order: Literal["randomized-blocks", "listed"] = "randomized-blocks",
    slo: Mapping[str, float] | None = None,
) -> Path:
    """Write a result folder.

    Parameters
    ----------
    path : Path
        The result folder itself; created.
    treatments : mapping
        Treatment id → model, in the order of the file.
    blocks : int
        Repetitions of every treatment.
    seed : int
        Fixes everything, byte for byte but for the clock in run.json.
    rate_per_s, users : float, int
        Arrivals of journeys (open), or the population (closed).
    block_sd : float
        Standard deviation of the log of a block's factor, shared by its runs.

    Returns
    -------
    Path
        `path`.
    """
    setting = Setting(
        load, rate_per_s, users, round(duration_s * 1e6), round(warmup_s * 1e6), round(timeout_s * 1e6),
        stages, steps, poisson, sample_hz, workers,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    spec = ExperimentSpec(
        experiment=experiment, question=question, repetitions=blocks, order=order, seed=seed,
        answer=answer or Answer(primary=("p95", "throughput"), baseline=baseline or next(iter(treatments))),
        factors=_factors(treatments),
    )  # fmt: skip
    plan = _plan(
        spec=spec, treatments=treatments, blocks=blocks, setting=setting, rng=rng, slo=dict(slo or {})
    )
    results = create_results(path, plan, _environment())
    block_factors = np.exp(rng.normal(0.0, block_sd, blocks + 1))
    started = dt.datetime(2026, 1, 5, 9, 0, tzinfo=dt.UTC)
    for planned in plan.runs:
        model = treatments[planned.treatment_id]
        attempts = 2 if planned.block in model.invalid else 1
        for attempt in range(1, attempts + 1):
            run_rng = np.random.default_rng([seed, planned.seed % 2**32, attempt])
            factor = block_factors[planned.block] * np.exp(run_rng.normal(0.0, model.run_sd))
            _write_run(
                results.path, plan, planned, attempt, model=model, setting=setting, factor=factor, rng=run_rng,
                started=started, invalid=attempt == 1 and planned.block in model.invalid,
            )  # fmt: skip
            started += dt.timedelta(microseconds=setting.duration_us) + dt.timedelta(seconds=5)
    return path


def _factors(treatments: Mapping[str, TreatmentModel]) -> dict[str, tuple[Any, ...]]:
    factors: dict[str, list[Any]] = {}
    for name, model in treatments.items():
        for factor, level in (model.levels or {"deployment": name}).items():
            if level not in factors.setdefault(factor, []):
                factors[factor].append(level)
    return {factor: tuple(levels) for factor, levels in factors.items()}


def _plan(
    *, spec: ExperimentSpec, treatments: Mapping[str, TreatmentModel], blocks: int, setting: Setting,
    rng: np.random.Generator, slo: dict[str, float],
) -> Plan:  # fmt: skip
    listed = tuple(
        Treatment(
            name, index, dict(model.levels or {"deployment": name}), _treatment_spec(name, setting, slo)
        )
        for index, (name, model) in enumerate(treatments.items())
    )
    runs = []
    for block in range(1, blocks + 1):
        names = list(treatments)
        if spec.order == "randomized-blocks":
            rng.shuffle(names)
        for position, name in enumerate(names, start=1):
            runs.append(PlannedRun(f"b{block:02d}-{name}", block, position, name, int(rng.integers(2**31))))
    text = f"experiment: {spec.experiment}\nquestion: {json.dumps(spec.question)}\n"
    digest = hashlib.sha256(text.encode() + json.dumps(sorted(treatments)).encode()).hexdigest()
    return Plan(spec, listed, tuple(runs), digest, {"experiment.yaml": text})


def _treatment_spec(name: str, setting: Setting, slo: dict[str, float]) -> TreatmentSpec:
    seconds = setting.duration_us / 1e6
    if setting.load == "open":
        load: OpenLoad | ClosedLoad = OpenLoad(
            model="open", warmup=f"{setting.warmup_us}us", arrivals="poisson" if setting.poisson else "uniform",
            stages=tuple(
                OpenStage(name=s.name, rate=setting.rate_per_s * s.multiple, hold=f"{s.share * seconds}s")
                for s in setting.stages
            ),
        )  # fmt: skip
    else:
        load = ClosedLoad(
            model="closed", users=setting.users, duration=f"{seconds}s", warmup=f"{setting.warmup_us}us"
        )
    steps = tuple(Request(name=s.name, path=f"/{s.name}", expect=Expect()) for s in setting.steps)
    return TreatmentSpec(
        deployment_name=name, workload_name=WORKLOAD, deployment=ExternalConfig(platform="external", url="http://127.0.0.1:8101"),
        workload=Workload(load=load, journey=Journey(steps=steps), timeout=f"{setting.timeout_us}us"),
        reset_stated=True, observe=(Observe(source="host"), Observe(source="process")), slo=slo,
    )  # fmt: skip


def _environment() -> dict[str, Any]:
    return {
        "schema_version": 1,
        "host": {
            "hostname": "tank", "kernel": "6.1.0", "machine": "x86_64", "cpu": "Synthetic CPU", "cores": 2,
            "memory_bytes": 8 << 30, "boot_id": BOOT_ID,
        },
        "versions": {"towtank": "0.1.0", "engine": "0.1.0", "python": "3.11.7"},
        "engine": {"version": "0.1.0", "profile": "release", "backend": "epoll"},
    }  # fmt: skip


# --- requests --------------------------------------------------------------------------------------------


def stage_bounds(setting: Setting) -> list[int]:
    """Ends of the stages on the run clock, µs."""
    ends = np.cumsum([s.share for s in setting.stages])
    return [round(float(end / ends[-1]) * setting.duration_us) for end in ends]


def _arrivals(setting: Setting, rng: np.random.Generator) -> np.ndarray:
    start, due = 0, []
    for stage, end in zip(setting.stages, stage_bounds(setting), strict=True):
        count = round(setting.rate_per_s * stage.multiple * (end - start) / 1e6)
        offsets = np.sort(rng.random(count)) if setting.poisson else (np.arange(count)) / max(count, 1)
        due.append(start + (offsets * (end - start)).astype(np.int64))
        start = end
    return np.concatenate(due)


def _stretch(setting: Setting, model: TreatmentModel, scheduled: np.ndarray) -> np.ndarray:
    """Factor of the load at the moment of each request."""
    stage = np.searchsorted(stage_bounds(setting), scheduled, side="right").clip(max=len(setting.stages) - 1)
    multiples = np.array([s.multiple for s in setting.stages])[stage]
    warming = model.slow_start * np.exp(-scheduled / 1e6 / SLOW_START_S)
    return 1.0 + (multiples - 1.0) * model.load_effect + warming


def _total_us(
    setting: Setting,
    model: TreatmentModel,
    step: Step,
    scheduled: np.ndarray,
    *,
    factor: float,
    rng: np.random.Generator,
) -> np.ndarray:
    median = model.median_ms * 1000.0 * step.factor * factor * _stretch(setting, model, scheduled)
    drawn = median * np.exp(rng.normal(0.0, model.sigma, len(scheduled)))
    return np.clip(drawn, 50, setting.timeout_us).astype(np.int64)


def _journeys(
    setting: Setting, model: TreatmentModel, factor: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Schedule of every request: due, total, user, iteration, step number."""
    parts: list[tuple[np.ndarray, ...]] = []
    if setting.load == "open":
        due = _arrivals(setting, rng)
        user, iteration = np.arange(len(due)), np.zeros(len(due), np.int64)
        for number, step in enumerate(setting.steps):
            total = _total_us(setting, model, step, due, factor=factor, rng=rng)
            parts.append((due, total, user, iteration, np.full(len(due), number)))
            due = due + total + 200
    else:
        user = np.arange(setting.users)
        due = np.zeros(setting.users, np.int64)
        iteration = np.zeros(setting.users, np.int64)
        while len(user):
            for number, step in enumerate(setting.steps):
                total = _total_us(setting, model, step, due, factor=factor, rng=rng)
                parts.append((due, total, user, iteration, np.full(len(due), number)))
                due = due + total + 200
            active = due < setting.duration_us
            due, user, iteration = due[active], user[active], iteration[active] + 1
    names = ("scheduled", "total", "user", "iteration", "step")
    table = {n: np.concatenate(c) for n, c in zip(names, zip(*parts, strict=True), strict=True)}
    order = np.argsort(table["scheduled"], kind="stable")
    return {n: c[order] for n, c in table.items()}


_OUTCOMES = ("answered", "check:status", "timeout:first_byte", "refused", "not_sent", "interrupted")


def _outcomes(
    setting: Setting,
    model: TreatmentModel,
    rows: dict[str, np.ndarray],
    rng: np.random.Generator,
    *,
    collapsed: bool,
) -> np.ndarray:
    n = len(rows["scheduled"])
    shares = np.array([model.errors, model.timeouts, model.refused, model.not_sent])
    outcome = np.searchsorted(np.cumsum(shares[::-1]), rng.random(n), side="right")
    outcome = np.array([4, 3, 2, 1, 0])[outcome]
    if collapsed:
        late = rows["scheduled"] >= 0.6 * setting.duration_us
        outcome[late] = np.where(rng.random(int(late.sum())) < 0.7, 3, 2)
    end = setting.duration_us + setting.timeout_us
    outcome[rows["scheduled"] + rows["total"] > end] = 5
    return outcome


def draw_requests(
    setting: Setting, model: TreatmentModel, factor: float, rng: np.random.Generator, deployment: str, *,
    collapsed: bool, late: bool,
) -> pa.Table:  # fmt: skip
    """Requests of one run, in the exact Parquet schema."""
    rows = _journeys(setting, model, factor, rng)
    n = len(rows["scheduled"])
    outcome = _outcomes(setting, model, rows, rng, collapsed=collapsed)
    sent = outcome != 4
    answered = np.isin(outcome, (0, 1))
    first_byte = answered | (outcome == 5)
    total = np.where(outcome == 2, setting.timeout_us, np.where(outcome == 3, 300, rows["total"]))
    ttfb = (total * 0.9).astype(np.int64)
    opened = rng.random(n) < 0.02
    lag = np.exp(rng.normal(np.log(20_000 if late else 40), 0.5, n)).astype(np.int64)
    wait = np.where(sent, rng.integers(0, 20, n), setting.timeout_us)
    instance = rng.integers(0, model.instances, n)
    sizes = np.array([s.bytes_in for s in setting.steps])[rows["step"]]
    status = np.where(outcome == 1, 503, 200)

    def texts(codes: np.ndarray, names: Sequence[str], mask: np.ndarray | None = None) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=mask), list(names))

    def number(values: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
        return pa.array(values.astype(np.int32), mask=missing)

    nothing = np.ones(n, dtype=bool)
    columns = {
        "scheduled_us": pa.array(rows["scheduled"]),
        "lag_us": number(lag),
        "wait_us": number(wait),
        "dns_us": number(lag, nothing),
        "connect_us": number(rng.integers(40, 120, n), ~(opened & sent)),
        "tls_us": number(lag, nothing),
        "ttfb_us": number(ttfb, ~first_byte),
        "after_ttfb_us": number(np.where(first_byte, total - ttfb, total), ~sent),
        "status": number(status, ~answered),
        "outcome": texts(outcome, _OUTCOMES),
        "bytes_out": pa.array(np.where(sent, 120, 0)),
        "bytes_in": pa.array(np.where(answered, sizes, 0)),
        "workload": texts(np.zeros(n), [WORKLOAD]),
        "step": texts(rows["step"], [s.name for s in setting.steps]),
        "target": texts(np.zeros(n), ["app"]),
        "instance": texts(
            instance, [f"{deployment}-{i}" for i in range(model.instances)], ~sent | (outcome == 3)
        ),
        "user": number(rows["user"]),
        "iteration": number(rows["iteration"]),
        "worker": number(rows["user"] % setting.worker_count),
        "attempt": number(np.zeros(n)),
        "http_version": texts(np.zeros(n), ["1.1"]),
        "redirects": number(np.zeros(n)),
        "reused": pa.array(~opened & sent),
        "warmup": pa.array(rows["scheduled"] < setting.warmup_us),
        "cold": pa.array(np.zeros(n, dtype=bool), mask=nothing),
    }
    return pa.table(columns)


# --- runs ------------------------------------------------------------------------------------------------


def _write_run(
    root: Path, plan: Plan, planned: PlannedRun, attempt: int, *, model: TreatmentModel, setting: Setting,
    factor: float, rng: np.random.Generator, started: dt.datetime, invalid: bool,
) -> None:  # fmt: skip
    treatment = plan.treatment(planned.treatment_id)
    collapsed = planned.block in model.collapsed and not invalid
    table = draw_requests(setting, model, factor, rng, treatment.id, collapsed=collapsed, late=invalid)
    writer = RunWriter.create(
        root, planned, attempt, experiment=plan.experiment.experiment, treatment_label=treatment.label,
        levels=treatment.levels, workload=WORKLOAD, load_model=setting.load, timeout_us=setting.timeout_us,
        started_utc=_utc(started), engine=_environment()["engine"], versions=_environment()["versions"],
        environment_digest="e" * 64,
    )  # fmt: skip
    with writer:
        writer.write_samples(_samples(setting, model, treatment.id, rng, collapsed=collapsed))
        writer.write_events(_events(setting, treatment.id, collapsed=collapsed))
        (writer.layout.logs / f"{treatment.id}-0.log").write_text("listening\n", encoding="utf-8")
        if planned.block in model.unfinished:
            from support.make_logs import write_log

            write_log(writer.layout.request_logs / "thread-0.log", table.cast(REQUESTS), finish=False)
            return
        pq.write_table(
            table, writer.layout.requests, compression="zstd", store_schema=False, row_group_size=1 << 20
        )
        writer.close(
            _record(writer.record, planned, model, setting, started, collapsed=collapsed, invalid=invalid)
        )


def _record(
    record: RunRecord, planned: PlannedRun, model: TreatmentModel, setting: Setting, started: dt.datetime, *,
    collapsed: bool, invalid: bool,
) -> RunRecord:  # fmt: skip
    bounds = [0, *stage_bounds(setting)]
    stages = setting.stages if setting.load == "open" else (Stage("plateau", 1.0, 1.0),)
    if setting.load == "closed":
        bounds = [0, setting.duration_us]
    return record.model_copy(
        update={
            "clock": ClockRecord(zero_monotonic_ns=10**12, zero_utc=_utc(started), boot_id=BOOT_ID),
            "window": Window(
                start_us=setting.warmup_us,
                end_us=setting.duration_us,
                drained_us=setting.duration_us + 40_000,
            ),
            "stages": tuple(
                StageWindow(workload=WORKLOAD, name=s.name, start_us=a, end_us=b)
                for s, a, b in zip(stages, bounds, bounds[1:], strict=False)
            ),
            "verdicts": _verdicts(planned, model, collapsed=collapsed, invalid=invalid),
            "deployment": {"platform": "external", "instances": [f"{planned.treatment_id}-0"]},
            "finished_utc": _utc(started + dt.timedelta(microseconds=setting.duration_us)),
            "timings_s": {"deploy": 0.4, "settle": 1.0, "drive": setting.duration_us / 1e6},
        }
    )


def _verdicts(planned: PlannedRun, model: TreatmentModel, *, collapsed: bool, invalid: bool) -> Verdicts:
    instrument: Literal["valid", "suspect", "invalid"] = "valid"
    system: Literal["intact", "degraded", "collapsed"] = "intact"
    reasons: tuple[Reason, ...] = ()
    system_reasons: tuple[Reason, ...] = ()
    if invalid or planned.block in model.suspect:
        instrument = "invalid" if invalid else "suspect"
        reasons = (
            Reason(name="engine_late", value=0.021, threshold=0.01, message="the engine was late: lag p99 21 ms",
                   advice="give the engine a core of its own"),
        )  # fmt: skip
    if collapsed:
        system = "collapsed"
        system_reasons = (
            Reason(name="crashed", value=1.0, threshold=0.0, message="app-0 exited with code 137"),
        )
    elif planned.block in model.degraded:
        system = "degraded"
        system_reasons = (
            Reason(name="failures", value=0.02, threshold=0.01, message="2 % of requests failed"),
        )
    return Verdicts(
        instrument=instrument, instrument_reasons=reasons, system=system, system_reasons=system_reasons
    )


def _samples(
    setting: Setting, model: TreatmentModel, deployment: str, rng: np.random.Generator, *, collapsed: bool
) -> list[Sample]:
    times = np.arange(-1_000_000, setting.duration_us + 500_000, round(1e6 / setting.sample_hz))
    active = (times >= 0) & (times < setting.duration_us * (0.6 if collapsed else 1.0))
    samples = []
    for i, t in enumerate(times.tolist()):
        used = model.cpu_cores * float(rng.uniform(0.9, 1.1)) if active[i] else 0.01
        samples += [
            Sample(t, "host", "", "cpu_used_ratio", min(1.0, used / 2 + 0.05)),
            Sample(t, "host", "", "cpu_steal_ratio", 0.0),
            Sample(t, "host", "", "memory_used_bytes", 2.0 * 2**30),
        ]
        for number in range(model.instances):
            if collapsed and t >= 0.6 * setting.duration_us and number == 0:
                continue
            name = f"{deployment}-{number}"
            samples.append(Sample(t, "process", name, "cpu_cores", used / model.instances))
            samples.append(
                Sample(t, "process", name, "memory_bytes", model.memory_mib * 2**20 / model.instances)
            )
    return samples


def _events(setting: Setting, deployment: str, *, collapsed: bool) -> list[Event]:
    events = [Event(-900_000, "platform", "ready", f"{deployment}-0", "answers its readiness probe")]
    if collapsed:
        detail = json.dumps({"code": 137})
        at = round(0.6 * setting.duration_us)
        events.append(Event(at, "platform", "crashed", f"{deployment}-0", "exited with code 137", detail))
    return events


def _utc(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
