"""Interaction plots: what one factor does at each level of another; lines that are not parallel interact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis, TreatmentSummary
from towtank.report.figures import base, variable_axis
from towtank.report.figures.base import Chart, Layout
from towtank.report.model import Figure
from towtank.report.naming import Names, are_numbers, series_factor, varied_factors
from towtank.report.style import LIGHT
from towtank.report.text import clean, listed, shorten
from towtank.report.values import estimate, listed_confidence
from towtank.variables import Variable

MAX_PLOTS = 12
OTHERS = ("p95", "throughput")
"""Shown besides the primary variables, to at most `MAX_VARIABLES`."""
MAX_VARIABLES = 3
_COLUMNS = [
    "plot",
    "variable",
    "series",
    "level",
    "place",
    "value",
    "low",
    "high",
    "shown",
    "interval",
    "above",
    "n",
]


def interactions(analysis: ExperimentAnalysis, names: Names, primary: tuple[str, ...]) -> Figure | None:
    """Means with intervals against the levels of a factor, a line per deployment; needs two varied factors."""
    treatments = analysis.treatments
    lines = series_factor(treatments)
    factors = [f for f in varied_factors(treatments) if f != lines and all(f in t.levels for t in treatments)]
    present = {name for t in treatments for name, e in t.estimates.items() if e.mean is not None}
    variables = [v for v in dict.fromkeys((*primary, *OTHERS)) if v in present][:MAX_VARIABLES]
    if lines is None or not factors or not variables:
        return None
    along = _axis(treatments, factors)
    levels = _levels(treatments, along)
    rest = [f for f in factors if f != along]
    panels = list(dict.fromkeys(_panel(t, rest) for t in treatments))
    wanted = [(panel, v) for panel in panels for v in variables]
    rows = pd.DataFrame(
        [
            _point(number, t, v, along, names)
            for number, (panel, v) in enumerate(wanted[:MAX_PLOTS])
            for t in treatments
            if _panel(t, rest) == panel
        ],
        columns=_COLUMNS,
    )

    plots = [
        _Plot(number, panel, names.variable(v), clean(along), levels, _span(rows, names.variable(v)))
        for number, (panel, v) in enumerate(wanted[:MAX_PLOTS])
    ]

    def draw(layout: Layout) -> Chart:
        columns = 1 if layout.narrow else min(len(variables), 3)
        width = layout.plot(left=66, columns=columns, gap=70)
        return base.grid([plot.draw(names, layout, width) for plot in plots], columns=columns)

    left_out = (
        ""
        if len(wanted) <= MAX_PLOTS
        else f" {len(wanted) - MAX_PLOTS} further combinations are in the tables."
    )
    censored = ""
    if (rows.above == 1).any():
        censored = (
            " A triangle at the top edge: some run's value lies among the failures, its mean is a bound."
        )
    said = listed([clean(f) for f in (lines, along, *rest)])
    return base.build(
        id="interaction",
        title=f"Does the effect of {clean(lines)} depend on {clean(along)}?",
        caption=f"Mean over runs and its {listed_confidence(analysis)} interval at each level; parallel lines say that "
        f"the factors do not interact. The tests are in the table of factors. Varied: {said}.{censored}{left_out}",
        alt_text=f"Lines of means against {clean(along)}, one per {clean(lines)}. "
        + _words(rows, variables, names),
        draw=draw,
        datasets={"interaction": rows},
    )


def _axis(treatments: tuple[TreatmentSummary, ...], factors: list[str]) -> str:
    """Factor of the horizontal axis: numbers before names, then the one of most levels, then the first of the file."""

    def rank(factor: str) -> tuple[bool, int]:
        return are_numbers(treatments, factor), len({str(t.levels[factor]) for t in treatments})

    return max(factors, key=rank)


def _levels(treatments: tuple[TreatmentSummary, ...], factor: str) -> list[str]:
    """Levels as they stand on the axis: numbers ascending, names as in the file."""
    found = [t.levels[factor] for t in treatments]
    if are_numbers(treatments, factor):
        found.sort()
    return list(dict.fromkeys(map(clean, found)))


def _panel(treatment: TreatmentSummary, rest: list[str]) -> str:
    return shorten(" · ".join(f"{clean(f)} {clean(treatment.levels[f])}" for f in rest), 48)


def _point(plot: int, treatment: TreatmentSummary, name: str, along: str, names: Names) -> tuple[Any, ...]:
    found = treatment.estimates.get(name)
    cell, named = estimate(found), names[treatment.treatment_id]
    mean = found.mean if found else None
    low = found.low if found and found.low is not None else mean
    high = found.high if found and found.high is not None else mean
    above = int(bool(found and found.above))
    level, legend = clean(treatment.levels[along]), [label for label, _ in names.legend]
    # Lines lie beside each other, so that their intervals do not hide one another.
    place = (legend.index(named.series) - (len(legend) - 1) / 2) / max(len(legend) - 1, 1)
    return (
        plot, name, named.series, level, place, mean, low, high, cell.text, cell.detail or "–", above,
        found.n if found else 0,
    )  # fmt: skip


def _span(rows: pd.DataFrame, var: Variable) -> tuple[float, float]:
    mine = rows[(rows.variable == var.name) & (rows.above == 0)]
    return variable_axis.domain(var, mine[["value", "low", "high"]].to_numpy(dtype=float).ravel())


@dataclass(frozen=True)
class _Plot:
    """One variable at one combination of the other factors' levels.

    Parameters
    ----------
    number : int
        Of its rows in the data set.
    panel : str
        Levels of the factors that are neither lines nor axis.
    along : str
        Factor of the horizontal axis.
    span : tuple of float
        Of the vertical axis: the same in all panels of a variable.
    """

    number: int
    panel: str
    var: Variable
    along: str
    levels: list[str]
    span: tuple[float, float]

    def draw(self, names: Names, layout: Layout, width: int) -> Chart:
        step = width / len(self.levels)
        aside = min(step * 0.3, 26)
        x = alt.X("level:N", sort=self.levels, scale=alt.Scale(type="point", domain=self.levels, padding=0.5),
                  axis=alt.Axis(title=self.along, labelAngle=0, labelLimit=max(40, int(step)), grid=False))  # fmt: skip
        beside = alt.XOffset("place:Q", scale=alt.Scale(domain=[-0.5, 0.5], range=[-aside, aside]))
        scale = variable_axis.scale(self.var, self.span)
        y = alt.Y("value:Q", scale=scale, axis=variable_axis.axis(self.var, self.span, ticks=5))
        hue, dash, span = base.color(names, layout, marks=True), base.dash(names), alt.Y("low:Q", scale=scale)
        tooltip = [alt.Tooltip("series:N"), alt.Tooltip("level:N"), alt.Tooltip("shown:N", title="mean"),
                   alt.Tooltip("interval:N"), alt.Tooltip("n:Q", title="runs")]  # fmt: skip
        source = alt.Chart(base.data("interaction")).transform_filter(alt.datum.plot == self.number)
        within = source.transform_filter(alt.datum.above == 0).encode(x=x, xOffset=beside, color=hue)
        above = source.transform_filter(alt.datum.above == 1).encode(x=x, xOffset=beside, color=hue)
        better = "lower is better" if self.var.lower_is_better else "higher is better"
        head = f"{self.var.title}, {self.panel}" if self.panel else self.var.title
        return alt.layer(
            within.mark_line(strokeWidth=1.8).encode(y=y, strokeDash=dash),
            within.mark_rule(strokeWidth=4, opacity=0.35).encode(y=span, y2="high:Q", tooltip=tooltip),
            within.mark_point(size=80, filled=True, stroke=LIGHT["paper"], strokeWidth=1, opacity=1).encode(
                y=y, shape=base.shape(names), tooltip=tooltip),
            above.mark_point(size=60, filled=True, shape="triangle-up", opacity=1).encode(
                y=alt.value(5), tooltip=tooltip),
            width=width, height=220, title=alt.Title(head, subtitle=better, subtitleFontSize=11),
        )  # fmt: skip


def _words(rows: pd.DataFrame, variables: list[str], names: Names) -> str:
    told = []
    for name in variables:
        mine = rows[rows.variable == name].head(8)
        cells = [f"{r.series} at {r.level} {r.shown}" for r in mine.itertuples()]
        told.append(f"{names.variable(name).title}: {', '.join(cells)}.")
    return " ".join(told)
