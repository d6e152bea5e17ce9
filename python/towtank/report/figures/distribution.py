"""What the two curves of a distribution share: names for every row, and fewer points where nothing bends."""

from __future__ import annotations

import math

import altair as alt
import numpy as np
import pandas as pd

from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.naming import Names
from towtank.report.values import known, show

CURVE_POINTS = 240
"""Points a curve is thinned to: more than it has bends."""


def thin(frame: pd.DataFrame, x: str, y: str, *, points: int = CURVE_POINTS) -> pd.DataFrame:
    """Keep the rows that move the curve, evenly along its own length; first and last always stay.

    The length is measured with both axes scaled to 0–1, so that the bend of a tail keeps its points.
    """
    if len(frame) <= points:
        return frame
    a, b = (frame[c].to_numpy(dtype=float) for c in (x, y))
    spans = [float(np.nanmax(v) - np.nanmin(v)) or 1.0 for v in (a, b)]
    steps = np.abs(np.diff(a, prepend=a[0])) / spans[0] + np.abs(np.diff(b, prepend=b[0])) / spans[1]
    along = np.nancumsum(steps)
    wanted = np.linspace(0, along[-1], points - 1)
    nearest = np.searchsorted(along, wanted).clip(0, len(frame) - 1)
    return frame.iloc[np.unique(np.concatenate([[0], nearest, [len(frame) - 1]]))]


def named(frame: pd.DataFrame, names: Names) -> pd.DataFrame:
    """Add how each treatment is called, and latency in words for the tooltip."""
    if frame.empty:
        return frame
    mine = frame[frame.treatment_id.isin(list(names.by_id))]
    found = [names[t] for t in mine.treatment_id]
    latency = pd.to_numeric(mine.latency_s)
    return mine.assign(
        treatment=[n.short for n in found],
        series=[n.series for n in found],
        panel=[n.panel for n in found],
        latency_s=latency,
        latency=["failed" if math.isnan(v) else show(known("p95"), v) for v in latency],
    )


def curve_panels(
    names: Names,
    source: str,
    layout: Layout,
    *,
    x: alt.X,
    y: alt.Y,
    tooltip: list[alt.Tooltip],
    lift: int = 0,
) -> tuple[list[Chart], int]:
    """Draw one line per treatment, a plot per panel; returns the plots and how many stand in a row."""
    shown, _ = base.panels(names)
    single = len(shown) == 1
    columns, width = layout.beside(len(shown))
    hue, dash = base.color(names, layout, lift=lift), base.dash(names, layout, lift=lift)
    charts: list[Chart] = []
    for panel in shown:
        rows = alt.Chart(base.data(source))
        if not single:
            rows = rows.transform_filter(alt.datum.panel == panel)
        line = rows.mark_line(strokeWidth=2).encode(
            x=x, y=y, color=hue, strokeDash=dash, detail="treatment:N"
        )
        hover = rows.mark_point(opacity=0, size=90).encode(x=x, y=y, color=hue, tooltip=tooltip)
        title = alt.Undefined if single else panel
        charts.append(alt.layer(line, hover, width=width, height=230 if layout.narrow else 290, title=title))
    return charts, columns
