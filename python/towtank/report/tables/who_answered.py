"""Who answered requests that were refused: a column for each part on their way."""

from __future__ import annotations

import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.analysis.who_answered import ACTIVATOR, FUNCTION, INGRESS, QUEUE_PROXY
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import nothing, row_head
from towtank.report.values import count

_UNSEEN = "there is none, or it was not observed"


def who_answered(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """One row for each treatment and status; None where nothing was refused, or nobody on the way was observed."""
    found = analysis.who_answered
    if found.empty:
        return None
    rows = tuple(
        (
            row_head(names, str(row["treatment_id"])),
            Cell(str(row["status"]), sort=float(row["status"])),
            _count(row["total"]),
            *(_count(row[part]) for part in (INGRESS, ACTIVATOR, QUEUE_PROXY, FUNCTION)),
            _count(row["unattributed"], beyond=int(row["beyond"])),
        )
        for row in names.in_order(found).to_dict(orient="records")
    )
    columns = (
        Column("Treatment"),
        Column("Status"),
        Column("Requests", numeric=True, explanation="that the load engine saw answered so"),
        Column("Ingress", numeric=True, explanation="in front of everything; Envoy, or that of this machine"),
        Column(
            "Activator", numeric=True, explanation="at least: what passed it and no queue-proxy behind it"
        ),
        Column("Queue-proxy", numeric=True, explanation="beside each instance, in front of it"),
        Column("Function", numeric=True, explanation="the instances themselves"),
        Column("Not attributed", numeric=True, explanation="what nobody is known to have made"),
    )
    remark = (
        "Over all valid runs, each from the start of its load to its end. A part counts the answers that pass it; its "
        "own are those that came from nobody behind it. What a pod counted after it was last read is not attributed."
    )
    return Table("who-answered", "Who answered what was refused", columns, rows, remark)


def _count(value: float | None, *, beyond: int = 0) -> Cell:
    if value is None or pd.isna(value):
        return nothing(_UNSEEN)
    note = (
        f"{count(beyond)} more were counted than the load engine saw: requests of others, or answers that came too late"
        if beyond
        else ""
    )
    return Cell(count(int(value)), note=note, sort=float(value))
