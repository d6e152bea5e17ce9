"""The ECDF: the share of requests that were answered within a time; failures are the gap to 100 %."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.figures.distribution import curve_panels, named, thin
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.values import share


def ecdf(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Cumulative share of requests against latency, a line per treatment."""
    frame = named(analysis.ecdf, names)
    frame = frame[frame.latency_s > 0] if not frame.empty else frame
    if frame.empty:
        return None
    frame = frame.assign(log=np.log10(frame.latency_s))
    low, high = base.nice_log(frame.latency_s, pad=1.25)
    parts = []
    for _, group in frame.groupby("treatment_id", sort=False):
        part = thin(group.sort_values("latency_s"), "log", "share")
        # the line goes on to the edge: what was not answered by then never was
        parts.append(pd.concat([part, part.tail(1).assign(latency_s=high, latency="any longer time")]))
    curve = pd.concat(parts)
    _, left_out = base.panels(names)

    def draw(layout: Layout) -> Chart:
        x = alt.X(
            "latency_s:Q",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=base.latency_axis(analysis, layout, low, high),
        )
        axis = alt.Axis(title="share of requests due", format=".0%", tickCount=5)
        y = alt.Y("share:Q", scale=alt.Scale(domain=[0, 1]), axis=axis)
        tooltip = [
            alt.Tooltip("treatment:N"),
            alt.Tooltip("latency:N", title="within"),
            alt.Tooltip("share:Q", format=".2%"),
        ]
        charts, columns = curve_panels(names, "ecdf", layout, x=x, y=y, tooltip=tooltip)
        return base.grid(charts, columns=columns)

    best = {str(t): float(g.share.max()) for t, g in frame.groupby("treatment_id", sort=False)}
    gap = ""
    if min(best.values()) < 0.9995:
        gap = " A line that stays below 100 % belongs to a treatment whose other requests failed."
    return base.build(
        id="ecdf",
        title="How many requests were answered within a given time",
        caption="Empirical distribution over all requests of all valid runs (pooled, descriptive)."
        f"{gap}{left_out}",
        alt_text="Cumulative share of requests against latency, one line per treatment. "
        + "; ".join(f"{names.label(t)} reaches {share(v)}" for t, v in best.items())
        + ".",
        draw=draw,
        datasets={"ecdf": curve[["panel", "series", "treatment", "latency_s", "share", "latency"]]},
    )
