"""The load line: what every run found at its load, beside the objectives and the capacities that were searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.load_curves import THROUGHPUT
from towtank.analysis.model import ExperimentAnalysis
from towtank.design.capacity_file import UNITS
from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import DASHES, LIGHT, MARKERS, SERIES_LIGHT
from towtank.report.text import clean, shorten
from towtank.report.values import show
from towtank.variables import Variable

WIDE_SPAN = 12.0
"""Loads that span a larger factor are drawn on a logarithmic axis."""
MOST_FAMILIES = 12
KEPT, MISSED, UNBOUND = "objective kept", "objective missed", "run"


def load_line(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Build the figure: a plot for each response, a colour for each deployment; None without several loads."""
    if analysis.load_points.empty:
        return None
    frame = _points(analysis, names)
    families = list(dict.fromkeys(frame.family))
    variables = list(dict.fromkeys(frame.variable))
    bounds = _bounds(analysis, variables)
    found = _capacities(analysis, families)
    units = {_named(one.label): UNITS[one.model] for one in analysis.load_families}
    unit = " or ".join(dict.fromkeys(units[one] for one in families))
    searched = (
        " A shade reaches from the highest load that was confirmed to the lowest that was refuted."
        if not found.empty
        else ""
    )
    left = len({one.label for one in analysis.load_families}) - len(families)
    more = f" {left} further curves are left out." if left else ""
    return base.build(
        id="load-line",
        title="The load line",
        caption="Every valid run at its load; the line goes through the median of each load. Hollow marks missed the "
        f"objective, which is the dashed rule. A value among failures is drawn at the timeout.{searched}{more}",
        alt_text=_words(frame, families, names.variable(variables[0]), units),
        draw=lambda layout: _draw(layout, _Shown(frame, bounds, found, unit), names),
        datasets={
            "load_points": frame[["family", "variable", "load", "value", "kept", "shown", "run"]],
            "load_medians": _medians(frame),
            "load_bounds": bounds,
            "capacities": found,
        },
    )


def _named(label: str) -> str:
    """How the figure names a family of loads."""
    return shorten(clean(label), 34)


def _points(analysis: ExperimentAnalysis, names: Names) -> pd.DataFrame:
    """Rows that are drawn, with the words of marks and tooltips."""
    labels = list(dict.fromkeys(one.label for one in analysis.load_families))[:MOST_FAMILIES]
    frame = analysis.load_points[analysis.load_points.family.isin(labels)]
    kept = [UNBOUND if one is None else (KEPT if one else MISSED) for one in frame.kept]
    shown = [
        f"> {show(names.variable(v), x)}" if above else show(names.variable(v), x)
        for v, x, above in zip(frame.variable, frame.value, frame.above, strict=True)
    ]
    return frame.assign(
        family=frame.family.map(_named), kept=kept, shown=shown, run=frame.run_id.map(clean)
    )  # fmt: skip


