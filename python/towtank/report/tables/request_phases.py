"""Times of phases of requests that the file asks for: first byte, name, connection, TLS; a table for each."""

from __future__ import annotations

from collections.abc import Iterator

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.cold_starts import STATISTICS, seconds
from towtank.report.tables.headings import row_head
from towtank.report.values import count

TITLES = {
    "ttfb": "Time to first byte",
    "dns": "Time to resolve the name",
    "connect": "Time to connect",
    "tls": "Time of the TLS handshake",
}
ON_NEW = "Only new connections have it: a request on one that stood already is not counted."


def request_phases(analysis: ExperimentAnalysis, names: Names) -> Iterator[Table]:
    """Yield a table for each phase that was asked for and happened."""
    if analysis.phase_spreads.empty:
        return
    for phase, found in analysis.phase_spreads.groupby("phase", sort=False):
        rows = tuple(
            (
                row_head(names, str(row["treatment_id"])),
                Cell(count(int(row["n"])), sort=float(row["n"])),
                *(seconds(float(row[name])) for name in STATISTICS),
            )
            for row in found.to_dict(orient="records")
        )
        columns = (
            Column("Treatment"),
            Column(
                "Requests",
                numeric=True,
                explanation="warm answers in the measured windows that have this phase",
            ),
            *(Column(title, numeric=True) for title in STATISTICS.values()),
        )
        remark = (
            "Warm answers of all valid runs together, from when a request was sent: a description, no estimate. Cold "
            "starts are left out."
        )
        if phase != "ttfb":
            remark += f" {ON_NEW}"
        yield Table(f"request-phase-{phase}", TITLES[str(phase)], columns, rows, remark)
