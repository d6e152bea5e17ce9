"""Cold starts: how long requests waited for an instance to start, and what of its start took how long."""

from __future__ import annotations

import math

from towtank.analysis.cold_starts import FIRST_BYTE, SENT
from towtank.analysis.model import ExperimentAnalysis
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import nothing, row_head
from towtank.report.values import count, share
from towtank.units import format_duration

STATISTICS = {
    "min_s": "Min", "p25_s": "25 %", "median_s": "Median", "p75_s": "75 %", "max_s": "Max", "std_s": "Std",
}  # fmt: skip
FORCED_MEANS = (
    "Forced: sent to a deployment of which it was made sure that it had no instance, before its first one was ready; "
    "natural: all other cold starts, as the load brought them about."
)


def phase(begin: str, end: str) -> str:
    """What a phase is called."""
    return f"{begin} → {end}"


def cold_starts(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """Order statistics of the time to first byte of cold requests; None where there were none."""
    if analysis.cold_spreads.empty:
        return None
    rows = tuple(
        (
            row_head(names, str(row["treatment_id"])),
            Cell(str(row["kind"])),
            Cell(count(int(row["n"])), sort=float(row["n"])),
            *(seconds(float(row[name])) for name in STATISTICS),
        )
        for row in names.in_order(analysis.cold_spreads).to_dict(orient="records")
    )
    columns = (
        Column("Treatment"),
        Column("Cold start"),
        Column("Requests", numeric=True, explanation="cold requests that were answered, warm-up included"),
        *(Column(title, numeric=True) for title in STATISTICS.values()),
    )
    remark = (
        "Time to first byte, from when a request was sent, of the cold requests of all valid runs together: a "
        f"description, no estimate. {FORCED_MEANS}"
    )
    return Table("cold-starts", "Cold starts: time to first byte", columns, rows, remark)


def cold_phases(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """Mean length of each phase of cold requests; None where no instance could be joined to any."""
    if analysis.cold_phases.empty:
        return None
    found = names.in_order(analysis.cold_phases)
    whole = found.groupby(["treatment_id", "kind"], sort=False)["mean_s"].transform("sum")
    rows = tuple(
        (
            Cell(phase(str(row["begin"]), str(row["end"]))),
            row_head(names, str(row["treatment_id"])),
            Cell(str(row["kind"])),
            Cell(count(int(row["n"])), sort=float(row["n"])),
            seconds(float(row["mean_s"]), share(float(row["mean_s"]) / all_s) if all_s else ""),
            _within(float(row["within_s"])),
        )
        for row, all_s in zip(found.to_dict(orient="records"), whole, strict=True)
    )
    columns = (
        Column("Phase"),
        Column("Treatment"),
        Column("Cold start"),
        Column("Requests", numeric=True, explanation="cold requests whose instance was seen to start"),
        Column(
            "Took", numeric=True, explanation="mean over these; below it, its share of the time to first byte"
        ),
        Column("Known to", numeric=True, explanation="how exactly the length of the phase is known"),
    )
    remark = (
        f"From “{SENT}” to “{FIRST_BYTE}” of the request, through the start of the instance that answered it: created "
        "(or decided upon, on this machine), scheduled on a node, its image there, its first container or process "
        "started, ready. What an instance had behind it when a request was sent took nothing of that request's time. "
        "A phase that is shorter than it is known is merged with the one beside it."
    )
    return Table("cold-phases", "Cold starts: where the time went", tuple(columns), rows, remark, folded=True)


def seconds(value: float, detail: str = "") -> Cell:
    """Show a time; nan is the deviation of a single request."""
    if math.isnan(value):
        return nothing("one request: no deviation")
    return Cell(format_duration(value), detail=detail, sort=value)


def _within(value: float) -> Cell:
    return Cell(f"± {format_duration(value)}" if value else "exactly", sort=value)
