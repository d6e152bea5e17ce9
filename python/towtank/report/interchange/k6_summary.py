"""A run in the form that k6 hands to `handleSummary`, for tools that read k6's end-of-test summary.

k6 writes thresholds in two ways: `handleSummary` gets ``{"ok": true}`` for one that was kept, the file of
``--summary-export`` says ``true`` for one that was *missed*. This is the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.distribution import Distribution
from towtank.analysis.model import RunSummary
from towtank.analysis.slo import holds
from towtank.variables import NO_OWN, Variable, variable

TREND_STATS = ("avg", "min", "med", "max", "p(90)", "p(95)", "p(99)")
_PERCENTILES = {"min": 0.0, "med": 50.0, "max": 100.0, "p(90)": 90.0, "p(95)": 95.0, "p(99)": 99.0}
_TRENDS = {"total": "http_req_duration", "ttfb": "http_req_waiting", "connect": "http_req_connecting"}
"""Variable of the count tables → k6's nearest metric; docs/doors.md says where they differ."""


def summary(
    run: RunSummary, counts: pa.Table, slo: Mapping[str, float], own: Mapping[str, Variable] = NO_OWN
) -> dict[str, Any]:
    """Make the summary of one run over its measured window.

    Parameters
    ----------
    run : RunSummary
    counts : pyarrow.Table
        Its count tables.
    slo : mapping
        Response variable → bound in its base unit; each is a threshold of a gauge ``towtank_<variable>``.
    own : mapping, optional
        Response variables that the experiment declares.
    """
    metrics: dict[str, Any] = {}
    for name, metric in _TRENDS.items():
        found = _distribution(counts, name)
        if found.n:
            metrics[metric] = {"type": "trend", "contains": "time", "values": _trend(found)}
    metrics["http_reqs"] = _counter(run.due, run.window_s)
    good = run.outcomes.get("answered", 0)
    metrics["http_req_failed"] = {
        "type": "rate", "contains": "default",
        # of this rate, "passes" are the requests that failed
        "values": {"rate": (run.due - good) / run.due if run.due else 0, "passes": run.due - good, "fails": good},
    }  # fmt: skip
    for ours, theirs in (("bytes_in_per_s", "data_received"), ("bytes_out_per_s", "data_sent")):
        rate = run.values[ours].value
        if rate is not None:
            metrics[theirs] = _counter(round(rate * run.window_s), run.window_s) | {"contains": "data"}
    for name, bound in slo.items():
        metrics[f"towtank_{name}"] = _gauge(run, variable(name, own), bound)
    return {
        "root_group": {"name": "", "path": "", "id": "", "groups": [], "checks": []},
        "options": {"summaryTrendStats": list(TREND_STATS), "summaryTimeUnit": "ms", "noColor": True},
        "state": {"isStdOutTTY": False, "isStdErrTTY": False, "testRunDurationMs": run.window_s * 1000},
        "metrics": metrics,
        "towtank": {
            "run_id": run.run_id, "treatment_id": run.treatment_id, "instrument": run.instrument, "system": run.system,
        },
    }  # fmt: skip


def _distribution(counts: pa.Table, name: str) -> Distribution:
    """All requests of the window that have this time, whatever became of them: as k6 counts them."""
    chosen = counts.filter(pc.and_(pc.equal(counts["variable"].cast(pa.string()), name), counts["in_window"]))
    return Distribution.of(chosen["value"].to_numpy(), chosen["count"].to_numpy())


def _trend(found: Distribution) -> dict[str, float]:
    values = {name: found.percentile(p) for name, p in _PERCENTILES.items()} | {"avg": found.mean()}
    return {name: round((values[name] or 0.0) * 1000, 6) for name in TREND_STATS}


def _counter(count: int, window_s: float) -> dict[str, Any]:
    rate = count / window_s if window_s > 0 else 0.0
    return {"type": "counter", "contains": "default", "values": {"count": count, "rate": rate}}


def _gauge(run: RunSummary, described: Variable, bound: float) -> dict[str, Any]:
    """An objective; a percentile that falls among failures has no value, and is missed."""
    quantity = run.values[described.name]
    sign = "<=" if described.lower_is_better else ">="
    value = None if quantity.above else quantity.value
    return {
        "type": "gauge", "contains": "default", "values": {"value": value, "min": value, "max": value},
        "thresholds": {f"value{sign}{bound:g}": {"ok": bool(holds(described, quantity, bound))}},
    }  # fmt: skip
