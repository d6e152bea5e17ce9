"""Treatments: load, latency, outcomes, steps and instances."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from towtank.analysis.model import Estimate, ExperimentAnalysis, TreatmentSummary
from towtank.report.model import Cell, Column, Table, Tone
from towtank.report.naming import Names
from towtank.report.tables.headings import column, nothing, row_head
from towtank.report.text import clean
from towtank.report.values import NOTHING, count, estimate, known, share, show
from towtank.variables import FAULT_VARIABLES

LOAD = ("requests", "throughput", "goodput", "cpu_cores", "memory_bytes", "bytes_in_per_s")
LATENCIES = ("min", "mean", "median", "p90", "p95", "p99", "max")
SUCCESSES = ("p95_ok", "p99_ok")
STEP_VARIABLES = ("requests", "goodput", "mean", "median", "p90", "p95", "p99", "max")
MAX_INSTANCES = 60
MAX_CODES = 8


def treatments(analysis: ExperimentAnalysis, names: Names) -> Table:
    """One row per treatment: load, goodput, resources, collapses and runs."""
    variables = [v for v in (*LOAD, *analysis.own) if _present(analysis, v)]
    columns = (
        Column("Treatment"),
        *(column(v) for v in variables),
        Column(
            "Collapsed",
            numeric=True,
            explanation="valid runs in which the system collapsed: the treatment's result",
        ),
        Column("Runs", numeric=True, explanation="valid runs behind the numbers, of those planned"),
    )
    begun = len({r.block for r in analysis.runs})
    blocks = max(begun, int(analysis.meta.get("blocks") or 0))
    rows = tuple(
        (
            row_head(names, t.treatment_id),
            *(estimate(t.estimates.get(v)) for v in variables),
            _collapses(t),
            _runs(t, blocks),
        )
        for t in analysis.treatments
    )
    return Table("treatments", "Treatments: mean over runs, its interval below", columns, rows)


def latency(analysis: ExperimentAnalysis, names: Names) -> Table:
    """Latency of every treatment, over all requests and over successes only."""
    variables = [v for v in (*LATENCIES, *SUCCESSES) if _present(analysis, v)]
    shown = [*variables, "goodput"]
    rows = tuple(
        (row_head(names, t.treatment_id), *(estimate(t.estimates.get(v)) for v in shown))
        for t in analysis.treatments
    )
    tools = analysis.meta.get("tools") or ()
    made = f"; of the load that {' and '.join(tools)} made, from when it was sent: no schedule is known"
    remark = (
        f"Latency counts from the moment a request was due{made if tools else ''}. Failed, timed-out and unsent "
        "requests rank above every success: a percentile among them reads as more than the timeout. Columns marked “ok”"
        " look at successes only and mean little without goodput."
    )
    columns = (Column("Treatment"), *(column(v) for v in shown))
    return Table("latency", "Latency: mean over runs, its interval below", columns, rows, remark)


def faults(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """What faults did to each treatment; those without a fault are looked at over the same stretch of time."""
    variables = [v for v in FAULT_VARIABLES if _present(analysis, v)]
    if not variables:
        return None
    rows = tuple(
        (row_head(names, t.treatment_id), *(estimate(t.estimates.get(v)) for v in variables))
        for t in analysis.treatments
    )
    remark = (
        "From the start of the first fault to the end of the measured window, in treatments without a fault from when "
        "it would have come. Recovered: failures and latency are back within their band from before the fault, and "
        "stay there; a service that had not recovered when the load was over reads as more than the time that was left."
    )
    columns = (Column("Treatment"), *(column(v) for v in variables))
    return Table("faults", "Faults: mean over runs, its interval below", columns, rows, remark)


def _present(analysis: ExperimentAnalysis, name: str) -> bool:
    return any(name in t.estimates and t.estimates[name].mean is not None for t in analysis.treatments)


def _collapses(t: TreatmentSummary) -> Cell:
    return Cell(
        f"{t.n_collapsed} of {t.n_valid}",
        detail=f"{t.n_degraded} degraded" if t.n_degraded else "",
        tone="bad" if t.n_collapsed else "plain",
        sort=t.n_collapsed / t.n_valid if t.n_valid else 0,
    )


def _runs(t: TreatmentSummary, blocks: int) -> Cell:
    """Valid runs of those planned; below, invalid attempts. A note counts the blocks without a valid run."""
    missing = max(0, blocks - t.n_valid)
    absent = f"{missing} {'block' if missing == 1 else 'blocks'} missing: begun without a valid run, or never begun"
    return Cell(
        f"{t.n_valid} of {blocks}",
        detail=f"{t.n_invalid} invalid" if t.n_invalid else "",
        note=absent if missing else "",
        tone="unsure" if missing else "plain",
        sort=t.n_valid,
    )


def outcomes(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """Outcomes and statuses by treatment: counts, and shares of what was due."""
    found: Counter[str] = Counter()
    for t in analysis.treatments:
        found.update(t.outcomes)
    if not found:
        return None
    kinds = sorted(found, key=lambda k: (k != "answered", -found[k], k))
    columns = (
        Column("Treatment"),
        Column("Due", numeric=True),
        *(Column(clean(k, limit=40), numeric=True) for k in kinds),
        Column("Status codes"),
    )
    rows = []
    for t in analysis.treatments:
        due = sum(t.outcomes.values())
        cells = [row_head(names, t.treatment_id), Cell(count(due), sort=due)]
        for kind in kinds:
            n = t.outcomes.get(kind, 0)
            tone: Tone = "bad" if n and kind != "answered" else "plain"
            cells.append(Cell(count(n), detail=share(n / due) if n else "", tone=tone, sort=n))
        rows.append((*cells, _codes(t)))
    return Table("outcomes-table", "Outcomes of all requests due in valid runs", columns, tuple(rows))


def _codes(t: TreatmentSummary) -> Cell:
    codes = sorted(t.statuses.items(), key=lambda item: -item[1])
    texts = [f"{clean(code, limit=40)} × {count(n)}" for code, n in codes[:MAX_CODES]]
    if len(codes) > MAX_CODES:
        texts.append(f"{len(codes) - MAX_CODES} more")
    return Cell(", ".join(texts)) if texts else Cell(NOTHING, note="no answer had a status")


def steps(frame: pd.DataFrame, names: Names) -> Table | None:
    """Each step of the journey, from the long table of the analysis."""
    if frame.empty:
        return None
    variables = [v for v in STEP_VARIABLES if v in set(frame.variable)]
    rows = []
    for (treatment_id, step), group in frame.groupby(["treatment_id", "step"], sort=False):
        found = {str(r["variable"]): r for r in group.to_dict(orient="records")}
        cells = [
            _step_cell(v, {str(k): x for k, x in found[v].items()} if v in found else {}) for v in variables
        ]
        rows.append((row_head(names, str(treatment_id)), Cell(clean(step)), *cells))
    columns = (Column("Treatment"), Column("Step"), *(column(v) for v in variables))
    return Table("steps", "Steps of the journey: mean over runs, its interval below", columns, tuple(rows))


def _step_cell(name: str, record: dict[str, object]) -> Cell:
    mean = _float(record.get("mean"))
    if mean is None:
        return nothing(str(record.get("reason") or "no request"))
    reason = str(record.get("reason") or "")
    n = int(_float(record.get("n")) or 0)
    above = bool(record.get("above"))
    low, high = _float(record.get("low")), _float(record.get("high"))
    if known(name).unit == "count":
        return Cell(show(known(name), mean), sort=mean)  # the table of treatments says why it has no interval
    found = Estimate(name, mean, low, high, n, 0.95, str(record.get("method") or ""), reason, above)
    return estimate(found)


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not pd.isna(value) else None


def instances(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """Requests per instance."""
    if not any(t.instances for t in analysis.treatments):
        return None
    rows = []
    for t in analysis.treatments:
        total = sum(t.instances.values()) or 1
        for name, n in sorted(t.instances.items())[:MAX_INSTANCES]:
            part = Cell(share(n / total), sort=n / total)
            rows.append((row_head(names, t.treatment_id), Cell(clean(name)), Cell(count(n), sort=n), part))
    columns = (
        Column("Treatment"),
        Column("Instance"),
        Column(known("requests").title.capitalize(), numeric=True),
        Column("Share", numeric=True),
    )
    return Table("instances-table", "Requests per instance", columns, tuple(rows), folded=True)
