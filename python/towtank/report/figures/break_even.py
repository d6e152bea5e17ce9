"""Cost of a month against load: a line for each deployment, and where two of them change places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.break_even import BreakEven
from towtank.analysis.model import ExperimentAnalysis
from towtank.cost.break_even import Crossing, a_day
from towtank.cost.money import DAY_S
from towtank.report.figures import base
from towtank.report.figures.base import Chart, Layout
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import LIGHT, MARKERS
from towtank.report.text import clean
from towtank.report.values import known, show

Bounds = tuple[tuple[float, float], tuple[float, float]]
"""Ends of the axis of loads, and of that of costs."""
MOST_MARKED = 6
"""Crossings of a panel that are marked; a staircase may cross a line a dozen times."""
ROOM_RATIO = 0.14
"""Share of the axis that a label takes."""
FLOOR = 2.0
"""How far below the least cost a month that costs nothing is drawn, as a factor: a logarithmic axis has no 0."""


def break_even(analysis: ExperimentAnalysis, names: Names) -> Figure | None:
    """Build the figure, one panel for each combination of the other factors; None without prices or lines."""
    found = analysis.break_even
    if found is None or found.curves.empty or not (found.curves["cost"] > 0).any():
        return None
    panels, left_out = base.panels(names)
    lines = _lines(found, names)
    bounds = _bounds(lines)
    crossings = _crossings(analysis, found, names, bounds)
    currency = clean(analysis.meta.get("currency", ""))
    return base.build(
        id="break-even-figure",
        title="What a month costs, against load",
        caption=f"Cost of a month in {currency} with free tiers, credits and fees. Both axes are logarithmic; a line "
        "at the lower edge costs nothing. The shade is the interval of what was measured. Marks on lines are at the "
        "load of the runs: everything else is reckoned from prices. Vertical lines are loads at which the cheaper "
        f"deployment is another, with their intervals.{left_out}",
        alt_text="Cost of a month against requests a day, one line per deployment. "
        + " ".join(f"{clean(words)}." for words in found.sentences[:3]),
        draw=lambda layout: _draw(layout, panels, names, bounds, currency),
        datasets={"costs": lines, "crossings": crossings, "driven": _driven(found, names, bounds)},
    )


def _named(names: Names, treatment_id: str) -> dict[str, str]:
    named = names[treatment_id]
    return {"panel": named.panel, "series": named.series, "treatment": named.short}


def _lines(found: BreakEven, names: Names) -> pd.DataFrame:
    """Points of all lines, loads in requests a day."""
    frame = found.curves.assign(day=found.curves["per_s"] * DAY_S)
    about = pd.DataFrame([_named(names, treatment) for treatment in frame["treatment_id"]])
    frame = pd.concat([frame.reset_index(drop=True), about], axis=1)
    least = frame.loc[frame["cost"] > 0, "cost"].min() / FLOOR
    shown = [show(known("cost"), value) for value in frame["cost"]]
    load = [a_day(per_s) for per_s in frame["per_s"]]
    for name in ("cost", "low", "high"):
        frame[name] = frame[name].clip(lower=least)
    return frame.assign(shown=shown, load=load)[
        ["panel", "series", "treatment", "day", "cost", "low", "high", "shown", "load"]
    ]


def _bounds(lines: pd.DataFrame) -> Bounds:
    """Ends of both axes."""
    return (
        (float(lines["day"].min()), float(lines["day"].max())),
        (float(lines["low"].min()), float(lines["high"].max())),
    )


def _crossings(
    analysis: ExperimentAnalysis, found: BreakEven, names: Names, bounds: Bounds
) -> pd.DataFrame:  # fmt: skip
    panel = {t.label: names[t.treatment_id].panel for t in analysis.treatments}
    marked: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    for one in found.crossings:
        where = panel.get(one.cheaper_below, "")
        marked[where] = marked.get(where, 0) + 1
        if marked[where] <= MOST_MARKED:
            rows.append({"panel": where, **_crossing(one, bounds[0])})
    return _labelled(pd.DataFrame(rows, columns=["panel", "day", "low", "high", "load", "said"]), bounds[0])


def _labelled(crossings: pd.DataFrame, ends: tuple[float, float]) -> pd.DataFrame:
    """Labels where there is room for them: of those that are too near to the one before, only the mark is left."""
    ordered = crossings.sort_values("day")
    labels: list[str] = []
    last: dict[str, float] = {}
    for panel, day, load in ordered[["panel", "day", "load"]].to_numpy().tolist():
        here, before = math.log(day), last.get(panel)
        free = before is None or here - before > ROOM_RATIO * math.log(ends[1] / ends[0])
        labels.append(load if free else "")
        if free:
            last[panel] = here
    return ordered.assign(label=labels)


def _crossing(one: Crossing, ends: tuple[float, float]) -> dict[str, Any]:
    low, high = (
        None if end is None else min(max(end * DAY_S, ends[0]), ends[1]) for end in (one.low, one.high)
    )
    said = f"{clean(one.cheaper_below)} is cheaper below, {clean(one.cheaper_above)} above"
    return {"day": one.per_s * DAY_S, "low": low, "high": high, "load": a_day(one.per_s), "said": said}


def _driven(found: BreakEven, names: Names, bounds: Bounds) -> pd.DataFrame:
    """Where on its line the runs of a treatment were."""
    rows = []
    for treatment_id, per_s in found.measured.items():
        mine = found.curves[found.curves["treatment_id"] == treatment_id]
        nearest = mine.iloc[(mine["per_s"] - per_s).abs().argmin()]
        cost = max(float(nearest["cost"]), bounds[1][0])
        rows.append({**_named(names, treatment_id), "day": per_s * DAY_S, "cost": cost, "load": a_day(per_s)})
    return pd.DataFrame(rows, columns=["panel", "series", "treatment", "day", "cost", "load"])


def _draw(
    layout: Layout, panels: tuple[str, ...], names: Names, bounds: Bounds,
    currency: str,
) -> Chart:  # fmt: skip
    single = len(panels) == 1
    columns, width = layout.beside(len(panels), left=72)
    loads = alt.Scale(type="log", domain=list(bounds[0]), nice=False)
    money = alt.Scale(type="log", domain=list(bounds[1]), nice=False)
    across = alt.Axis(
        title="requests a day, mean over a month", values=base.log_ticks(*bounds[0]), format="~s", grid=False
    )
    up = alt.Axis(title=f"{currency} a month", values=base.log_ticks(*bounds[1]), format="~s")

    def x(name: str) -> alt.X:
        return alt.X(f"{name}:Q", scale=loads, axis=across)

    def y(name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", scale=money, axis=up)

    charts: list[Chart] = []
    for panel in panels:
        layers = _layers(panel, names, layout, x, y)
        title = alt.Undefined if single else panel
        charts.append(alt.layer(*layers, width=width, height=230 if layout.narrow else 300, title=title))
    return base.grid(charts, columns=columns)


def _layers(
    panel: str, names: Names, layout: Layout, x: Callable[[str], alt.X], y: Callable[[str], alt.Y]
) -> list[alt.Chart]:
    def rows(name: str) -> alt.Chart:
        return alt.Chart(base.data(name)).transform_filter(alt.datum.panel == panel)

    hue, dash = base.color(names, layout), base.dash(names, layout)
    money = [
        alt.Tooltip("treatment:N"),
        alt.Tooltip("load:N", title="requests a day"),
        alt.Tooltip("shown:N", title="cost of a month"),
    ]
    place = [alt.Tooltip("load:N", title="requests a day"), alt.Tooltip("said:N", title="break-even")]
    crossings, costs, driven = rows("crossings"), rows("costs"), rows("driven")
    return [
        crossings.mark_rect(opacity=0.35, color=LIGHT["rule"]).encode(x=x("low"), x2="high:Q"),
        crossings.mark_rule(strokeDash=[3, 3], color=LIGHT["muted"]).encode(x=x("day"), tooltip=place),
        crossings.mark_text(align="left", baseline="top", dx=4, color=LIGHT["muted"]).encode(
            x=x("day"), y=alt.value(2), text="label:N"
        ),
        costs.mark_area(opacity=0.2).encode(
            x=x("day"), y=y("low"), y2="high:Q", color=hue, detail="treatment:N"
        ),
        costs.mark_line(strokeWidth=2).encode(
            x=x("day"), y=y("cost"), color=hue, strokeDash=dash, detail="treatment:N"
        ),
        costs.mark_point(size=70, opacity=0).encode(x=x("day"), y=y("cost"), color=hue, tooltip=money),
        *(_driven_marks(driven, number, names, x, y) for number in range(len(names.legend))),
    ]


def _driven_marks(
    driven: alt.Chart, number: int, names: Names, x: Callable[[str], alt.X], y: Callable[[str], alt.Y]
) -> alt.Chart:
    """Marks of one deployment; not by an encoding, as the legend would take their shape and lose its lines."""
    name, style = names.legend[number]
    mine = driven.transform_filter(alt.datum.series == name)
    marks = mine.mark_point(
        size=110, strokeWidth=2.4, opacity=1, fill=LIGHT["paper"], stroke=LIGHT[f"s{style.color}"],
        shape=MARKERS[style.dash],
    )  # fmt: skip
    drawn: alt.Chart = marks.encode(x=x("day"), y=y("cost"))
    return drawn
