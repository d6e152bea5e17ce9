"""Numbers of instances over time as steps: a plot for each treatment, a line for each number, perhaps a band."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.figures.timeplot import time_axis, whole_ticks
from towtank.report.style import DASHES, HOPS_LIGHT

MOST_TICKS = 6
ROOM_ABOVE = 1.06
"""Highest number on the axis, as a multiple of the highest that is drawn: a line on the edge would be cut."""


def draw(
    layout: Layout,
    panels: Sequence[str],
    shown: pd.DataFrame,
    *,
    dataset: str,
    metrics: Sequence[str],
    titled: bool,
    band: tuple[str, str, str] | None = None,
) -> Chart:
    """Draw the plots.

    Parameters
    ----------
    layout : Layout
    panels : sequence of str
        Values of the field ``treatment``, one plot each.
    shown : DataFrame
        t_s and value of all that is drawn, for the axes; the same as in `dataset`.
    dataset : str
        Rows with treatment, t_s, metric and value.
    metrics : sequence of str
        Lines, in the order of the legend.
    titled : bool
        Plots say whose they are, also where there is one alone.
    band : (str, str, str), optional
        Dataset with treatment and t_s, and its fields of the lower and the upper bound of the second line.
    """
    single = len(panels) == 1
    columns, width = layout.beside(len(panels))
    key = alt.Legend(title=None, orient="top", symbolType="stroke", symbolSize=420)
    time = alt.Scale(domain=[float(shown.t_s.min()), float(shown.t_s.max())], nice=False)
    x = alt.X("t_s:Q", scale=time, axis=time_axis(4 if layout.narrow else 8))
    most = max(1.0, float(shown.value.max()))
    lines, hues = list(metrics), list(HOPS_LIGHT[: len(metrics)])
    dashes = [list(DASHES[i]) for i in range(len(lines))]
    counts = alt.Axis(title="instances", values=whole_ticks(most, most=MOST_TICKS), format="d")
    y = alt.Y("value:Q", scale=alt.Scale(domain=[0, ROOM_ABOVE * most], nice=False), axis=counts)
    charts: list[Chart] = []
    for panel in panels:
        chosen = None if single else panel
        layers: list[alt.Chart] = []
        if band is not None:
            name, low, high = band
            bounds = _only(alt.Chart(base.data(name)), chosen)
            area = bounds.mark_area(opacity=0.25, color=hues[1], interpolate="step-after")
            layers.append(area.encode(x=x, y=alt.Y(f"{low}:Q"), y2=f"{high}:Q"))
        steps = _only(alt.Chart(base.data(dataset)), chosen)
        line = steps.mark_line(strokeWidth=2, interpolate="step-after").encode(
            x=x, y=y,
            color=alt.Color("metric:N", scale=alt.Scale(domain=lines, range=hues), legend=key),
            strokeDash=alt.StrokeDash("metric:N", scale=alt.Scale(domain=lines, range=dashes), legend=key),
        )  # fmt: skip
        title = panel if titled else alt.Undefined
        height = 210 if layout.narrow else 260
        charts.append(alt.layer(*layers, line, width=width, height=height, title=title))
    return base.grid(charts, columns=columns)


def _only(chart: alt.Chart, treatment: str | None) -> alt.Chart:
    """The rows of one treatment, where there are several."""
    return chart if treatment is None else chart.transform_filter(alt.datum.treatment == treatment)
