"""What all figures share: sizes, theme, axes that read well, and datasets apart from specifications.

A figure is drawn twice from one definition, wide and narrow; both refer to the same named datasets, so that a
report carries its numbers once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.model import Figure
from towtank.report.naming import Names
from towtank.report.style import DASHES, LIGHT, MARKERS

Chart = alt.LayerChart | alt.FacetChart | alt.VConcatChart | alt.HConcatChart | alt.ConcatChart | alt.Chart
Record = dict[str, Any]
Table = pd.DataFrame

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
WIDE_PX = 1010
NARROW_PX = 350
"""Width of a whole figure, axes included; the narrow one fits a phone of 390 px."""
MAX_PANELS = 12

DURATION_LABEL = (
    "datum.value == 0 ? '0' : "
    "datum.value >= 60 ? format(datum.value / 60, '~g') + ' min' : "
    "datum.value >= 1 ? format(datum.value, '~g') + ' s' : "
    "datum.value >= 0.001 ? format(datum.value * 1000, '~g') + ' ms' : "
    "format(datum.value * 1000000, '~g') + ' µs'"
)
"""Axis labels of seconds with the unit that reads best; a constant, so nothing from outside becomes an expression."""


@dataclass(frozen=True)
class Layout:
    """Where a figure is drawn: how wide, and whether that is a phone or a column."""

    narrow: bool
    width: int
    """Of the whole figure, px."""

    def plot(self, *, left: int, right: int = 12, columns: int = 1, gap: int = 18) -> int:
        """Width of one plot among `columns`, after room for axes on the left and labels on the right."""
        return max(60, (self.width - left - right - gap * (columns - 1)) // columns)

    def beside(self, plots: int, *, left: int = 66) -> tuple[int, int]:
        """Return in how many columns so many plots stand, each with axes of its own, and the width of one."""
        columns = 1 if self.narrow or plots == 1 else 2
        return columns, self.plot(left=left, columns=columns, gap=70)


NARROW = Layout(narrow=True, width=NARROW_PX)
_wide_px = ContextVar("wide_px", default=WIDE_PX)


@contextmanager
def wide(width: int) -> Iterator[None]:
    """Draw the wide figures that are built meanwhile in another width, px."""
    token = _wide_px.set(width)
    try:
        yield
    finally:
        _wide_px.reset(token)


def build(
    *,
    id: str,  # noqa: A002 - the field's name
    title: str,
    caption: str,
    alt_text: str,
    draw: Callable[[Layout], Chart],
    datasets: dict[str, Table],
    folded: bool = False,
) -> Figure:
    """Draw a figure in both widths and put its datasets beside the specifications."""
    return Figure(
        id=id,
        title=title,
        caption=caption,
        alt=alt_text,
        wide=_spec(draw(Layout(narrow=False, width=_wide_px.get()))),
        narrow=_spec(draw(NARROW)),
        datasets={name: records(frame) for name, frame in datasets.items()},
        folded=folded,
    )


def _spec(chart: Chart) -> dict[str, Any]:
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec["config"] = CONFIG
    spec["background"] = "transparent"
    spec["padding"] = {"left": 2, "top": 4, "right": 2, "bottom": 2}
    return spec


def records(frame: Table) -> list[Record]:
    """Turn a table into JSON records: four significant digits, null for what is not there."""
    rows = frame.to_dict(orient="records")
    return [{str(k): _plain(v) for k, v in row.items()} for row in rows]


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON in, JSON out
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else float(f"{number:.5g}")


def data(name: str) -> alt.NamedData:
    """Refer to a dataset of the figure."""
    return alt.NamedData(name=name)


# --- encodings -----------------------------------------------------------------------------------------------


def series_domain(names: Names) -> list[str]:
    """Return every deployment, in the order of the file."""
    return [label for label, _ in names.legend]


def hues(names: Names) -> alt.Scale:
    """Return the colour of each deployment, as the scale of fills or strokes."""
    return alt.Scale(domain=series_domain(names), range=[LIGHT[f"s{s.color}"] for _, s in names.legend])


def color(names: Names, layout: Layout | None = None, *, lift: int = 0, marks: bool = False) -> alt.Color:
    """Colour by deployment; with a layout, one legend, `lift` px higher than usual.

    The legend shows colour and dash; with `marks`, colour and marker, for figures whose lines have markers.
    """
    return alt.Color(
        "series:N",
        scale=hues(names),
        legend=_legend(names, layout, lift, marks=marks) if layout else None,
        title=None,
    )


def dash(names: Names, layout: Layout | None = None, *, lift: int = 0) -> alt.StrokeDash:
    """Dash pattern by deployment: the second encoding of lines."""
    return alt.StrokeDash(
        "series:N",
        scale=alt.Scale(domain=series_domain(names), range=[list(DASHES[s.dash]) for _, s in names.legend]),
        legend=_legend(names, layout, lift) if layout else None,
        title=None,
    )


def shape(names: Names) -> alt.Shape:
    """Marker by deployment: the second encoding of points."""
    return alt.Shape(
        "series:N",
        scale=alt.Scale(domain=series_domain(names), range=[MARKERS[s.dash] for _, s in names.legend]),
        legend=None,
        title=None,
    )


def _legend(names: Names, layout: Layout, lift: int, *, marks: bool = False) -> alt.Legend | None:
    if len(names.legend) < 2:
        return None
    return alt.Legend(
        orient="top",
        offset=10 + lift,
        symbolType=alt.Undefined if marks else "stroke",
        symbolSize=90 if marks else 420,
        symbolStrokeWidth=0 if marks else 2.4,
        symbolOpacity=1,
        columns=legend_columns(names, layout),
        labelLimit=layout.width - 60,
    )


def legend_columns(names: Names, layout: Layout) -> int:
    """How many legend entries fit side by side."""
    longest = max((len(label) for label, _ in names.legend), default=1)
    return max(1, layout.width // (longest * 7 + 40))


def duration_axis(title: str | None, **options: Any) -> alt.Axis:  # noqa: ANN401 - altair's own
    """Return an axis of seconds."""
    return alt.Axis(title=title, labelExpr=DURATION_LABEL, **options)


def row_axis(*, limit: int, labels: bool = True) -> alt.Axis:
    """Return an axis of names, one per row."""
    return alt.Axis(
        title=None,
        labels=labels,
        labelFontSize=12,
        labelColor=LIGHT["ink"],
        labelLimit=limit,
        labelPadding=10,
        grid=False,
    )


def nice_log(values: Iterable[float], *, pad: float = 1.15) -> tuple[float, float]:
    """Return a domain for a logarithmic axis around the positive values."""
    positive = [v for v in values if v is not None and math.isfinite(v) and v > 0]
    if not positive:
        return (0.001, 1.0)
    low, high = min(positive) / pad, max(positive) * pad
    return (low, high) if high / low > 1.5 else (low / 1.3, high * 1.3)


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 × powers of ten within the domain; only powers of ten when it spans more than three decades.

    A domain so narrow that fewer than two of them lie in it has every whole multiple.

    >>> log_ticks(0.004, 0.06)
    [0.005, 0.01, 0.02, 0.05]
    >>> log_ticks(0.052, 0.088)
    [0.06, 0.07, 0.08]
    """
    steps = (1, 2, 5) if high / low <= 1000 else (1,)
    ticks = _ticks_of(steps, low, high)
    return ticks if len(ticks) > 1 else _ticks_of(range(1, 10), low, high)


