"""How pods came up: the share of them that had made each step within a time since their creation."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.analysis.pods import CURVE_STEPS
from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.figures.distribution import thin
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import DASHES, HOPS_LIGHT
from towtank.report.text import clean
from towtank.report.values import known, show

FEWEST_PODS = 5
"""Pods from which on a distribution shows more than the table."""


def pod_starts(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Build the figure, a plot for each treatment whose pods came up; under load where any did, else before it."""
    frame = _shown(analysis.pod_curves, names)
    if frame.empty:
        return None
    panels, more = base.of_treatments(frame.treatment)
    frame = frame[frame.treatment.isin(panels)]
    steps = [one for one in CURVE_STEPS if (frame.step == one).any()]
    groups = frame.groupby(["treatment", "step"], sort=False)
    curves = pd.concat([thin(group.sort_values("t_s"), "t_s", "share") for _, group in groups])
    return base.build(
        id="pod-starts-figure",
        title="How fast pods came up",
        caption="Share of pods that had made each step within a time since they were created, over the pods of all "
        f"valid runs together (descriptive). {_instants(steps)}The way from one line to the next is what that step "
        f"took.{more}",
        alt_text="Cumulative share of pods against the time since their creation, one line per step. "
        + "; ".join(_half(frame, panel) for panel in panels)
        + ".",
        draw=lambda layout: _draw(layout, panels, steps, float(frame.t_s.max()), titled=len(names.by_id) > 1),
        datasets={"pod_starts": curves[["treatment", "step", "t_s", "share", "shown"]]},
    )


def _shown(curves: pd.DataFrame, names: Names) -> pd.DataFrame:
    """Rows that are drawn, with the names that they have in figures."""
    if curves.empty:
        return curves
    parts = []
    for treatment_id in names.by_id:
        mine = curves[curves.treatment_id == treatment_id]
        mine = mine[mine.under_load == mine.under_load.any()]
        if mine.groupby("step").size().max() >= FEWEST_PODS if not mine.empty else False:
            parts.append(mine.assign(treatment=clean(names[treatment_id].short)))
    if not parts:
        return curves.iloc[:0]
    frame = pd.concat(parts)
    return frame.assign(shown=[show(known("pod_start"), float(t_s)) for t_s in frame.t_s])


def _instants(steps: Sequence[str]) -> str:
    """How instants are known; of processes of this machine, which nobody schedules, they are known as they are."""
    return "Instants are those at which the cluster's messages came. " if CURVE_STEPS[0] in steps else ""


def _half(frame: pd.DataFrame, panel: str) -> str:
    """When half of the pods were ready, in words."""
    ready = frame[(frame.treatment == panel) & (frame.step == "ready") & (frame.share >= 0.5)]
    when = (
        f"half are ready within {ready.shown.iloc[0]}" if not ready.empty else "less than half became ready"
    )
    return f"{panel}: {when}"


def _draw(
    layout: Layout, panels: list[str], steps: Sequence[str], longest_s: float, *, titled: bool
) -> Chart:
    single = len(panels) == 1
    columns, width = layout.beside(len(panels))
    key = alt.Legend(
        title=None, orient="top", symbolType="stroke", symbolSize=420, columns=2 if layout.narrow else 4
    )
    looks = [CURVE_STEPS.index(step) for step in steps]
    x = alt.X(
        "t_s:Q",
        scale=alt.Scale(domain=[0, longest_s or 1.0]),
        axis=base.duration_axis("since the pod was created", tickCount=4 if layout.narrow else 8),
    )
    y = alt.Y(
        "share:Q",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(title="share of pods", format=".0%", tickCount=5),
    )
    hue = alt.Color("step:N", scale=alt.Scale(domain=steps, range=[HOPS_LIGHT[i] for i in looks]), legend=key)
    dash = alt.StrokeDash(
        "step:N",
        scale=alt.Scale(domain=steps, range=[list(DASHES[i]) for i in looks]),
        legend=key,
    )
    tooltip = [
        alt.Tooltip("step:N"),
        alt.Tooltip("shown:N", title="within"),
        alt.Tooltip("share:Q", format=".0%"),
    ]
    charts: list[Chart] = []
    for panel in panels:
        rows = alt.Chart(base.data("pod_starts"))
        if not single:
            rows = rows.transform_filter(alt.datum.treatment == panel)
        line = rows.mark_line(strokeWidth=2, interpolate="step-after").encode(
            x=x, y=y, color=hue, strokeDash=dash
        )
        hover = rows.mark_point(opacity=0, size=90).encode(x=x, y=y, color=hue, tooltip=tooltip)
        title = panel if titled else alt.Undefined
        charts.append(alt.layer(line, hover, width=width, height=210 if layout.narrow else 260, title=title))
    return base.grid(charts, columns=columns)
