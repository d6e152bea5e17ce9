"""What an autoscaler should have done: its algorithm, fed with what was observed, beside what it did.

Every prediction goes by the instances that really were there: it says what the algorithm decides in that situation, not
what would have become of a run in which it had always decided so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import ValidationError

from towtank.analysis.intervals import FloatArray
from towtank.analysis.scaling_agreement import (
    AVERAGES,
    LINE_COLUMNS,
    LOAD,
    METRICS,
    Prediction,
    Seen,
    anew,
    compared,
    phase,
)
from towtank.autoscaling.hpa.controller import CONCURRENCY, CPU, RPS
from towtank.autoscaling.hpa.installed import installed_settings as installed_hpa
from towtank.autoscaling.hpa.replay import Look, Measured, replay
from towtank.autoscaling.hpa.settings import HpaSettings
from towtank.autoscaling.kpa.installed import CONFIG_MAP, HPA_CLASS, class_of
from towtank.autoscaling.kpa.installed import installed_settings as installed_kpa
from towtank.autoscaling.kpa.replay import Averages, Second, by_averages, by_load
from towtank.autoscaling.kpa.settings import TICK_S, KpaSettings
from towtank.errors import PlatformError
from towtank.store.run_record import RunRecord

COLUMNS = ("treatment_id", "run_id", "autoscaler", "algorithm", "by", "ticks", "equal", "largest", "reason")
SERIES_COLUMNS = ("treatment_id", "run_id", "autoscaler", *LINE_COLUMNS)
_SEEN = {f"autoscaler_seen_{name}": name for name in (CPU, CONCURRENCY, RPS)}
_PERCENT = 100
_HPA = "HorizontalPodAutoscaler/"
TICK_SECONDS = round(TICK_S)


@dataclass(frozen=True, eq=False)
class RunPredictions:
    """All autoscalers of one run."""

    treatment_id: str
    run_id: str
    found: tuple[Prediction, ...]


def is_scaled(record: RunRecord) -> bool:
    """Whether an autoscaler was at work whose algorithm is known here: only then are there samples to look at."""
    in_cluster = any(source.get("autoscalers") for source in record.telemetry.get("sources", ()))
    return bool(record.deployment.get("scaling") or record.deployment.get("knative") or in_cluster)


def of_run(record: RunRecord, samples: pa.Table) -> RunPredictions | None:
    """Predict what every autoscaler of a run should have decided; None where none was at work."""
    seen = Seen.of(samples)
    found = (*_local(record, seen), *_knative(record, seen), *_kubernetes(record, seen))
    return RunPredictions(record.treatment_id, record.run_id, found) if found else None


def table(runs: Sequence[RunPredictions]) -> pd.DataFrame:
    """One row for each run and autoscaler: `COLUMNS`."""
    rows = [
        (run.treatment_id, run.run_id, one.autoscaler, one.algorithm, one.by, one.ticks, one.equal, one.largest,
         one.reason)
        for run in runs for one in run.found
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def series(runs: Sequence[RunPredictions]) -> pd.DataFrame:
    """What figures draw: `SERIES_COLUMNS`."""
    parts = [
        one.series.assign(treatment_id=run.treatment_id, run_id=run.run_id, autoscaler=one.autoscaler)
        for run in runs
        for one in run.found
        if not one.series.empty
    ]
    if not parts:
        return pd.DataFrame(columns=list(SERIES_COLUMNS))
    return pd.concat(parts, ignore_index=True)[list(SERIES_COLUMNS)]


# --- deployments of this machine -------------------------------------------------------------------------------------


def _local(record: RunRecord, seen: Seen) -> Iterator[Prediction]:
    """Components of a local deployment whose autoscaler is one of the two."""
    for component, about in (record.deployment.get("scaling") or {}).items():
        settings = about.get("settings") or {}
        try:
            if settings.get("kpa") is not None:
                yield _local_kpa(component, KpaSettings.model_validate(settings["kpa"]), seen)
            elif settings.get("hpa") is not None:
                yield _local_hpa(component, HpaSettings.model_validate(settings["hpa"]), seen)
        except ValidationError:
            yield Prediction(component, "KPA" if "kpa" in settings else "HPA", reason=_OTHER_VERSION)


_OTHER_VERSION = "its settings were written by another version of Towtank and cannot be read"
_UNSEEN = "its decisions were not observed: add `scaling` to `observe`"
_NOT_KEPT = "it is Kubernetes' own, and what it measured for a revision is not kept"
_NOT_IN_CLUSTER = "its decisions were not observed: add `knative` to `observe`"


def _local_kpa(component: str, settings: KpaSettings, seen: Seen) -> Prediction:
    """From the load that the ingress counted each second."""
    times, load = seen.line("scaling", component, "ingress_concurrency")
    told, _ = seen.line("scaling", component, "autoscaler_desired")
    if not times.size or not told.size:
        return Prediction(component, "KPA", reason=_UNSEEN)
    arrivals = seen.at("scaling", component, "ingress_requests_per_s", times)
    ready = np.nan_to_num(seen.at("scaling", component, "replicas_ready", times))
    wanted = seen.at("scaling", component, "autoscaler_desired", times)
    seconds = [
        Second(
            float(t),
            float(load[i]),
            float(arrivals[i]),
            int(ready[i]),
            _told_at(told, float(times[i - 1]) if i else float(t) - 1.0, float(t)),
        )
        for i, t in enumerate(times)
    ]
    # what was decided between two seconds is of a first request, and tells nothing of ticks
    before = seen.at("scaling", component, "autoscaler_desired", np.nextafter(times, -np.inf))
    changed = np.flatnonzero((before != wanted) & ~np.isnan(before))
    decided = by_load(settings, seconds, first_tick=phase(changed, TICK_SECONDS))
    places = np.array(list(decided), dtype=int)
    return compared(
        Prediction(component, "KPA", LOAD),
        times[places],
        np.array(list(decided.values()), dtype=float),
        wanted[places],
        seen.line("scaling", component, "replicas_ready"),
    )


def _told_at(told: FloatArray, begin_s: float, end_s: float) -> float | None:
    """When, within a second, a decision was made: only a first request that finds nobody brings one about."""
    inside = told[(told > begin_s) & (told < end_s)]
    return float(inside[0]) if inside.size else None


def _local_hpa(component: str, settings: HpaSettings, seen: Seen) -> Prediction:
    """From the means over instances that the HPA measured."""
    times, desired = seen.line("scaling", component, "autoscaler_desired")
    if not times.size:
        return Prediction(component, "HPA", reason=_UNSEEN)
    ready = np.nan_to_num(seen.at("scaling", component, "replicas_ready", times))
    there = np.nan_to_num(seen.at("scaling", component, "replicas_current", times))
    metrics = {name: seen.at("scaling", component, metric, times) for metric, name in _SEEN.items()}
    # of an instance that was not there when the last measurement began, nothing is known yet
    window = max(1, round(settings.metrics_resolution))
    period = max(1, round(settings.sync_period))
    places = np.arange(len(times))[phase(np.flatnonzero(np.diff(desired)) + 1, period) :: period]
    places = places[places > 0]
    looks = [
        Look(
            float(times[i]),
            int(desired[i - 1]),
            int(ready[i]),
            int(max(0, there[i] - ready[i])),
            {
                name: Measured(float(values[i]), int(ready[max(0, i - window) : i + 1].min()))
                for name, values in metrics.items()
                if not np.isnan(values[i])
            },
        )
        for i in places
    ]
    found = np.array([outcome.replicas for outcome in replay(settings, looks)], dtype=float)
    lines = seen.line("scaling", component, "replicas_ready")
    return compared(Prediction(component, "HPA", METRICS), times[places], found, desired[places], lines)


# --- in a cluster ----------------------------------------------------------------------------------------------------


def _knative(record: RunRecord, seen: Seen) -> Iterator[Prediction]:
    """Revisions that Knative's own autoscaler scales."""
    about: Mapping[str, Any] = record.deployment.get("knative") or {}
    config = (about.get("settings") or {}).get(CONFIG_MAP) or {}
    for revision in about.get("revisions") or ():
        name, annotations = str(revision["name"]), revision.get("annotations") or {}
        if class_of(config, annotations) == HPA_CLASS:
            yield Prediction(name, "HPA", reason=_NOT_KEPT)
            continue
        try:
            settings = installed_kpa(
                config,
                annotations,
                container_concurrency=int(revision.get("container_concurrency") or 0),
            )
        except PlatformError as error:
            yield Prediction(name, "KPA", reason=error.message)
            continue
        yield _installed_kpa(name, settings, seen)