def _ticks_of(steps: Iterable[int], low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{s * 10.0**d:.6g}") for d in decades for s in steps]
    return [t for t in ticks if low <= t <= high]


def latency_title(analysis: ExperimentAnalysis) -> str:
    """Say from when latencies count: other tools keep no schedule, so theirs count from when a request was sent."""
    return "latency from the actual start" if analysis.meta.get("tools") else "latency from intended start"


def latency_axis(analysis: ExperimentAnalysis, layout: Layout, low: float, high: float) -> alt.Axis:
    """Return a logarithmic axis of latency across a figure."""
    return time_axis(latency_title(analysis), layout, low, high)


def time_axis(title: str, layout: Layout, low: float, high: float) -> alt.Axis:
    """Return a logarithmic axis of seconds; with every other tick where there is little room."""
    ticks = log_ticks(low, high)
    few = ticks[::2] if layout.narrow and len(ticks) > 7 else ticks
    return duration_axis(title, values=few)


def is_power_of_ten(tick: float) -> bool:
    """Tell the ticks that stay when there are too many."""
    return f"{tick:e}".startswith("1.000")


def byte_ticks(low: float, high: float, *, most: int = 4) -> list[float]:
    """Round sizes in MiB within the domain: 1, 2 or 5 × a power of ten apart.

    >>> [t / 2**20 for t in byte_ticks(0, 130 * 2**20)]
    [0.0, 50.0, 100.0]
    """
    mebi = 2.0**20
    span = max((high - low) / mebi, 1e-9)
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(s * power for s in (1, 2, 5, 10, 20) if span / (s * power) <= most)
    first = math.ceil(low / mebi / step - 1e-9)
    return [round(k * step, 9) * mebi for k in range(first, math.floor(high / mebi / step + 1e-9) + 1)]


def byte_axis(
    low: float,
    high: float,
    title: str | None = None,
    **options: Any,  # noqa: ANN401 - altair's own
) -> alt.Axis:
    """Return an axis of sizes in MiB."""
    return alt.Axis(title=title, values=byte_ticks(low, high), labelExpr=_MIB_LABEL, **options)


_MIB_LABEL = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~r') + ' GiB' : "
    "format(datum.value / 1048576, '~r') + ' MiB'"
)


