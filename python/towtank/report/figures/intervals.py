"""One panel per response variable: every run as a point, the mean over runs and its interval."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis, RunSummary, TreatmentSummary
from towtank.report.figures import base, variable_axis
from towtank.report.figures.base import Chart, Layout
from towtank.report.model import Figure
from towtank.report.naming import COUNTED, Names
from towtank.report.style import LIGHT
from towtank.report.values import estimate, known, listed_confidence, quantity
from towtank.variables import Variable

SHOWN = ("median", "p95", "p99", "throughput", "goodput", "cpu_cores", "memory_bytes")
MAX_TREATMENTS = 24


def intervals(analysis: ExperimentAnalysis, names: Names, primary: tuple[str, ...]) -> Figure | None:
    """Points per run with mean and interval, one panel per variable."""
    treatments = analysis.treatments[:MAX_TREATMENTS]
    present = {name for t in treatments for name, e in t.estimates.items() if e.mean is not None}
    variables = [v for v in dict.fromkeys((*primary, *SHOWN)) if v in present]
    if not variables or not treatments:
        return None
    means = pd.DataFrame([_mean(t, v, names) for v in variables for t in treatments])
    points = pd.DataFrame(
        [p for v in variables for r in analysis.runs if (p := _point(r, v, names)) is not None]
    )
    domains = {v: _domain(known(v), means, points) for v in variables}
    order = [names[t.treatment_id].short for t in treatments]

    def draw(layout: Layout) -> Chart:
        columns = 1 if layout.narrow else 2
        left = min(210, 22 + max(len(o) for o in order) * 7)
        charts = []
        for number, name in enumerate(variables):
            labels = layout.narrow or number % columns == 0
            width = layout.plot(left=left, columns=columns, gap=26, right=20)
            charts.append(
                _panel(name, names, order, domains[name], layout=layout, width=width, labels=labels)
            )
        return base.grid(charts, columns=columns)

    level = listed_confidence(analysis)
    censored = ""
    if any(means["above"]):
        censored = " A triangle at the right edge is a run whose value falls among the failures"
        censored += "; the mean is then a lower bound."
    left_out = (
        f" The first {MAX_TREATMENTS} treatments are shown."
        if len(analysis.treatments) > MAX_TREATMENTS
        else ""
    )
    return base.build(
        id="intervals",
        title="Every run, its treatment's mean and interval",
        caption=f"Small marks are runs; the large mark is the mean over runs and the bar its {level} interval "
        f"(for comparisons, see what is claimed).{censored}{left_out}",
        alt_text="For each response variable, one row per treatment with a mark per run, the mean and its "
        "interval. " + " ".join(_words(v, treatments, names) for v in variables[:3]),
        draw=draw,
        datasets={"means": means, "runs": points},
    )


def _panel(
    name: str,
    names: Names,
    order: list[str],
    domain: tuple[float, float],
    *,
    layout: Layout,
    width: int,
    labels: bool,
) -> Chart:
    var = names.variable(name)
    scale = variable_axis.scale(var, domain)
    ticks = 4 if layout.narrow else 5
    x = alt.X("value:Q", scale=scale, axis=variable_axis.axis(var, domain, ticks=ticks))
    y = _rows(order, labels=labels)
    layers = [*_runs(var, names, x, y, width), *_means(var, names, x, y, width=width, scale=scale)]
    better = "lower is better" if var.lower_is_better else "higher is better"
    title = alt.Title(var.title, subtitle=better, subtitleFontSize=11)
    return alt.layer(*layers, width=width, height=alt.Step(38), title=title)


def _rows(order: list[str], *, labels: bool) -> alt.Y:
    axis = base.row_axis(limit=200, labels=labels)
    return alt.Y("treatment:N", sort=order, scale=alt.Scale(domain=order), axis=axis)


def _runs(var: Variable, names: Names, x: alt.X, y: alt.Y, width: int) -> list[alt.Chart]:
    """One small mark per run; at the right edge where its value lies among the failures."""
    source = alt.Chart(base.data("runs")).transform_filter(alt.datum.variable == var.name)
    tooltip = [alt.Tooltip("run:N"), alt.Tooltip("shown:N", title=var.title)]
    hue = base.color(names)
    within = source.transform_filter(alt.datum.above == 0)
    above = source.transform_filter(alt.datum.above == 1)
    return [
        within.mark_point(size=34, filled=True, fillOpacity=0.5, yOffset=9).encode(
            x=x, y=y, color=hue, shape=base.shape(names), tooltip=tooltip
        ),
        above.mark_point(size=52, filled=True, shape="triangle-right", yOffset=9).encode(
            x=alt.value(width - 4), y=y, color=hue, tooltip=tooltip
        ),
    ]


def _means(
    var: Variable, names: Names, x: alt.X, y: alt.Y, *, width: int, scale: alt.Scale
) -> list[alt.Chart]:
    """Show the mean over runs with its interval; in words where it is only a lower bound."""
    source = alt.Chart(base.data("means")).transform_filter(alt.datum.variable == var.name)
    tooltip = [
        alt.Tooltip("treatment:N"),
        alt.Tooltip("shown:N", title="mean"),
        alt.Tooltip("interval:N"),
        alt.Tooltip("n:Q", title="runs"),
    ]
    hue = base.color(names)
    within = source.transform_filter(alt.datum.above == 0)
    bar = within.mark_rule(strokeWidth=5, opacity=0.35, yOffset=-3)
    mark = within.mark_point(
        size=110, filled=True, stroke=LIGHT["paper"], strokeWidth=1, opacity=1, yOffset=-3
    )
    bound = source.transform_filter(alt.datum.above == 1).mark_text(
        align="right", dx=-12, dy=-4, color=LIGHT["fail"], fontWeight=600
    )
    return [
        bar.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, color=hue, tooltip=tooltip),
        mark.encode(x=x, y=y, color=hue, shape=base.shape(names), tooltip=tooltip),
        bound.encode(x=alt.value(width), y=y, text="shown:N"),
    ]


def _mean(treatment: TreatmentSummary, name: str, names: Names) -> dict[str, Any]:
    found = treatment.estimates.get(name)
    cell, named = estimate(found), names[treatment.treatment_id]
    value = found.mean if found else None
    low = found.low if found and found.low is not None else value
    high = found.high if found and found.high is not None else value
    if known(name).unit == "ratio" and low is not None and high is not None:
        low, high = max(0.0, low), min(1.0, high)
    return {
        "variable": name, "treatment": named.short, "series": named.series, "value": value,
        "low": low, "high": high, "n": found.n if found else 0, "shown": cell.text, "interval": cell.detail or "–",
        "above": int(bool(found and found.above)),
    }  # fmt: skip


def _point(run: RunSummary, name: str, names: Names) -> dict[str, Any] | None:
    found = run.values.get(name)
    if (
        found is None
        or found.value is None
        or run.instrument not in COUNTED
        or run.treatment_id not in names.by_id
    ):
        return None
    named = names[run.treatment_id]
    return {
        "variable": name, "treatment": named.short, "series": named.series, "run": run.run_id, "value": found.value,
        "shown": quantity(known(name), found).text, "above": int(found.above),
    }  # fmt: skip


def _domain(var: Variable, means: pd.DataFrame, points: pd.DataFrame) -> tuple[float, float]:
    """Everything that is drawn, with a margin; not forced to zero, as positions, not lengths, carry the value."""
    mine = means[(means.variable == var.name) & (means.above == 0)]
    runs = points[(points.variable == var.name) & (points.above == 0)] if not points.empty else points
    values = [
        *mine[["value", "low", "high"]].to_numpy(dtype=float).ravel(),
        *(runs["value"] if not runs.empty else []),
    ]
    return variable_axis.domain(var, values)


def _words(name: str, treatments: tuple[TreatmentSummary, ...], names: Names) -> str:
    cells = [(names.label(t.treatment_id), estimate(t.estimates.get(name))) for t in treatments[:6]]
    return (
        f"{known(name).title}: "
        + ", ".join(f"{label} {c.text}" + (f" ({c.detail})" if c.detail else "") for label, c in cells)
        + "."
    )
