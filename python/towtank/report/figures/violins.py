"""Violins: how the latency of a treatment's requests is distributed, with its box, a row per treatment."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.model import Figure
from towtank.report.naming import Named, Names
from towtank.report.style import LIGHT
from towtank.report.values import known, share, show

MAX_TREATMENTS = 24
SLICES = 72
"""Widths at which a violin is measured, evenly along the logarithmic axis."""
_SMOOTH = np.array([1, 2, 3, 2, 1]) / 9
"""Weights of a slice and its neighbours: a violin shows a shape, not every step of the clock."""
ROW_PX, NARROW_ROW_PX, HALF = 62, 84, 0.4
"""Height of a row, where its name stands beside or above it, and the part of it that a violin takes to either side."""
_MIDDLE = 50.0
_PERCENTILES = (5.0, 25.0, _MIDDLE, 75.0, 95.0)
"""Ends of the whiskers, ends of the box, and the median between them."""


def violins(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Distribution of latency over the requests that succeeded, and the percentiles of all."""
    ids = [n.id for n in names.all if (analysis.ecdf.treatment_id == n.id).any()][:MAX_TREATMENTS]
    positive = analysis.ecdf[analysis.ecdf.treatment_id.isin(ids) & (analysis.ecdf.latency_s > 0)]
    if positive.empty:
        return None
    low, high = base.nice_log(positive.latency_s, pad=1.25)
    shapes = pd.concat([_shape(positive, names[t], row, (low, high)) for row, t in enumerate(ids)])
    answered = positive.groupby("treatment_id")["share"].max()
    lines = analysis.percentiles
    boxes = pd.DataFrame(
        [
            _box(lines[lines.treatment_id == t], names[t], row, answered=float(answered[t]), high=high)
            for row, t in enumerate(ids)
        ]
    )

    def draw(layout: Layout) -> Chart:
        return _draw(
            analysis, names, layout, (low, high), rows=len(ids), longest=max(boxes.treatment.str.len())
        )

    left_out = f" The first {MAX_TREATMENTS} treatments are shown." if len(ids) < len(names.all) else ""
    failed = ""
    if (boxes.failed != "").any():
        failed = " A whisker or box that ends in a triangle goes on among the failures, which rank above every success."
    return base.build(
        id="violins",
        title="How latency is distributed",
        caption="All requests of all valid runs pooled (descriptive). The shape is the density of the successes along "
        "the logarithmic axis, each scaled to its own peak; the thick bar reaches from p25 to p75 of all requests, the "
        f"thin one from p5 to p95, the open mark is the median.{failed}{left_out}",
        alt_text="One violin with a box per treatment. " + " ".join(str(said) for said in boxes.said),
        draw=draw,
        datasets={"shapes": shapes, "boxes": boxes.drop(columns="said")},
    )


