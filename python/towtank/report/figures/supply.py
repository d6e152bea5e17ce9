"""Supply against demand over time: ready instances, how many were needed, and how sure that is."""

from __future__ import annotations

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.figures.timeplot import time_axis, whole_ticks
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import DASHES, HOPS_LIGHT
from towtank.report.text import clean

LINES = ("supply", "demand")
MOST_TICKS = 6
ROOM_ABOVE = 1.06
"""Highest number on the axis, as a multiple of the highest that is drawn: a line on the edge would be cut."""
_BAND = ("demand_low", "demand_high")


def supply(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Build the figure: a plot for each treatment with a calibration, of its first run; None without any."""
    frame = _shown(analysis.scaling, names)
    if frame.empty:
        return None
    panels, more = base.of_treatments(frame.treatment)
    frame = frame[frame.treatment.isin(panels)]
    lines, bounds = frame[frame.metric.isin(LINES)], _bounds(frame)
    return base.build(
        id="supply-figure",
        title="Supply against demand",
        caption="Ready instances, and the fewest fixed replicas that held the objectives at the intended load, in the "
        "first run of each treatment. The shade is between replicas of which fewer are sure to fail and those that "
        f"are sure to hold.{more}",
        alt_text=f"Ready and needed instances over time for {', '.join(panels)}.",
        draw=lambda layout: _draw(layout, panels, lines),
        datasets={
            "supply": lines[["treatment", "metric", "t_s", "value"]],
            "demand_bounds": bounds,
        },
    )


def _shown(series: pd.DataFrame, names: Names) -> pd.DataFrame:
    """First run of each treatment that has a demand."""
    parts = []
    for treatment_id in names.by_id if not series.empty else ():
        mine = series[(series.treatment_id == treatment_id) & series.value.notna()]
        with_demand = mine[mine.metric == "demand"]
        if not with_demand.empty:
            first = mine[mine.run_id == with_demand.run_id.iloc[0]]
            ends = float(with_demand.t_s.min()), float(with_demand.t_s.max())
            parts.append(_within(first, ends).assign(treatment=clean(names[treatment_id].short)))
    return pd.concat(parts) if parts else pd.DataFrame(columns=["treatment", "metric", "t_s", "value"])


def _within(series: pd.DataFrame, ends: tuple[float, float]) -> pd.DataFrame:
    """Steps between two instants; what held at the first begins there, and what was known last holds to the second."""
    begin_s, end_s = ends
    parts = []
    for _, one in series[series.t_s <= end_s].sort_values("t_s", kind="stable").groupby("metric", sort=False):
        inside = one.assign(t_s=one.t_s.clip(lower=begin_s)).drop_duplicates("t_s", keep="last")
        parts += [inside, inside.tail(1).assign(t_s=end_s)]
    return pd.concat(parts, ignore_index=True).drop_duplicates(["metric", "t_s"], keep="last")


def _bounds(frame: pd.DataFrame) -> pd.DataFrame:
    """Both bounds at every instant at which one of them changes."""
    parts = []
    for treatment, mine in frame[frame.metric.isin(_BAND)].groupby("treatment", sort=False):
        wide = (
            mine.pivot_table(index="t_s", columns="metric", values="value", aggfunc="last").ffill().dropna()
        )
        if set(_BAND) <= set(wide.columns):
            parts.append(wide.reset_index().assign(treatment=treatment))
    columns = ["treatment", "t_s", *_BAND]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


def _draw(layout: Layout, panels: list[str], shown: pd.DataFrame) -> Chart:
    single = len(panels) == 1
    columns, width = layout.beside(len(panels))
    key = alt.Legend(title=None, orient="top", symbolType="stroke", symbolSize=420)
    time = alt.Scale(domain=[float(shown.t_s.min()), float(shown.t_s.max())], nice=False)
    x = alt.X("t_s:Q", scale=time, axis=time_axis(4 if layout.narrow else 8))
    most = max(1.0, float(shown.value.max()))
    lines, hues, dashes = list(LINES), list(HOPS_LIGHT[:2]), [list(DASHES[i]) for i in range(2)]
    counts = alt.Axis(title="instances", values=whole_ticks(most, most=MOST_TICKS), format="d")
    y = alt.Y("value:Q", scale=alt.Scale(domain=[0, ROOM_ABOVE * most], nice=False), axis=counts)
    charts: list[Chart] = []
    for panel in panels:
        steps, bounds = alt.Chart(base.data("supply")), alt.Chart(base.data("demand_bounds"))
        if not single:
            chosen = alt.datum.treatment == panel
            steps, bounds = steps.transform_filter(chosen), bounds.transform_filter(chosen)
        band = bounds.mark_area(opacity=0.25, color=hues[1], interpolate="step-after").encode(
            x=x, y=alt.Y("demand_low:Q"), y2="demand_high:Q"
        )
        line = steps.mark_line(strokeWidth=2, interpolate="step-after").encode(
            x=x, y=y,
            color=alt.Color("metric:N", scale=alt.Scale(domain=lines, range=hues), legend=key),
            strokeDash=alt.StrokeDash("metric:N", scale=alt.Scale(domain=lines, range=dashes), legend=key),
        )  # fmt: skip
        title = alt.Undefined if single else panel
        charts.append(alt.layer(band, line, width=width, height=210 if layout.narrow else 260, title=title))
    return base.grid(charts, columns=columns)
