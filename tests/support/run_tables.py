"""One run's tables built by hand from a few requests, in the store's schemas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from towtank.store import schemas
from towtank.store.run_record import RunRecord, Verdicts, Window


@dataclass(frozen=True)
class Req:
    """One request: when it was due and how long it took, µs."""

    due_us: int
    latency_us: int
    outcome: str = "answered"
    status: int | None = 200
    step: str = "get"
    instance: str | None = "app-0"
    bytes_in: int = 100
    bytes_out: int = 10
    workload: str = "shop"


class ReadOnce:
    """A run that says how often each of its tables was read."""

    def __init__(self, run: FakeRun) -> None:
        self._run = run
        self.read: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name in ("samples", "events", "totals"):
            self.read[name] += 1
        return getattr(self._run, name)


@dataclass
class FakeRun:
    """Looks like `store.RunFolder` to the analysis."""

    requests: Sequence[Req]
    samples_rows: Sequence[tuple[int, str, str, str, float]] = ()
    window: Window | None = field(
        default_factory=lambda: Window(start_us=1_000_000, end_us=4_000_000, drained_us=0)
    )
    bin_us: int = 500_000
    timeout_us: int = 2_000_000
    instrument: str = "valid"
    system: str = "intact"
    state: str = "complete"
    failure: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)
    events_rows: Sequence[tuple[int, str, str, str, str, str]] = ()

    @property
    def record(self) -> RunRecord:
        verdicts = Verdicts(instrument=self.instrument, system=self.system)
        return RunRecord(
            state=self.state, run_id="b01-one-a1", planned_id="b01-one", experiment="small", treatment_id="one",
            treatment_label="one", levels={}, block=1, position=1, attempt=1, seed=1,
            started_utc="2026-01-05T09:00:00Z",
            window=self.window, timeout_us=self.timeout_us, bin_us=self.bin_us, failure=self.failure,
            unknown=self.unknown, verdicts=verdicts if self.state == "complete" else None,
        )  # fmt: skip

    def _inside(self, request: Req) -> bool:
        return self.window is not None and self.window.start_us <= request.due_us < self.window.end_us

    def counts(self, variables: Sequence[str] | None = None) -> pa.Table:
        found = Counter(
            (
                r.workload, r.step, schemas.outcome_class(r.outcome), self._inside(r), r.due_us // self.bin_us,
                "latency", r.latency_us,
            )
            for r in self.requests
        )  # fmt: skip
        # A row of another variable, which must not be taken for a latency.
        found["shop", "get", "ok", True, 3, "lag", 1] = 1
        rows = [dict(zip(schemas.COUNTS.names, (*key, n), strict=True)) for key, n in found.items()]
        return pa.Table.from_pylist(rows if self.requests else [], schema=schemas.COUNTS)

    def totals(self) -> pa.Table:
        rows = [
            {
                "workload": r.workload, "step": r.step, "outcome": r.outcome, "status": r.status,
                "instance": r.instance,
                "in_window": self._inside(r), "second": r.due_us // 1_000_000,
                "end_second": None if r.outcome == "not_sent" else (r.due_us + r.latency_us) // 1_000_000,
                "count": 1, "bytes_out": r.bytes_out, "bytes_in": r.bytes_in,
            }
            for r in self.requests
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, schema=schemas.TOTALS)

    def samples(self) -> pa.Table:
        rows = [dict(zip(schemas.SAMPLES.names, row, strict=True)) for row in self.samples_rows]
        return pa.Table.from_pylist(rows, schema=schemas.SAMPLES)

    def events(self) -> pa.Table:
        rows = [dict(zip(schemas.EVENTS.names, row, strict=True)) for row in self.events_rows]
        return pa.Table.from_pylist(rows, schema=schemas.EVENTS)
