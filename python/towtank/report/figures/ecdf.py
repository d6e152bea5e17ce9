"""ECDFs: the share of requests that were answered within a time, and times of single phases of warm answers."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import numpy as np
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.figures.distribution import curve_panels, named, thin
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.tables.request_phases import ON_NEW, TITLES
from towtank.report.values import share


def ecdf(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Cumulative share of requests against latency, a line per treatment; failures are the gap to 100 %."""
    found = named(analysis.ecdf, names)
    frame = found[found.latency_s > 0] if not found.empty else found
    if frame.empty:
        return None
    _, left_out = base.panels(names)
    best = {str(t): float(g.share.max()) for t, g in frame.groupby("treatment_id", sort=False)}
    gap = ""
    if min(best.values()) < 0.9995:
        gap = " A line that stays below 100 % belongs to a treatment whose other requests failed."
    return _figure(
        names,
        frame,
        name="ecdf",
        title="How many requests were answered within a given time",
        axis=base.latency_title(analysis),
        shares="share of requests due",
        caption="Empirical distribution over all requests of all valid runs (pooled, descriptive)."
        f"{gap}{left_out}",
        alt_text="Cumulative share of requests against latency, one line per treatment. "
        + "; ".join(f"{names.label(t)} reaches {share(v)}" for t, v in best.items())
        + ".",
    )


def request_phases(analysis: ExperimentAnalysis, names: Names) -> Iterator[Figure]:
    """Cumulative share of warm answers against the time of one phase; a figure for each that was asked for."""
    if analysis.phase_curves.empty:
        return
    _, left_out = base.panels(names)
    for phase, mine in analysis.phase_curves.groupby("phase", sort=False):
        frame = named(mine[mine.latency_s > 0], names)
        if frame.empty:  # all of it took less than a microsecond
            continue
        title = TITLES[str(phase)]
        told = f" {ON_NEW}" if phase != "ttfb" else ""
        yield _figure(
            names,
            frame,
            name=f"request-phase-{phase}-figure",
            title=f"{title}: distribution",
            axis=title,
            shares="share of warm answers",
            caption="Empirical distribution over the warm answers of all valid runs (pooled, descriptive)."
            f"{told}{left_out}",
            alt_text="Cumulative share of warm answers against their time, one line per treatment.",
        )


def _figure(
    names: Names, frame: pd.DataFrame, *, name: str, title: str, axis: str, shares: str, caption: str, alt_text: str
) -> Figure:  # fmt: skip
    """Draw `latency_s` against `share`; `axis` and `shares` are the titles of the axes."""
    frame = frame.assign(log=np.log10(frame.latency_s))
    low, high = base.nice_log(frame.latency_s, pad=1.25)
    parts = []
    for _, group in frame.groupby("treatment_id", sort=False):
        part = thin(group.sort_values("latency_s"), "log", "share")
        # the line goes on to the edge: what was not answered by then never was
        parts.append(pd.concat([part, part.tail(1).assign(latency_s=high, latency="any longer time")]))
    curve = pd.concat(parts)

    def draw(layout: Layout) -> Chart:
        x = alt.X(
            "latency_s:Q",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=base.time_axis(axis, layout, low, high),
        )
        y_axis = alt.Axis(title=shares, format=".0%", tickCount=5)
        y = alt.Y("share:Q", scale=alt.Scale(domain=[0, 1]), axis=y_axis)
        tooltip = [
            alt.Tooltip("treatment:N"),
            alt.Tooltip("latency:N", title="within"),
            alt.Tooltip("share:Q", format=".2%"),
        ]
        charts, columns = curve_panels(names, name, layout, x=x, y=y, tooltip=tooltip)
        return base.grid(charts, columns=columns)

    return base.build(
        id=name,
        title=title,
        caption=caption,
        alt_text=alt_text,
        draw=draw,
        datasets={name: curve[["panel", "series", "treatment", "latency_s", "share", "latency"]]},
    )
