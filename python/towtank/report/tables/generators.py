"""Where the load came from, and what that means for times."""

from __future__ import annotations

import math

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.model import Cell, Column, Table
from towtank.report.tables.headings import nothing
from towtank.report.text import clean
from towtank.report.values import count
from towtank.units import format_duration

_WAYS = {"direct": "directly", "port_forward": "through the API server"}


def generators(analysis: ExperimentAnalysis) -> Table | None:
    """One row for each place of workers and each target; none where one engine of this machine made the load."""
    if analysis.generators.empty:
        return None
    rows = tuple(
        (
            Cell(clean(row["where"] or row["kind"]), detail=clean(row["host"])),
            Cell(count(int(row["workers"])), sort=float(row["workers"])),
            Cell(clean(row["target"]) or "none"),
            _span(row["connect_us_low"], row["connect_us_high"], "no connection was opened"),
            _span(row["offset_us_low"], row["offset_us_high"], "its clock was not asked"),
            _span(row["uncertainty_us"], row["uncertainty_us"], "its clock was not asked"),
            Cell(_WAYS.get(row["control"], "")),
        )
        for row in analysis.generators.to_dict(orient="records")
    )
    columns = (
        Column("Load from"),
        Column("Workers", numeric=True),
        Column("Target"),
        Column(
            "Round trip",
            numeric=True,
            explanation="shortest time in which a connection was opened, over runs",
        ),
        Column("Clock", numeric=True, explanation="the worker's clock less the run's, over runs"),
        Column(
            "± at most", numeric=True, explanation="half the round trip that the offset was measured with"
        ),
        Column("Orders", explanation="how orders and records travelled; load goes to the target directly"),
    )
    remark = (
        "Latencies are taken by one worker each and do not depend on clocks; instants on the run clock do."
    )
    return Table("generators", "Where the load came from", columns, rows, remark, folded=True)


def _span(low_us: float, high_us: float, reason: str) -> Cell:
    if math.isnan(low_us):
        return nothing(reason)
    ends = list(dict.fromkeys(_shown(value) for value in (low_us, high_us)))
    return Cell(" to ".join(ends), sort=high_us)


def _shown(us: float) -> str:
    sign = "−" if us < 0 else ""
    return sign + format_duration(abs(us) / 1e6, digits=3)
