"""What failed, and which instance answered: shares of requests as stacked bars."""

from __future__ import annotations

from collections import Counter
from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import LIGHT
from towtank.report.text import clean, listed, shorten
from towtank.report.values import count, share

OUTCOMES_SHOWN = 5
MAX_INSTANCES = 60
OTHERS = "others"


def outcomes(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Show the requests that were not answered as expected, by outcome; nothing to show when all were."""
    failed = {t.treatment_id: _failures(t.outcomes) for t in analysis.treatments}
    totals = sum(failed.values(), Counter[str]())
    if not totals.total():
        return None
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    shown = ranked if len(ranked) <= OUTCOMES_SHOWN else ranked[: OUTCOMES_SHOWN - 1]
    legend = [*shown, *([OTHERS] if len(shown) < len(ranked) else [])]
    rows: list[dict[str, Any]] = []
    for t in analysis.treatments:
        due = sum(t.outcomes.values())
        mine = Counter[str]()
        for name, n in failed[t.treatment_id].items():
            mine[name if name in shown else OTHERS] += n
        parts = [(name, mine[name]) for name in legend]
        rows += _stack(names[t.treatment_id].short, names[t.treatment_id].series, "outcome", parts, due)
    order = [names[t.treatment_id].short for t in analysis.treatments]

    def draw(layout: Layout) -> Chart:
        axis = alt.Axis(title="share of requests due", format="~%", tickCount=4 if layout.narrow else 7)
        colors = alt.Scale(domain=legend, range=[LIGHT[f"o{i}"] for i in range(len(legend))])
        key = alt.Legend(title=None, orient="top", symbolType="square", columns=1 if layout.narrow else 3)
        bars = alt.Chart(base.data("outcomes")).mark_bar(stroke=LIGHT["paper"], strokeWidth=1, height=20)
        chart = bars.encode(
            x=alt.X("start:Q", axis=axis, scale=alt.Scale(zero=True)),
            x2="end:Q",
            y=_rows(order, layout),
            color=alt.Color("outcome:N", scale=colors, legend=key),
            tooltip=_tooltip("outcome"),
        )
        return _labelled([chart], order, layout)

    words = [
        f"{names.label(t.treatment_id)} {share(failed[t.treatment_id].total() / (sum(t.outcomes.values()) or 1))}"
        for t in analysis.treatments
    ]
    return base.build(
        id="outcomes",
        title="What failed",
        caption="Requests that were not answered as expected within the timeout, by outcome, as a share of all "
        "requests due in valid runs. The numbers are in the table of outcomes.",
        alt_text=f"Stacked bars of failed requests per treatment. Failed: {listed(words, most=12)}.",
        draw=draw,
        datasets={"outcomes": pd.DataFrame(rows), "rows": pd.DataFrame({"treatment": order})},
    )


def _failures(found: dict[str, int]) -> Counter[str]:
    failed = Counter[str]()
    for name, n in found.items():
        if name != "answered" and n:
            failed[clean(name, limit=60)] += n
    return failed


def instances(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Requests per instance; nothing to show when every treatment has one instance at most."""
    if max((len(t.instances) for t in analysis.treatments), default=0) < 2:
        return None
    rows: list[dict[str, Any]] = []
    for t in analysis.treatments:
        parts = [(clean(name), n) for name, n in sorted(t.instances.items())[:MAX_INSTANCES]]
        one = names[t.treatment_id]
        rows += _stack(one.short, one.series, "instance", parts, sum(t.instances.values()))
    order = [names[t.treatment_id].short for t in analysis.treatments]

    def draw(layout: Layout) -> Chart:
        y = _rows(order, layout)
        axis = alt.Axis(title="share of requests", format="~%", tickCount=4)
        source = alt.Chart(base.data("instances"))
        bars = source.mark_bar(fillOpacity=0.28, strokeWidth=1.2, height=22).encode(
            x=alt.X("start:Q", axis=axis, scale=alt.Scale(domain=[0, 1])),
            x2="end:Q",
            y=y,
            color=base.color(names),
            stroke=alt.Stroke("series:N", scale=base.hues(names), legend=None),
            tooltip=_tooltip("instance"),
        )
        text = source.mark_text(fontSize=11).encode(x="middle:Q", y=y, text="label:N")
        return _labelled([bars, text], order, layout)

    spread = []
    for t in analysis.treatments:
        parts_ = [f"{clean(k)} {count(v)}" for k, v in sorted(t.instances.items())]
        spread.append(f"{names.label(t.treatment_id)}: {listed(parts_, most=4)}")
    return base.build(
        id="instances",
        title="Which instance answered",
        caption="Requests per instance, as the answer names it (else as connected), over all valid runs.",
        alt_text="Stacked bars of requests per instance. " + "; ".join(spread) + ".",
        draw=draw,
        datasets={"instances": pd.DataFrame(rows), "rows": pd.DataFrame({"treatment": order})},
    )


def _stack(
    treatment: str, series: str, kind: str, parts: list[tuple[str, int]], total: int
) -> list[dict[str, Any]]:
    """Put parts end to end as shares of `total`, with a label where there is room for one."""
    rows: list[dict[str, Any]] = []
    start = 0.0
    for name, n in parts:
        width = n / (total or 1)
        label = shorten(name, 18)
        rows.append(
            {
                "treatment": treatment,
                "series": series,
                kind: name,
                "start": start,
                "end": start + width,
                "middle": start + width / 2,
                "n": count(n),
                "share": share(width),
                "label": label if width >= 0.02 + 0.009 * len(label) else "",
            }
        )
        start += width
    return rows


def _tooltip(kind: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("treatment:N"),
        alt.Tooltip(f"{kind}:N"),
        alt.Tooltip("n:N", title="requests"),
        alt.Tooltip("share:N"),
    ]


def _rows(order: list[str], layout: Layout) -> alt.Y:
    axis = None if layout.narrow else base.row_axis(limit=240)
    return alt.Y("treatment:N", sort=order, scale=alt.Scale(domain=order), axis=axis)


def _labelled(layers: list[alt.Chart], order: list[str], layout: Layout) -> Chart:
    """Label rows on the axis, or above each bar where the screen is narrow."""
    left = 6 if layout.narrow else min(250, 24 + max(len(o) for o in order) * 7)
    width = layout.plot(left=left, right=20)
    if not layout.narrow:
        return alt.layer(*layers, width=width, height=alt.Step(34))
    text = alt.Chart(base.data("rows")).mark_text(align="left", dy=-20, fontSize=12)
    names = text.encode(x=alt.value(0), y=_rows(order, layout), text="treatment:N")
    return alt.layer(*layers, names, width=width, height=alt.Step(52))