def _draw(
    analysis: ExperimentAnalysis,
    names: Names,
    layout: Layout,
    span: tuple[float, float],
    *,
    rows: int,
    longest: int,
) -> Chart:
    left = 6 if layout.narrow else min(250, 24 + longest * 7)
    width = layout.plot(left=left, right=76)
    axis = base.latency_axis(analysis, layout, *span)
    scale = alt.Scale(type="log", domain=list(span), nice=False)
    row_px = NARROW_ROW_PX if layout.narrow else ROW_PX
    across = alt.Scale(domain=[rows - 0.45, -0.65 if layout.narrow else -0.55], nice=False)
    hue, stroke = base.color(names), alt.Stroke("series:N", scale=base.hues(names), legend=None)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scale, axis=axis)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=across, axis=None)

    box = alt.Chart(base.data("boxes"))
    tooltip = [alt.Tooltip("treatment:N"), *(alt.Tooltip(f"p{p:g}_shown:N", title=f"p{p:g}") for p in _PERCENTILES),
               alt.Tooltip("failed:N")]  # fmt: skip
    layers = [
        alt.Chart(base.data("shapes")).mark_area(fillOpacity=0.3, strokeWidth=1, line=False, orient="vertical").encode(
            x=x("latency"), y=y("top"), y2="bottom:Q", color=hue, detail="treatment:N"
        ),
        box.mark_rule(strokeWidth=1.3).encode(x=x("p5"), x2="p95:Q", y=y("row"), color=hue, tooltip=tooltip),
        box.mark_rule(strokeWidth=8).encode(x=x("p25"), x2="p75:Q", y=y("row"), color=hue, tooltip=tooltip),
        box.transform_filter(alt.datum.median_known == 1).mark_point(
            size=70, filled=True, fill=LIGHT["paper"], strokeWidth=1.6, opacity=1
        ).encode(x=x("p50"), y=y("row"), stroke=stroke, shape=base.shape(names), tooltip=tooltip),
        box.transform_filter(alt.datum.beyond == 1).mark_point(
            size=60, filled=True, shape="triangle-right", opacity=1
        ).encode(x=alt.value(width - 3), y=y("row"), color=hue, tooltip=tooltip),
        box.mark_text(align="left", color=LIGHT["fail"], fontSize=11.5).encode(
            x=alt.value(width + 6), y=y("row"), text="failed:N"
        ),
        _labels(box, layout, y("row")),
    ]  # fmt: skip
    return alt.layer(*layers, width=width, height=row_px * rows + 6)


def _labels(box: alt.Chart, layout: Layout, y: alt.Y) -> alt.Chart:
    """Names of rows: beside the plot, or above each violin where the screen is narrow."""
    if layout.narrow:
        text = box.mark_text(align="left", dy=-HALF * NARROW_ROW_PX - 8, fontSize=12)
        drawn: alt.Chart = text.encode(x=alt.value(0), y=y, text="treatment:N")
        return drawn
    text = box.mark_text(align="right", fontSize=12, limit=240)
    beside: alt.Chart = text.encode(x=alt.value(-10), y=y, text="treatment:N")
    return beside


def _shape(frame: pd.DataFrame, named: Named, row: int, span: tuple[float, float]) -> pd.DataFrame:
    """Density of the successes in slices of the logarithmic axis, from the exact points of the ECDF."""
    mine = frame[frame.treatment_id == named.id].sort_values("latency_s")
    edges = np.linspace(math.log10(span[0]), math.log10(span[1]), SLICES + 1)
    reached = np.interp(
        edges, np.log10(mine.latency_s.to_numpy(dtype=float)), mine.share.to_numpy(float), left=0.0
    )
    density = np.convolve(np.diff(reached), _SMOOTH, mode="same")
    half = HALF * density / (density.max() or 1.0)
    middle = 10 ** ((edges[:-1] + edges[1:]) / 2)
    seen = half > 0.002
    return pd.DataFrame(
        {
            "treatment": named.short,
            "series": named.series,
            "latency": middle,
            "top": row - half,
            "bottom": row + half,
        }
    )[seen]


def _box(line: pd.DataFrame, named: Named, row: int, *, answered: float, high: float) -> dict[str, Any]:
    """Percentiles of all requests; what lies among the failures reaches to the edge."""
    known_at = dict(zip(line.percentile.astype(float), pd.to_numeric(line.latency_s), strict=True))
    found: dict[str, Any] = {"treatment": named.short, "series": named.series, "row": row}
    words = []
    beyond = False
    for p in _PERCENTILES:
        value = known_at.get(p, math.nan)
        failed = math.isnan(value)
        beyond = beyond or failed
        found[f"p{p:g}"] = high if failed else float(value)
        found[f"p{p:g}_shown"] = "failed" if failed else show(known("p95"), float(value))
        words.append(f"p{p:g} {found[f'p{p:g}_shown']}")
    return found | {
        "median_known": int(found[f"p{_MIDDLE:g}_shown"] != "failed"),
        "beyond": int(beyond),
        "failed": f"{share(1 - answered)} failed" if answered < 0.9995 else "",
        "said": f"{named.label}: {', '.join(words)}.",
    }
