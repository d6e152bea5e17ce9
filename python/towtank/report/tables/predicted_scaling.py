"""What autoscalers should have done beside what they did: how often both came to the same number."""

from __future__ import annotations

import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import nothing, row_head
from towtank.report.text import clean
from towtank.report.values import NOTHING, count, share


def predicted_scaling(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """One row for each treatment and autoscaler, over its runs; None where no autoscaler was at work."""
    found = analysis.predictions
    if found.empty:
        return None
    groups = names.in_order(found).groupby(["treatment_id", "autoscaler", "algorithm"], sort=False)
    rows = tuple(
        (
            row_head(names, str(treatment)),
            Cell(clean(f"{algorithm} · {autoscaler}")),
            *_cells(mine),
        )
        for (treatment, autoscaler, algorithm), mine in groups
    )
    columns = (
        Column("Treatment"),
        Column("Autoscaler"),
        Column("Decisions", numeric=True, explanation="that were compared, of all valid runs, under load"),
        Column("Equal", numeric=True, explanation="share of them in which both came to the same number"),
        Column("Largest difference", numeric=True, explanation="in instances"),
        Column(
            "Predicted from",
            explanation="what the algorithm was given, besides the instances that were there",
        ),
    )
    remark = (
        "The published algorithm, with the settings that held, is given what was observed; it decides anew each time "
        "from the instances that really were there. A difference may lie in the autoscaler, in what could be observed "
        "of what it saw, or in the moment at which it was read."
    )
    title = "What autoscalers should have done, against what they did"
    return Table("predicted-scaling", title, columns, rows, remark)


def agreement(found: pd.DataFrame) -> float:
    """Share of decisions that were equal, over some rows of `analysis.predicted_scaling.table` that have one."""
    return float((found["equal"].astype(float) * found["ticks"]).sum()) / int(found["ticks"].sum())


def _cells(mine: pd.DataFrame) -> tuple[Cell, ...]:
    known = mine[mine["equal"].notna()]
    if known.empty:
        reason = next((str(text) for text in mine["reason"] if text), "")
        return (*(nothing(reason),) * 3, Cell(NOTHING, tone="muted"))
    ticks, equal, largest = int(known["ticks"].sum()), agreement(known), int(known["largest"].max())
    return (
        Cell(count(ticks), sort=float(ticks)),
        Cell(share(equal), sort=equal),
        Cell(str(largest), sort=float(largest)),
        Cell(clean(str(known["by"].iloc[0]))),
    )