def _medians(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby(["family", "variable", "load"], sort=False)["value"].median().reset_index()


def _bounds(analysis: ExperimentAnalysis, variables: list[str]) -> pd.DataFrame:
    known = {
        (name, bound)
        for one in analysis.load_families
        for name, bound in one.slo.items()
        if name in variables
    }
    return pd.DataFrame(sorted(known), columns=["variable", "bound"])


def _capacities(analysis: ExperimentAnalysis, families: list[str]) -> pd.DataFrame:
    """Bounds of the searches of these results; an unknown upper one ends where the lower one is."""
    rows = []
    for one in analysis.capacities:
        name = _named(one.label)
        if name in families and one.holds is not None:
            rows.append((name, one.holds, one.holds if one.fails is None else one.fails))
    return pd.DataFrame(rows, columns=["family", "holds", "fails"])


def _words(frame: pd.DataFrame, families: list[str], variable: Variable, units: dict[str, str]) -> str:
    parts = []
    for family in families:
        mine = frame[(frame.family == family) & (frame.variable == variable.name)].sort_values("load")
        if not mine.empty:
            first, last, unit = mine.iloc[0], mine.iloc[-1], units[family]
            parts.append(f"{family}: {first.shown} at {first.load:g}, {last.shown} at {last.load:g} {unit}")
    return f"{variable.title} against load. {'; '.join(parts)}."


@dataclass(frozen=True, eq=False)
class _Shown:
    """What is drawn: runs, bounds of variables, capacities, and the unit of loads."""

    points: pd.DataFrame
    bounds: pd.DataFrame
    found: pd.DataFrame
    unit: str


def _draw(layout: Layout, shown: _Shown, names: Names) -> Chart:
    variables = list(dict.fromkeys(shown.points.variable))
    columns, width = layout.beside(len(variables))
    charts: list[Chart] = []
    for name in variables:
        layers = _layers(layout, shown, names.variable(name))
        title = clean(names.variable(name).title)
        charts.append(alt.layer(*layers, width=width, height=210 if layout.narrow else 260, title=title))
    return base.grid(charts, columns=columns)


def _layers(layout: Layout, shown: _Shown, variable: Variable) -> list[alt.Chart]:
    """One plot: capacities behind, then the objective, the medians, the runs."""
    color, dash, mark, fill = _looks(layout, list(dict.fromkeys(shown.points.family)))
    scale, axis = _loads(shown)
    x = alt.X("load:Q", scale=scale, axis=axis)
    y = _y(shown.points[shown.points.variable == variable.name], variable)
    chosen = alt.datum.variable == variable.name
    layers: list[alt.Chart] = []
    if not shown.found.empty:
        place = alt.X("holds:Q", scale=scale)
        found = alt.Chart(base.data("capacities"))
        layers.append(found.mark_rect(opacity=0.22).encode(x=place, x2="fails:Q", color=color))
        layers.append(found.mark_rule(strokeWidth=1.5).encode(x=place, color=color))
    if variable.name in set(shown.bounds.variable):
        rule = alt.Chart(base.data("load_bounds")).transform_filter(chosen)
        dashed = rule.mark_rule(color=LIGHT["fail"], strokeDash=[5, 4], strokeWidth=1.4)
        layers.append(dashed.encode(y=alt.Y("bound:Q")))
    line = (
        alt.Chart(base.data("load_medians")).transform_filter(chosen).mark_line(strokeWidth=1.6, opacity=0.8)
    )
    layers.append(line.encode(x=x, y=y, color=color, strokeDash=dash))
    runs = alt.Chart(base.data("load_points")).transform_filter(chosen)
    hollow = alt.condition(alt.datum.kept == MISSED, alt.value(0), alt.value(0.85))
    layers.append(
        runs.mark_point(size=46, strokeWidth=1.4).encode(
            x=x, y=y, shape=mark, color=color, fill=fill, fillOpacity=hollow,
            tooltip=["family:N", "run:N", "load:Q", alt.Tooltip("shown:N", title=variable.name), "kept:N"],
        )
    )  # fmt: skip
    return layers


def _looks(layout: Layout, families: list[str]) -> tuple[alt.Color, alt.StrokeDash, alt.Shape, alt.Fill]:
    """Colour, dash and marker of each family: none of them alone tells families apart."""
    key = (
        alt.Legend(orient="top", symbolType="stroke", symbolSize=420, columns=1 if layout.narrow else 3)
        if len(families) > 1
        else None
    )

    def scale(looks: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=families, range=[looks[n % len(looks)] for n in range(len(families))])

    return (
        alt.Color("family:N", scale=scale(SERIES_LIGHT), title=None, legend=key),
        alt.StrokeDash("family:N", scale=scale([list(one) for one in DASHES]), title=None, legend=key),
        alt.Shape("family:N", scale=scale(MARKERS), title=None, legend=None),
        alt.Fill("family:N", scale=scale(SERIES_LIGHT), title=None, legend=None),
    )


def _loads(shown: _Shown) -> tuple[alt.Scale, alt.Axis]:
    low, high = float(shown.points.load.min()), float(shown.points.load.max())
    if high / low > WIDE_SPAN:
        scale = alt.Scale(type="log", zero=False, nice=False, padding=12)
        return scale, alt.Axis(title=shown.unit, values=base.log_ticks(low, high))
    return alt.Scale(zero=False, nice=False, padding=12), alt.Axis(title=shown.unit, tickCount=5)


def _y(frame: pd.DataFrame, variable: Variable) -> alt.Y:
    if variable.unit == "s":
        low, high = base.nice_log(frame.value, pad=1.3)
        scale = alt.Scale(type="log", domain=[low, high], nice=False)
        return alt.Y("value:Q", scale=scale, axis=base.duration_axis(None, values=base.log_ticks(low, high)))
    if variable.unit == "ratio":
        return alt.Y(
            "value:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title=None, format="~%", tickCount=5)
        )
    title = "completions/s" if variable.name == THROUGHPUT else None
    return alt.Y("value:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title=title, format="~s", tickCount=5))
