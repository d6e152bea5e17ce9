"""Pareto front: treatments by two variables; on the front are those that none other beats in both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import pandas as pd

from towtank.analysis.model import Estimate, ExperimentAnalysis, TreatmentSummary
from towtank.analysis.verdicts import GOODPUT_GUARD
from towtank.errors import TowtankError
from towtank.report.figures import base, variable_axis
from towtank.report.figures.base import Chart, Layout
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import LIGHT
from towtank.report.text import clean, identifier, listed
from towtank.report.values import estimate, listed_confidence
from towtank.spelling import nearest_name
from towtank.variables import Variable

PAIRS = (("cost_per_1000", "p95"), ("cost", "p95"), ("cpu_cores", "p95"))
"""The first of which both are known is drawn when no pair is asked for."""
LEAST = 3
"""Treatments from which on there is a front to speak of."""
MAX_TREATMENTS = 40
HEIGHT = 300


def paretos(
    analysis: ExperimentAnalysis, names: Names, asked: Sequence[tuple[str, str]] = ()
) -> list[Figure]:
    """Draw the pairs that are asked for, else the first of `PAIRS` that is known.

    Raises
    ------
    TowtankError
        A variable that is asked for has no value in any treatment.
    """
    for name in {name: None for pair in asked for name in pair}:
        if not _known(analysis, name):
            raise TowtankError(f"{clean(name)} has no value in these results", hint=_hint(analysis, name))
    if asked:
        found = [_front(analysis, names, pair, least=1) for pair in asked]
    else:
        pair = next((p for p in PAIRS if _known(analysis, p[0]) and _known(analysis, p[1])), None)
        found = [_front(analysis, names, pair, least=LEAST)] if pair else []
    return [one for one in found if one is not None]


def _hint(analysis: ExperimentAnalysis, name: str) -> str:
    there = [
        v for v in dict.fromkeys(v for t in analysis.treatments for v in t.estimates) if _known(analysis, v)
    ]
    near = nearest_name(name, there)
    return (f"did you mean {near}? " if near else "") + f"there are {listed(there, most=40)}"


def _known(analysis: ExperimentAnalysis, name: str) -> bool:
    return any(_mean(t, name) is not None for t in analysis.treatments)


def _front(analysis: ExperimentAnalysis, names: Names, pair: tuple[str, str], *, least: int) -> Figure | None:
    both = names.variable(pair[0]), names.variable(pair[1])
    valued = [t for t in analysis.treatments if all(_mean(t, v.name) is not None for v in both)]
    if len(valued) < least or not valued:
        return None
    front = on_front([(_worth(t, both[0]), _worth(t, both[1])) for t in valued])
    first = sorted(range(len(valued)), key=lambda number: not front[number])[:MAX_TREATMENTS]
    shown, best = [valued[number] for number in first], [front[number] for number in first]
    points = pd.DataFrame([_point(t, both, names, front=f) for t, f in zip(shown, best, strict=True)])
    spans = [variable_axis.domain(v, _drawn(points, axis)) for v, axis in zip(both, "xy", strict=True)]
    points = points.assign(number=range(len(points)))
    line = points[points.front == 1].sort_values(["x", "y"])
    missing = [names.label(t.treatment_id) for t in analysis.treatments if t not in valued]
    beyond = len(valued) - len(shown)

    def draw(layout: Layout) -> Chart:
        width = layout.plot(left=72, right=20)
        labels = _labels(points, list(zip(both, spans, strict=True)), width)
        return _draw(names, layout, both, spans, width=width, labels=labels, stepped=not line.above.any())

    words = [
        f"{r.treatment} ({both[0].title} {r.x_shown}, {both[1].title} {r.y_shown})" for r in line.itertuples()
    ]
    left = f" Without a value in one of them: {listed(missing)}." if missing else ""
    if beyond:
        left += f" Not drawn, to keep the figure readable: {beyond} more."
    if any(v.successes_only for v in both) and _goodput_differs(valued):
        left += " Goodput differs by more than a point, so latencies of successes only do not rank these treatments."
    censored = ""
    if points.above.any():
        censored = (
            " A triangle: some run's value lies among the failures, so it is worse than where it stands."
        )
    return base.build(
        id=f"pareto-{identifier(pair[0])}-{identifier(pair[1])}",
        title=f"Pareto front of {both[0].title} and {both[1].title}",
        caption=f"Means over runs with their {listed_confidence(analysis)} intervals. Filled: no other treatment is "
        "better in one and at least as good in the other, going by the means; hollow: another one is. Where intervals "
        f"overlap, that may be chance.{censored}{left}",
        alt_text=f"Treatments by {both[0].title} and {both[1].title}. On the front: {listed(words, most=8)}.",
        draw=draw,
        datasets={"points": points, "front": line},
    )


def _goodput_differs(treatments: Sequence[TreatmentSummary]) -> bool:
    known = [mean for t in treatments if (mean := _mean(t, "goodput")) is not None]
    return bool(known) and max(known) - min(known) > GOODPUT_GUARD


def on_front(values: Sequence[tuple[float, float]]) -> list[bool]:
    """Tell which points no other one dominates; smaller is better in both.

    >>> on_front([(1, 4), (2, 2), (3, 3), (2, 2)])
    [True, True, False, True]
    """
    return [
        not any(a <= x and b <= y and (a < x or b < y) for a, b in values)
        for x, y in values
    ]  # fmt: skip


def _mean(treatment: TreatmentSummary, name: str) -> float | None:
    found = treatment.estimates.get(name)
    return found.mean if found is not None else None


def _worth(treatment: TreatmentSummary, var: Variable) -> float:
    """The mean, turned so that less is better; what lies among the failures is worse than anything."""
    found: Estimate = treatment.estimates[var.name]
    if found.above or found.mean is None:
        return math.inf
    return found.mean if var.lower_is_better else -found.mean


def _point(
    treatment: TreatmentSummary, both: tuple[Variable, Variable], names: Names, *, front: bool
) -> dict[str, Any]:
    named = names[treatment.treatment_id]
    row: dict[str, Any] = {"treatment": named.short, "series": named.series, "front": int(front), "above": 0}
    for var, axis in zip(both, "xy", strict=True):
        found = treatment.estimates[var.name]
        cell = estimate(found)
        low = found.mean if found.low is None else found.low
        high = found.mean if found.high is None else found.high
        if var.unit == "ratio" and low is not None and high is not None:
            low, high = max(0.0, low), min(1.0, high)
        row |= {axis: found.mean, f"{axis}_low": low, f"{axis}_high": high, f"{axis}_shown": cell.text,
                f"{axis}_interval": cell.detail or "–"}  # fmt: skip
        row["above"] = max(row["above"], int(found.above))
    return row


_BESIDE = ((1, -10), (1, 14), (-1, -10), (-1, 14))
"""Where a label may stand: to the right or left of its point, so many px below it."""
_CHAR_PX, _LINE_PX, _GAP_PX = 6.4, 13, 11
_Box = tuple[float, float, float, float]


def _labels(
    points: pd.DataFrame, scales: Sequence[tuple[Variable, tuple[float, float]]], width: int
) -> list[list[int]]:
    """Numbers of the points whose label stands at each of `_BESIDE`: the first where it covers nothing.

    A point whose label would cover others wherever it stood has none; its tooltip tells.
    """
    across, up = ([variable_axis.place(*scale, float(v)) for v in points[axis]]
                  for axis, scale in zip("xy", scales, strict=True))  # fmt: skip
    middles = [(a * width, (1 - u) * HEIGHT) for a, u in zip(across, up, strict=True)]
    taken: list[_Box] = [(x - 7, y - 7, x + 7, y + 7) for x, y in middles]
    found: list[list[int]] = [[] for _ in _BESIDE]
    for number, ((x, y), label) in enumerate(zip(middles, points.treatment, strict=True)):
        for at, (side, down) in enumerate(_BESIDE):
            near, far = x + side * _GAP_PX, x + side * (_GAP_PX + _CHAR_PX * len(label))
            box = (min(near, far), y + down - _LINE_PX / 2, max(near, far), y + down + _LINE_PX / 2)
            if box[0] >= 0 and box[2] <= width + 20 and not any(_overlap(box, other) for other in taken):
                found[at].append(number)
                taken.append(box)
                break
    return found


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _drawn(points: pd.DataFrame, axis: str) -> list[float]:
    return [float(v) for v in points[[axis, f"{axis}_low", f"{axis}_high"]].to_numpy(dtype=float).ravel()]


def _draw(
    names: Names, layout: Layout, both: tuple[Variable, Variable], spans: list[tuple[float, float]], *,
    width: int, labels: list[list[int]], stepped: bool,
) -> Chart:  # fmt: skip
    scales = [variable_axis.scale(v, s) for v, s in zip(both, spans, strict=True)]
    axes = [
        variable_axis.axis(v, s, ticks=4 if layout.narrow else 6,
                           title=v.title)
        for v, s in zip(both, spans, strict=True)
    ]  # fmt: skip

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scales[0], axis=axes[0])

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scales[1], axis=axes[1])

    points, hue = alt.Chart(base.data("points")), base.color(names)
    tooltip = [alt.Tooltip("treatment:N")]
    for axis, var in zip("xy", both, strict=True):
        tooltip += [
            alt.Tooltip(f"{axis}_shown:N", title=var.title),
            alt.Tooltip(f"{axis}_interval:N", title="interval"),
        ]
    layers = [
        points.mark_rule(strokeWidth=3, opacity=0.35).encode(x=x("x_low"), x2="x_high:Q", y=y("y"), color=hue),
        points.mark_rule(strokeWidth=3, opacity=0.35).encode(x=x("x"), y=y("y_low"), y2="y_high:Q", color=hue),
        _marks(points, 0, 0).mark_point(
            filled=False, fill=LIGHT["paper"], size=130, opacity=1, strokeWidth=2).encode(
            x=x("x"), y=y("y"), color=hue, shape=base.shape(names), tooltip=tooltip),
        _marks(points, 1, 0).mark_point(filled=True, size=130, opacity=1, strokeWidth=2).encode(
            x=x("x"), y=y("y"), color=hue, shape=base.shape(names), tooltip=tooltip),
        points.transform_filter(alt.datum.above == 1).mark_point(
            filled=True, size=90, opacity=1, shape="triangle-up"
        ).encode(x=x("x"), y=y("y"), color=hue, tooltip=tooltip),
    ]  # fmt: skip
    if stepped:
        # What a point on the front dominates lies to its right where less is better, else to its left.
        way: Literal["step-after", "step-before"] = "step-after" if both[0].lower_is_better else "step-before"
        line = alt.Chart(base.data("front")).mark_line(
            interpolate=way, color=LIGHT["muted"], strokeWidth=1.2, strokeDash=[2, 3]
        )
        layers.insert(0, line.encode(x=x("x"), y=y("y"), order="x:Q"))
    for (side, down), numbers in zip(_BESIDE, labels, strict=True):
        mine = points.transform_filter(alt.FieldOneOfPredicate(field="number", oneOf=numbers))
        text = mine.mark_text(
            align="left" if side > 0 else "right", dx=side * _GAP_PX, dy=down, fontSize=11.5
        )
        layers += [text.encode(x=x("x"), y=y("y"), text="treatment:N")] if numbers else []
    better = ["lower" if v.lower_is_better else "higher" for v in both]
    told = f"{both[0].title}: {better[0]} is better; {both[1].title}: {better[1]} is better"
    title = alt.Title(told, fontSize=11, fontWeight="normal", color=LIGHT["muted"])
    return alt.layer(*layers, width=width, height=HEIGHT, title=title)


def _marks(points: alt.Chart, front: int, above: int) -> alt.Chart:
    mine: alt.Chart = points.transform_filter(alt.datum.front == front).transform_filter(
        alt.datum.above == above
    )
    return mine