def _installed_kpa(revision: str, settings: KpaSettings, seen: Seen) -> Prediction:
    """From the averages that the autoscaler published: the load of single seconds only itself has."""
    times, stable = seen.line("knative", revision, "autoscaler_stable")
    if not times.size:
        return Prediction(revision, "KPA", reason=_NOT_IN_CLUSTER)
    panic = seen.at("knative", revision, "autoscaler_panic", times)
    ready = np.nan_to_num(seen.at("knative", revision, "autoscaler_actual", times))
    mode = seen.at("knative", revision, "autoscaler_panic_mode", times)
    averages = [
        Averages(
            float(t),
            float(stable[i]),
            float(np.nan_to_num(panic[i])),
            int(ready[i]),
            None if np.isnan(mode[i]) else bool(mode[i]),
        )
        for i, t in enumerate(times)
    ]
    found = by_averages(settings, averages, panicking=bool(mode[0] == 1.0))
    desired = seen.at("knative", revision, "autoscaler_desired", times)
    # what says the same as before may be the same decision, or none at all: of a revision at zero nothing changes
    told = anew(stable, panic, desired)
    of = Prediction(revision, "KPA", AVERAGES)
    return compared(of, times[told], np.array(found, dtype=float)[told], desired[told], (times, ready))


def _kubernetes(record: RunRecord, seen: Seen) -> Iterator[Prediction]:
    """HPAs of a cluster, whose objects the source `kubernetes` kept."""
    for source in record.telemetry.get("sources", ()):
        if source.get("source") != "kubernetes":
            continue
        for name, spec in (source.get("autoscalers") or {}).items():
            try:
                settings = installed_hpa({"metadata": {"name": name}, "spec": spec})
            except PlatformError as error:
                yield Prediction(name, "HPA", reason=error.message)
                continue
            yield _installed_hpa(name, settings, seen)


def _installed_hpa(name: str, settings: HpaSettings, seen: Seen) -> Prediction:
    """From what its status says that it measured, and made of it."""
    times, ratio = seen.line("kubernetes", f"{_HPA}{name}/{CPU}", "seen_ratio")
    if not times.size:
        return Prediction(
            name, "HPA", reason="it was not seen to measure anything: add `kubernetes` to `observe`"
        )
    desired = seen.at("kubernetes", f"{_HPA}{name}", "replicas_desired", times)
    current = seen.at("kubernetes", f"{_HPA}{name}", "replicas_current", times)
    places = np.flatnonzero(anew(ratio, desired, current) & ~np.isnan(current))
    looks = [
        Look(
            float(times[i]),
            int(current[i]),
            int(current[i]),
            0,
            {CPU: Measured(float(ratio[i]) * _PERCENT, int(current[i]))},
        )
        for i in places
    ]
    found = np.array([outcome.replicas for outcome in replay(settings, looks)], dtype=float)
    return compared(Prediction(name, "HPA", METRICS), times[places], found, desired[places], (times, current))
