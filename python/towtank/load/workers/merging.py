"""What several workers say, as if one had said it: counts are added, and of what cannot be added the worst is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from towtank.load.events import Done, Progress, Ready

_ADDED = (
    "not_sent", "cpu_user_s", "cpu_system_s", "spun_s", "cpu_cores_mean", "involuntary_switches", "compact_s",
    "compact_cpu_s", "record_bytes_log", "in_flight_max", "connections_opened",
)  # fmt: skip
"""Of `self`, what all workers have together. Quantiles are never averaged: theirs are those of the worst worker."""
_NATURAL = ("schedule", "count")


def merged_ready(each: Sequence[Ready]) -> Ready:
    """One `ready` of all: what is due is due over all."""
    first = each[0]
    due = [ready.due for ready in each if ready.due is not None]
    return Ready(
        first.version, first.build, first.backend, sum(ready.threads for ready in each), first.pid,
        sum(due) if due else None,
    )  # fmt: skip


def merged_progress(each: Sequence[Progress]) -> Progress:
    """The same second of all workers. Quantiles are those of the worst one: the real ones are not above them."""
    sums = {
        name: sum(getattr(progress, name) for progress in each)
        for name in ("due", "sent", "done", "failed", "in_flight", "queued", "users", "bytes_in", "bytes_out")
    }
    worst = {name: _most(getattr(p, name) for p in each) for name in ("p50_us", "p95_us", "lag_p99_us")}
    cores = [p.cpu_cores for p in each if p.cpu_cores is not None]
    at_us = min(progress.t_us for progress in each)
    return Progress.read({"t_us": at_us, "cpu_cores": sum(cores) if cores else None, **sums, **worst})


def merged_done(each: Sequence[Done], files: Sequence[Mapping[str, Any]]) -> Done:
    """One `done` of all; `files` are what became of their logs."""
    return Done(
        counts=_counts(each),
        window=_window(each),
        self_=_own([done.self_ for done in each], files),
        files=files,
        stopped_by=_stopped_by(each),
    )


def _counts(each: Sequence[Done]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    for done in each:
        outcomes.update(done.counts.get("by_outcome") or {})
        total.update({name: int(n or 0) for name, n in done.counts.items() if name != "by_outcome"})
    return {**total, "by_outcome": dict(sorted(outcomes.items()))}


def _window(each: Sequence[Done]) -> dict[str, int]:
    """Of runs that were ended before their time, what all of them have measured."""
    ends = [done.window["end_us"] for done in each]
    latest = {name: max(done.window[name] for done in each) for name in ("start_us", "drained_us", "last_us")}
    natural = all(done.stopped_by in _NATURAL for done in each)
    return {**latest, "end_us": max(latest["start_us"], max(ends) if natural else min(ends))}


def _stopped_by(each: Sequence[Done]) -> str:
    said = {done.stopped_by for done in each}
    early = sorted(said - set(_NATURAL))
    return early[0] if early else said.pop() if len(said) == 1 else "schedule"


def _own(each: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for own in each for name in own)
    merged: dict[str, Any] = {}
    for name in names:
        values = [own[name] for own in each if own.get(name) is not None]
        merged[name] = (round(sum(values), 4) if name in _ADDED else max(values)) if values else None
    return {**merged, "record_bytes_parquet": sum(int(file["bytes"]) for file in files) or None}


def _most(values: Any) -> float | None:  # noqa: ANN401 - any iterable of numbers and nothing
    return max((value for value in values if value is not None), default=None)
