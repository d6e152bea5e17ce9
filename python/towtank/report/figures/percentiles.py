"""Latency percentile lines: both axes stretched towards the tail, failures where latency is."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.figures.distribution import curve_panels, named, thin
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import LIGHT
from towtank.report.values import known, share, show

TICKS = (0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
NARROW_TICKS = (50.0, 90.0, 99.0, 99.9)
_LABEL = "datum.value < 0.001 ? 'fastest' : 'p' + format(100 - pow(10, 2 - datum.value), '~r')"


def position(percentile: float) -> float:
    """Place a percentile on the axis of "nines": p90 at 1, p99 at 2, p99.9 at 3.

    >>> position(99)
    2.0
    """
    return round(-math.log10(1 - min(percentile, 99.9999) / 100), 6)


def percentiles(analysis: ExperimentAnalysis, names: Names, timeout_s: float | None) -> Figure | None:
    """Latency against the percentile, a line per treatment."""
    frame = named(analysis.percentiles, names)
    frame = frame[frame.percentile < 100] if not frame.empty else frame
    if frame.empty or frame.latency_s.isna().all():
        return None
    frame = frame.assign(x=[position(p) for p in frame.percentile])
    solid = frame[frame.latency_s.notna()]
    solid = pd.concat([thin(g, "x", "latency_s") for _, g in solid.groupby("treatment", sort=False)])
    failing = _failing(frame, names, timeout_s)
    low, high = base.nice_log(solid.latency_s)
    last = float(frame.x.max())
    shown, left_out = base.panels(names)
    lift = 4 + 7 * max(failing.groupby("panel").size(), default=0) if not failing.empty else 0

    def draw(layout: Layout) -> Chart:
        ticks = [
            position(p) for p in (NARROW_TICKS if layout.narrow else TICKS) if position(p) <= last + 0.01
        ]
        axis = alt.Axis(
            title="percentile of requests", values=list(ticks), labelExpr=_LABEL, labelOverlap="greedy"
        )
        x = alt.X("x:Q", scale=alt.Scale(domain=[0, last], nice=False), axis=axis)
        y = alt.Y(
            "latency_s:Q",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=base.duration_axis(base.latency_title(analysis), values=base.log_ticks(low, high)),
        )
        tooltip = [
            alt.Tooltip("treatment:N"),
            alt.Tooltip("percentile:Q", format="~r"),
            alt.Tooltip("latency:N"),
        ]
        charts, columns = curve_panels(names, "percentiles", layout, x=x, y=y, tooltip=tooltip, lift=lift)
        strokes = [_strokes(failing, names, layout, panel, lift) for panel in shown]
        return base.grid(
            [alt.layer(c, *s) if s else c for c, s in zip(charts, strokes, strict=True)], columns=columns
        )

    return base.build(
        id="percentiles",
        title="Latency percentiles",
        caption="All requests of all valid runs pooled (descriptive: the comparison uses one value per run). "
        "Further right is rarer; every factor of ten has the same room."
        + _failure_words(failing, timeout_s)
        + left_out,
        alt_text="Latency against percentile, one line per treatment. "
        + _words(analysis, frame, names, timeout_s),
        draw=draw,
        datasets={
            "percentiles": solid[["panel", "series", "treatment", "percentile", "x", "latency_s", "latency"]],
            "failing": failing,
        },
    )


_FAILING = ["panel", "series", "treatment", "x", "end", "number", "failed", "bound"]


def _failing(frame: pd.DataFrame, names: Names, timeout_s: float | None) -> pd.DataFrame:
    """Where each treatment's percentiles fall among failures: strokes above the plot, one over another."""
    bound = f"> {show(known('p95'), timeout_s)}" if timeout_s else "failed"
    rows: list[dict[str, Any]] = []
    for number, one in enumerate(names.all):
        mine = frame[(frame.treatment_id == one.id) & frame.latency_s.isna()]
        if mine.empty:
            continue
        first = float(mine.percentile.min())
        end = float(frame.x.max())
        values = (
            one.panel,
            one.series,
            one.short,
            position(first),
            end,
            number,
            share(1 - first / 100),
            bound,
        )
        rows.append(dict(zip(_FAILING, values, strict=True)))
    return pd.DataFrame(rows, columns=_FAILING)


def _strokes(failing: pd.DataFrame, names: Names, layout: Layout, panel: str, lift: int) -> list[alt.Chart]:
    hue, dash = base.color(names, layout, lift=lift), base.dash(names, layout, lift=lift)
    numbers = sorted(int(n) for n in failing[failing.panel == panel].number)
    layers = []
    for rank, number in enumerate(numbers):
        height = -7 - 7 * rank
        row = alt.Chart(base.data("failing")).transform_filter(alt.datum.number == number)
        tooltip = [alt.Tooltip("treatment:N"), alt.Tooltip("failed:N", title="failed")]
        stroke = row.mark_rule(strokeWidth=2.6)
        layers.append(
            stroke.encode(
                x="x:Q", x2="end:Q", y=alt.value(height), color=hue, strokeDash=dash, tooltip=tooltip
            )
        )
        if rank == 0:
            word = row.mark_text(align="right", baseline="middle", dx=-5, color=LIGHT["fail"], fontSize=11.5)
            layers.append(word.encode(x=alt.value(0), y=alt.value(height), text="bound:N"))
    return layers


def _failure_words(failing: pd.DataFrame, timeout_s: float | None) -> str:
    if failing.empty:
        return ""
    bound = f" (> {show(known('p95'), timeout_s)})" if timeout_s else ""
    return f" A stroke above the plot is where requests failed{bound}: they rank above every success."


def _words(analysis: ExperimentAnalysis, frame: pd.DataFrame, names: Names, timeout_s: float | None) -> str:
    parts = [
        f"{names.label(t.treatment_id)}: {_tail(frame, t.treatment_id, timeout_s)}"
        for t in analysis.treatments
    ]
    return "; ".join(parts) + "."


def _tail(frame: pd.DataFrame, treatment_id: str, timeout_s: float | None) -> str:
    mine = frame[frame.treatment_id == treatment_id]
    failed = f"> {show(known('p95'), timeout_s)}" if timeout_s else "failed"
    words = []
    for p in (50.0, 95.0, 99.0):
        near = mine[(mine.percentile - p).abs() < 0.01]
        if not near.empty:
            value = float(near.latency_s.iloc[0])
            words.append(f"p{p:g} {failed if math.isnan(value) else show(known('p95'), value)}")
    return ", ".join(words) or "no data"
