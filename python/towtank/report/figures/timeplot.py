"""One plot of the grid over time: band and line of a response variable, stages shaded behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import altair as alt

from towtank.report.figures import base
from towtank.report.figures.backdrop import Backdrop, rows_of
from towtank.report.figures.base import Chart, Layout
from towtank.report.naming import Named, Names
from towtank.report.series import BEHIND, OWN
from towtank.report.style import LIGHT

LATENCIES = ("p50_s", "p95_s")
TITLES = {
    "rate": "requests /s",
    "p50_s": "median latency",
    "p95_s": "p95 latency",
    "goodput": "goodput",
    "pods": "pods ready",
    "pods_pending": "pods pending",
    "nodes_ready": "nodes ready",
    "cpu_cores": "CPU, cores",
    "memory_bytes": "memory",
}
COUNTS = ("pods", "pods_pending", "nodes_ready")
_TIME_LABEL = (
    "datum.value >= 600 ? format(datum.value / 60, '~g') + ' min' : format(datum.value, '~g') + ' s'"
)


def whole_ticks(high: float, *, most: int = 4) -> list[int]:
    """Whole numbers from 0 on, not more than `most` steps: there is no half a pod.

    >>> whole_ticks(1.12), whole_ticks(10)
    ([0, 1], [0, 3, 6, 9])
    """
    return list(range(0, math.floor(high) + 1, max(1, math.ceil(high / most))))


def time_axis(ticks: int, *, shown: bool = True) -> alt.Axis:
    """Return the axis of time since the load started; not shown, it has neither labels nor a title."""
    title = "time since the load started" if shown else None
    return alt.Axis(
        title=title, labels=shown, ticks=shown, labelExpr=_TIME_LABEL, tickCount=ticks, grid=False
    )


@dataclass(frozen=True)
class TimePlot:
    """What one row of the grid needs.

    Parameters
    ----------
    row : str
        A key of `TITLES`.
    domain : tuple of float
        Of the vertical axis, shared by all columns.
    behind : Backdrop
        Shared by all rows; the data sets `stages` and `faults` are its.
    bursts : bool
        Whether some treatment has bursts in its logs: the data set `bursts` then says when.
    first, last : bool
        Whether it carries the names of stages, and the labels of the time axis.
    title, unit : str
        For rows that are not in `TITLES`: what the vertical axis is called, and in which unit it is.
    """

    row: str
    domain: tuple[float, float]
    behind: Backdrop
    first: bool
    last: bool
    bursts: bool = False
    title: str = ""
    unit: str = ""

    def column(self, names: Names, named: Named, width: int, *, leftmost: bool) -> Chart:
        """Draw one treatment."""
        source = rows_of("bands", named)
        title: Any = alt.Undefined
        if self.first:
            hue = LIGHT[f"s{named.style.color}"]
            title = alt.Title(named.series or named.short, color=hue, fontSize=13, offset=17)
        layers = self._layers(source, names, None, ticks=max(3, width // 90), leftmost=leftmost)
        behind = [*self.behind.shading(width, named=self.first), *self.behind.disturbed(named)]
        marks = self._burst_marks(named)
        return alt.layer(*behind, *layers, *marks, width=width, height=96, title=title)

    def overlay(self, names: Names, layout: Layout) -> Chart:
        """Draw all treatments in one plot: columns would be too narrow on a phone."""
        width = layout.plot(left=66)
        layers = self._layers(rows_of("bands", None), names, layout, ticks=4, leftmost=True)
        behind = [*self.behind.shading(width, named=self.first), *self.behind.disturbed(None)]
        return alt.layer(*behind, *layers, *self._burst_marks(None), width=width, height=92)

    def _layers(
        self, source: alt.Chart, names: Names, legend: Layout | None, *, ticks: int, leftmost: bool
    ) -> list[alt.Chart]:
        scale, axis = self._vertical(labels=leftmost)
        x, y = self._horizontal(ticks), alt.Y("mid:Q", scale=scale, axis=axis)
        hue, dash = base.color(names, legend), base.dash(names, legend)
        mine = source.transform_filter(alt.datum.variable == OWN.get(self.row, self.row))
        layers = [self._wanted(source, y)] if self.row in BEHIND else []
        layers += [
            mine.mark_area(opacity=0.2, clip=True).encode(
                x=x, y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q", color=hue, detail="treatment:N"
            ),
            mine.mark_line(strokeWidth=1.8, clip=True).encode(
                x=x, y=y, color=hue, strokeDash=dash, detail="treatment:N"
            ),
            mine.mark_point(size=70, opacity=0, clip=True).encode(
                x=x, y=y, color=hue, tooltip=self._tooltip()
            ),
        ]
        single = mine.transform_filter(alt.datum.alone)
        layers.append(
            single.mark_point(size=36, filled=True, opacity=1, clip=True).encode(x=x, y=y, color=hue)
        )
        if self.row in LATENCIES:
            layers.append(self._failing(mine, x, hue))
        return layers

    def _wanted(self, source: alt.Chart, y: alt.Y) -> alt.Chart:
        x = alt.X("t:Q", scale=self.behind.time())
        wanted = source.transform_filter(alt.datum.variable == BEHIND[self.row])
        line = wanted.mark_line(color=LIGHT["muted"], strokeWidth=1.2, opacity=0.8, interpolate="step-after")
        drawn: alt.Chart = line.encode(x=x, y=y, detail="treatment:N")
        return drawn

    def _failing(self, mine: alt.Chart, x: alt.X, hue: alt.Color) -> alt.Chart:
        """Marks at the top edge: the percentile of some run lies among its failures."""
        marks = mine.transform_filter(alt.datum.failing > 0)
        share = alt.Tooltip("failing:Q", title="runs whose percentile failed", format=".0%")
        drawn: alt.Chart = marks.mark_point(shape="triangle-up", size=30, filled=True, opacity=1).encode(
            x=x, y=alt.value(4), color=hue, tooltip=[alt.Tooltip("treatment:N"), share]
        )
        return drawn

    def _tooltip(self) -> list[alt.Tooltip]:
        return [
            alt.Tooltip("treatment:N"),
            alt.Tooltip("t:Q", title="from (s)", format=".3~r"),
            alt.Tooltip("end:Q", title="to (s)", format=".3~r"),
            alt.Tooltip("shown:N", title=self._title),
            alt.Tooltip("range:N", title="lowest … highest run"),
        ]

    @property
    def _title(self) -> str:
        return self.title or TITLES[self.row]

    def _horizontal(self, ticks: int) -> alt.X:
        return alt.X("at:Q", scale=self.behind.time(), axis=time_axis(ticks, shown=self.last))

    def _vertical(self, *, labels: bool) -> tuple[alt.Scale, alt.Axis]:
        title, (low, high) = (self._title if labels else None), self.domain
        extent = 54 if labels else 0
        scale = alt.Scale(domain=[low, high], nice=False)
        if self.row in LATENCIES:
            ticks = base.log_ticks(low, high)
            ticks = ticks if len(ticks) <= 6 else [t for t in ticks if base.is_power_of_ten(t)]
            axis = base.duration_axis(title, values=ticks, labels=labels, minExtent=extent)
            return alt.Scale(type="log", domain=[low, high], nice=False), axis
        if self.row == "memory_bytes" or self.unit in ("bytes", "bytes_per_s"):
            return scale, base.byte_axis(low, high, title, labels=labels, minExtent=extent)
        if self.row == "goodput":
            values = [low, (low + 1) / 2, 1]
            return scale, alt.Axis(title=title, labels=labels, format=".0%", values=values, minExtent=extent)
        if self.unit == "s":
            return scale, base.duration_axis(title, tickCount=4, labels=labels, minExtent=extent)
        form = ".0%" if self.unit == "ratio" else alt.Undefined
        if self.row in COUNTS:
            return scale, alt.Axis(
                title=title, labels=labels, values=whole_ticks(high), format="d", minExtent=extent
            )
        return scale, alt.Axis(title=title, labels=labels, tickCount=4, format=form, minExtent=extent)

    def _burst_marks(self, named: Named | None) -> list[alt.Chart]:
        """When an instance logged far more than usual, in any run: marks at the foot of the first row."""
        if not self.bursts or not self.first:
            return []
        source = rows_of("bursts", named)
        tooltip = [
            alt.Tooltip("what:N", title="log burst"),
            alt.Tooltip("t:Q", title="at (s)", format=".3~r"),
        ]
        marks = source.mark_point(shape="triangle-up", size=36, filled=True, opacity=0.9, color=LIGHT["ink"])
        return [marks.encode(x=alt.X("t:Q", scale=self.behind.time()), y=alt.value(92), tooltip=tooltip)]
