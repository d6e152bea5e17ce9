"""Every run with both axes of validity."""

from __future__ import annotations

from towtank.analysis.model import ExperimentAnalysis, RunSummary
from towtank.report.model import Cell, Column, Table, Tone
from towtank.report.naming import COUNTED, Names
from towtank.report.tables.headings import column
from towtank.report.text import clean
from towtank.report.values import known, quantity

VARIABLES = ("requests", "throughput", "goodput", "median", "p95", "p99", "cpu_cores", "memory_bytes")
REASON = 400
"""Longest reason, in characters."""
_TONE: dict[str, Tone] = {
    "valid": "plain",
    "suspect": "unsure",
    "invalid": "bad",
    "intact": "plain",
    "degraded": "unsure",
    "collapsed": "bad",
}


def runs(analysis: ExperimentAnalysis, names: Names) -> Table:
    """Show every run in order of execution."""
    ordered = sorted(analysis.runs, key=lambda r: (r.block, r.attempt, r.position))
    shown = [v for v in VARIABLES if any(v in r.values for r in ordered)]
    columns = (
        Column("Run"),
        Column("Block", numeric=True),
        Column("Pos.", numeric=True, optional=True, explanation="position within its block"),
        Column("Instrument", explanation="did the measurement itself work? An invalid run enters no number"),
        Column("System", explanation="did the deployment stay up? That is a result, and never repeated away"),
        *(column(v) for v in shown),
    )
    rows = tuple(_row(r, names, shown) for r in ordered)
    remark = (
        "Instrument: an invalid run enters no number and is repeated. System: a collapse is the treatment's result "
        "and stays."
    )
    return Table("runs", "All runs, block by block", columns, rows, remark)


def _row(r: RunSummary, names: Names, shown: list[str]) -> tuple[Cell, ...]:
    named = names[r.treatment_id]
    values = [quantity(known(v), r.values.get(v)) for v in shown]
    if r.instrument not in COUNTED:
        # shown, but quiet: these numbers count for nothing, and that they are missing needs no footnote
        values = [Cell(c.text, tone="muted", sort=c.sort) for c in values]
    instrument, system = _axes(r)
    # a run's id carries its treatment's id; the label is shown where it says something else
    detail = named.label if named.label not in r.run_id else ""
    return (
        Cell(clean(r.run_id), detail=detail, style=named.style),
        Cell(str(r.block), sort=r.block),
        Cell(str(r.position), sort=r.position),
        instrument,
        system,
        *values,
    )


def _axes(r: RunSummary) -> tuple[Cell, Cell]:
    """Both verdicts; the reasons are a footnote to the first that is not good."""
    reasons = "; ".join(clean(reason, limit=REASON) for reason in r.reasons)
    doubtful = r.instrument != "valid"
    return (
        Cell(clean(r.instrument), note=reasons if doubtful else "", tone=_TONE.get(r.instrument, "unsure")),
        Cell(clean(r.system), note="" if doubtful else reasons, tone=_TONE.get(r.system, "unsure")),
    )
