"""What was logged: it costs CPU and disk while the load is on, and money by the byte in a cloud."""

from __future__ import annotations

from towtank.analysis.logs import VARIABLES
from towtank.analysis.model import ExperimentAnalysis
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import column, row_head
from towtank.report.values import count, estimate


def logs(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """One row per treatment: bytes logged, and how often in bursts; None where no output was followed."""
    shown = [
        name
        for name in VARIABLES
        if any(name in t.estimates and t.estimates[name].mean for t in analysis.treatments)
    ]
    if not shown:
        return None
    rows = []
    for treatment in analysis.treatments:
        mine = [one for one in analysis.bursts if one["treatment_id"] == treatment.treatment_id]
        runs = len({one["run_id"] for one in mine})
        bursts = Cell(
            count(len(mine)), detail=f"in {runs} of {treatment.n_valid} runs" if mine else "", sort=len(mine)
        )
        estimates = (estimate(treatment.estimates.get(name)) for name in shown)
        rows.append((row_head(names, treatment.treatment_id), *estimates, bursts))
    columns = (
        Column("Treatment"),
        *(column(name) for name in shown),
        Column(
            "Bursts", numeric=True, explanation="seconds with over ten times the bytes of the median second"
        ),
    )
    remark = (
        "Bytes are counted whether they were kept or not; "
        "`towtank logs RUN` shows what was kept, by the time of the run."
    )
    return Table("logs", "Bytes logged: mean over runs, its interval below", columns, tuple(rows), remark)
