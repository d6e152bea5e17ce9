"""Who used CPU and memory over time: a line for each pod and each node of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base, timeseries
from towtank.report.figures.backdrop import Backdrop
from towtank.report.figures.base import Layout
from towtank.report.figures.timeplot import TimePlot
from towtank.report.model import Figure
from towtank.report.naming import Named, Names
from towtank.report.text import clean, listed
from towtank.report.values import count, known, show
from towtank.variables import Unit

ROWS: dict[str, tuple[str, Unit, str]] = {
    "pod_cpu": ("CPU of pods, cores", "cores", "cpu_cores"),
    "pod_memory": ("memory of pods", "bytes", "memory_bytes"),
    "node_cpu": ("CPU of nodes, cores", "cores", "cpu_cores"),
    "node_memory": ("memory of nodes", "bytes", "memory_bytes"),
}
"""Row → title of its axis, unit, and the variable that says how its values are written."""
MAX_FIGURES = 3
LEAST_INSTANCES = 2
"""Of a single pod and no node, the grid over time has said everything."""


def each(analysis: ExperimentAnalysis, names: Names) -> list[Figure]:
    """Build the figures, for four treatments at a time; none where there is one instance at most."""
    frame = analysis.each
    if frame.empty or frame["instance"].nunique() < LEAST_INSTANCES:
        return []
    drawn: list[Figure] = []
    for panel, group in timeseries.groups_of(names):
        mine = frame[frame.treatment_id.isin([named.id for named in group])]
        if not mine.empty and len(drawn) < MAX_FIGURES:
            title = panel if len(names.panels) > 1 else ""
            drawn.append(_grid(analysis, names, mine, title=title, group=group, number=len(drawn) + 1))
    return drawn


@dataclass(frozen=True)
class EachPlot(TimePlot):
    """A row of the grid with a line for each instance."""

    def _layers(
        self, source: alt.Chart, names: Names, legend: Layout | None, *, ticks: int, leftmost: bool
    ) -> list[alt.Chart]:
        scale, axis = self._vertical(labels=leftmost)
        mine = source.transform_filter(alt.datum.variable == self.row)
        x, y = self._horizontal(ticks), alt.Y("mid:Q", scale=scale, axis=axis)
        hue, detail = base.color(names, legend), ["treatment:N", "instance:N"]
        tooltip = [
            alt.Tooltip("instance:N"), alt.Tooltip("treatment:N"), alt.Tooltip("at:Q", title="at (s)", format=".3~r"),
            alt.Tooltip("shown:N", title=self.title),
        ]  # fmt: skip
        return [
            mine.mark_line(strokeWidth=1.1, opacity=0.7, clip=True).encode(
                x=x, y=y, color=hue, detail=detail
            ),
            mine.mark_point(size=50, opacity=0, clip=True).encode(x=x, y=y, color=hue, tooltip=tooltip),
        ]


def _grid(
    analysis: ExperimentAnalysis,
    names: Names,
    mine: pd.DataFrame,
    *,
    title: str,
    group: tuple[Named, ...],
    number: int,
) -> Figure:
    rows = [row for row in ROWS if (mine.row == row).any()]
    behind = Backdrop.of(analysis, group, values_end_s=float((mine.t_s + mine.bin_s).max()))
    plots: list[TimePlot] = [
        EachPlot(
            row, (0.0, max(float(mine[mine.row == row].value.max()), 1e-9) * 1.12), behind,
            first=row == rows[0], last=row == rows[-1], title=ROWS[row][0], unit=ROWS[row][1],
        )
        for row in rows
    ]  # fmt: skip
    words = [named.label for named in group]
    return base.build(
        id=f"each-{number}",
        title="Who used CPU and memory over time" + (f": {clean(title)}" if title else ""),
        caption=_caption(mine) + behind.faults_told(),
        alt_text=f"Grid of time series for {listed(words)}, a line for each pod or node: "
        f"{listed([ROWS[row][0] for row in rows])}.",
        draw=lambda layout: timeseries.draw(layout, names, group, plots),
        datasets={"bands": pd.DataFrame(_records(mine, names)), **behind.datasets()},
        folded=True,
    )


def _records(mine: pd.DataFrame, names: Names) -> list[dict[str, Any]]:
    return [
        {
            "treatment": names[str(one["treatment_id"])].short,
            "series": names[str(one["treatment_id"])].series,
            "variable": str(one["row"]),
            "instance": clean(str(one["instance"])),
            "at": float(one["t_s"]) + float(one["bin_s"]) / 2,
            "mid": float(one["value"]),
            "shown": show(known(ROWS[str(one["row"])][2]), float(one["value"])),
        }
        for one in mine.to_dict(orient="records")
    ]


def _caption(mine: pd.DataFrame) -> str:
    left_out = []
    for row, one in mine.groupby("row", sort=False):
        shown, of = one.groupby("treatment_id").instance.nunique(), one.groupby("treatment_id")["of"].max()
        if (of > shown).any():
            what = "pods" if str(row).startswith("pod") else "nodes"
            most = "CPU" if str(row).endswith("cpu") else "memory"
            left_out.append(f"of {count(int(of.max()))} {what} the {int(shown.max())} with most {most}")
    text = (
        "Lines: single pods and nodes of the first run of each treatment that counts, means over bins. A node is what "
        "everything on it used, whosever it was."
    )
    return text + (f" Drawn are {listed(left_out)}; `towtank sql` has them all." if left_out else "")