def panels(names: Names) -> tuple[tuple[str, ...], str]:
    """Return the panels that are drawn, and a sentence about those that are not."""
    if len(names.panels) <= MAX_PANELS:
        return names.panels, ""
    left = len(names.panels) - MAX_PANELS
    return names.panels[:MAX_PANELS], f" {left} further combinations of levels are in the tables only."


def of_treatments(shown: Iterable[str]) -> tuple[list[str], str]:
    """Return the treatments that have a plot each, and a sentence about those that are left out."""
    found = list(dict.fromkeys(shown))
    left = max(0, len(found) - MAX_PANELS)
    return found[:MAX_PANELS], f" {left} further treatments are in the table only." if left else ""


def grid(charts: Sequence[Chart], *, columns: int) -> Chart:
    """Arrange plots in rows of `columns`."""
    if len(charts) == 1:
        return charts[0]
    return alt.concat(*charts, columns=columns, spacing=22)


CONFIG: dict[str, Any] = {
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": LIGHT["muted"],
        "titleColor": LIGHT["muted"],
        "gridColor": LIGHT["grid"],
        "domainColor": LIGHT["rule"],
        "tickColor": LIGHT["rule"],
        "labelFontSize": 11.5,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelFontWeight": "normal",
        "titlePadding": 8,
        "labelPadding": 4,
        "tickSize": 4,
        "labelLimit": 260,
    },
    "axisY": {"domain": False, "ticks": False},
    "legend": {
        "labelColor": LIGHT["ink"],
        "titleColor": LIGHT["muted"],
        "labelFontSize": 12.5,
        "labelLimit": 300,
        "offset": 10,
        "padding": 0,
        "columnPadding": 22,
        "rowPadding": 4,
    },
    "title": {
        "color": LIGHT["ink"],
        "fontSize": 13,
        "fontWeight": 600,
        "anchor": "start",
        "offset": 8,
        "subtitleColor": LIGHT["muted"],
        "subtitleFontSize": 12,
    },
    "text": {"color": LIGHT["ink"], "fontSize": 11.5},
    "header": {"labelColor": LIGHT["ink"], "titleColor": LIGHT["muted"]},
}
