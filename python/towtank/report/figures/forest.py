"""The comparison: each contrast's effect with its interval, against no difference and against what matters."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.model import Comparison
from towtank.analysis.sentences import share_points
from towtank.analysis.verdicts import share_margin
from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import LIGHT
from towtank.report.text import clean, shorten
from towtank.report.values import confidence, effect, effect_interval, known, size

MAX_ROWS = 40
_COLUMNS = ["row", "series", "estimate", "low", "high", "known", "effect", "interval", "verdict", "reason"]
_FINE = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2)
_COARSE = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.33, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)


def forest(
    comparisons: tuple[Comparison, ...], names: Names, matters: float | None, *, confirmatory: bool
) -> Figure | None:
    """Forest plot of the confirmatory (or the exploratory) comparisons; ratios and differences on their own axes."""
    mine = [c for c in comparisons if c.confirmatory == confirmatory][:MAX_ROWS]
    if not any(_bounded(c) for c in mine):
        return None
    band = matters if confirmatory else None
    kinds = {"ratios": "log", "differences": "difference"}
    parts = {
        kind: _Part(kind, [c for c in mine if c.scale == scale], names, band) for kind, scale in kinds.items()
    }
    left = min(330, 24 + max(len(label) for part in parts.values() for label in part.order) * 7)

    def draw(layout: Layout) -> Chart:
        drawn = [p.draw(layout, 0 if layout.narrow else left) for p in parts.values() if p.comparisons]
        return alt.vconcat(*drawn, spacing=26) if len(drawn) > 1 else drawn[0]

    points = share_margin(band) if band else 0.0
    bands = [{"low": 1 / (1 + band), "high": 1 + band, "minus": -points, "plus": points}] if band else []
    return base.build(
        id="forest" if confirmatory else "forest-exploratory",
        title="What differs, and by how much" if confirmatory else "Exploratory differences",
        caption=_caption(mine, names, band, confirmatory=confirmatory),
        alt_text="Forest plot. " + " ".join(f"{_title(c, names)}: {_effect(c)}." for c in mine[:8]),
        draw=draw,
        datasets={
            **{kind: part.rows for kind, part in parts.items()},
            "bands": pd.DataFrame(bands),
            "zero": pd.DataFrame([{"one": 1.0, "zero": 0.0}]),
        },
    )


def _caption(mine: list[Comparison], names: Names, band: float | None, *, confirmatory: bool) -> str:
    baselines = {names.label(c.baseline_id) for c in mine}
    against = f"the comparison with {next(iter(baselines))}" if len(baselines) == 1 else "one contrast"
    level = " / ".join(confidence(v) for v in sorted({c.confidence for c in mine if _bounded(c)}))
    text = f"Each mark is {against}, the bar its {level} interval"
    text += ", simultaneous over all claims." if confirmatory else ", each on its own."
    if band:
        margins = {"log": f"± {band * 100:g} %", "difference": f"± {share_points(share_margin(band))}"}
        shown = " or ".join(margins[scale] for scale in margins if any(c.scale == scale for c in mine))
        text += f" Within the shaded band ({shown}) a difference does not matter."
    return text + " A bar that does not reach the line is a difference that chance does not explain."


class _Part:
    """The comparisons that share an axis: ratios, or differences of shares."""

    def __init__(self, kind: str, comparisons: list[Comparison], names: Names, band: float | None) -> None:
        self.kind, self.comparisons, self.names, self.band = kind, comparisons, names, band
        self.ratio = kind == "ratios"
        margin = band if band is None or self.ratio else share_margin(band)
        self.domain = _domain(comparisons, ratio=self.ratio, matters=margin)
        self.order = _row_labels(comparisons, names)
        self.rows = _rows(comparisons, names, self.order, self.domain)

    def draw(self, layout: Layout, left: int) -> Chart:
        width = layout.plot(left=left, right=14 if layout.narrow else 204)
        scale = alt.Scale(type="log" if self.ratio else "linear", domain=list(self.domain), nice=False)
        x = alt.X("estimate:Q", scale=scale, axis=self._axis(layout))
        y = self._vertical(layout)
        source = alt.Chart(base.data(self.kind))
        nothing = source.transform_filter(alt.datum.known == 0).mark_text(
            align="left", color=LIGHT["muted"], fontStyle="italic", limit=width - 8
        )
        layers = [
            *self._behind(scale),
            *self._marks(source, x, y, scale),
            *_labels(source, y, width, layout),
            nothing.encode(x=alt.value(6), y=y, text="reason:N"),
        ]
        return alt.layer(*layers, width=width, height=alt.Step(54 if layout.narrow else 34))

    def _behind(self, scale: alt.Scale) -> list[alt.Chart]:
        """Draw the band within which nothing matters, and the line of no difference."""
        low, high, none = ("low", "high", "one") if self.ratio else ("minus", "plus", "zero")
        line = alt.Chart(base.data("zero")).mark_rule(color=LIGHT["muted"], strokeWidth=1.2)
        layers = [line.encode(x=alt.X(f"{none}:Q", scale=scale))]
        if self.band:
            shaded = alt.Chart(base.data("bands")).mark_rect(color=LIGHT["band"], opacity=1)
            layers.insert(0, shaded.encode(x=alt.X(f"{low}:Q", scale=scale), x2=f"{high}:Q"))
        return layers

    def _marks(self, source: alt.Chart, x: alt.X, y: alt.Y, scale: alt.Scale) -> list[alt.Chart]:
        tooltip = [
            alt.Tooltip("row:N", title="comparison"),
            alt.Tooltip("effect:N"),
            alt.Tooltip("interval:N"),
            alt.Tooltip("verdict:N"),
        ]
        hue = base.color(self.names)
        bounded = source.transform_filter(alt.datum.known == 1)
        bar = bounded.mark_rule(strokeWidth=4, opacity=0.45, clip=True)
        mark = bounded.mark_point(size=130, filled=True, opacity=1, stroke=LIGHT["paper"], strokeWidth=1)
        return [
            bar.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, color=hue, tooltip=tooltip),
            mark.encode(x=x, y=y, color=hue, shape=base.shape(self.names), tooltip=tooltip),
        ]

    def _vertical(self, layout: Layout) -> alt.Y:
        scale = alt.Scale(domain=self.order, paddingInner=0.2)
        if layout.narrow:
            return alt.Y("row:N", sort=self.order, scale=scale, axis=None)
        return alt.Y("row:N", sort=self.order, scale=scale, axis=base.row_axis(limit=330))

    def _axis(self, layout: Layout) -> alt.Axis:
        if self.ratio:
            return _ratio_axis(*self.domain, layout)
        signed = "(datum.value > 0 ? '+' : '') + format(datum.value * 100, '~r')"
        return alt.Axis(title="difference in percentage points", labelExpr=signed, tickCount=6)


def _labels(source: alt.Chart, y: alt.Y, width: int, layout: Layout) -> list[alt.Chart]:
    """Effect and verdict beside the plot; on a phone, label and verdict above each bar."""
    if layout.narrow:
        row = source.mark_text(align="left", dy=-18, fontSize=12, limit=width - 78)
        word = source.mark_text(align="right", dy=-18, fontSize=12, fontWeight=600)
        return [
            row.encode(x=alt.value(0), y=y, text="row:N"),
            word.encode(x=alt.value(width), y=y, text="verdict:N"),
        ]
    size = source.mark_text(align="left", fontSize=12)
    word = source.mark_text(align="left", fontSize=12, fontWeight=600)
    return [
        size.encode(x=alt.value(width + 14), y=y, text="effect:N"),
        word.encode(x=alt.value(width + 106), y=y, text="verdict:N"),
    ]


def _bounded(c: Comparison) -> bool:
    """Tell whether anything can be drawn: at least one end of an interval."""
    return c.low is not None or c.high is not None


def _rows(
    comparisons: list[Comparison], names: Names, labels: list[str], domain: tuple[float, float]
) -> pd.DataFrame:
    """What is drawn of each comparison; an open end of an interval reaches to the edge of the plot."""
    rows: list[dict[str, Any]] = [
        {
            "row": label,
            "series": names[c.treatment_id].series,
            "estimate": c.estimate,
            "low": domain[0] if c.low is None else max(c.low, domain[0]),
            "high": domain[1] if c.high is None else min(c.high, domain[1]),
            "known": int(_bounded(c)),
            "effect": size(c) or "–",
            "interval": effect_interval(c) or "–",
            "verdict": c.verdict or "",
            "reason": "" if _bounded(c) else shorten(clean(c.reason.partition(";")[0] or "no interval"), 200),
        }
        for label, c in zip(labels, comparisons, strict=True)
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def _row_labels(comparisons: list[Comparison], names: Names) -> list[str]:
    """`p95 latency ↓ · two-processes`; the arrow says which way is better, the baseline stands there if it varies."""
    several = len({c.baseline_id for c in comparisons}) > 1
    labels = []
    for c in comparisons:
        var = names.variable(c.variable)
        label = f"{var.title} {'↓' if var.lower_is_better else '↑'} · {names[c.treatment_id].short}"
        labels.append(f"{label} ÷ {names[c.baseline_id].short}" if several else label)
    return labels


def _title(c: Comparison, names: Names) -> str:
    return f"{known(c.variable).title}, {names.label(c.treatment_id)} against {names.label(c.baseline_id)}"


def _effect(c: Comparison) -> str:
    if c.estimate is None:
        return clean(c.reason) or "cannot be said"
    found = effect(c, c.estimate)
    if _bounded(c):
        found += f", interval {effect_interval(c)}"
    return f"{found}, {c.verdict}" if c.verdict else found


def _domain(rows: list[Comparison], *, ratio: bool, matters: float | None) -> tuple[float, float]:
    ends = [v for c in rows for v in (c.low, c.high, c.estimate) if v is not None and math.isfinite(v)]
    margin = (matters or 0.02) * 2
    if not ratio:
        low, high = min([*ends, -margin]), max([*ends, margin])
        room = (high - low) * 0.05
        return low - room, high + room
    positive = [v for v in ends if v > 0]
    low, high = min([*positive, 1 / (1 + margin)]), max([*positive, 1 + margin])
    return low / (high / low) ** 0.05, high * (high / low) ** 0.05


def _ratio_axis(low: float, high: float, layout: Layout) -> alt.Axis:
    ticks = [t for t in (_FINE if high / low < 2.2 else _COARSE) if low <= t <= high]
    while len(ticks) > (6 if layout.narrow else 11):
        middle = ticks.index(1)
        ticks = [t for i, t in enumerate(ticks) if (i - middle) % 2 == 0]
    return alt.Axis(
        title="ratio to the baseline (logarithmic; 1 = no difference)",
        values=list(ticks),
        labelExpr="'× ' + format(datum.value, '~r')",
        labelOverlap="greedy",
        labelSeparation=4,
    )
