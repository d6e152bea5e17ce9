"""The axis of a response variable: its span, its scale, and labels in the unit that reads best."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import altair as alt
import pandas as pd

from towtank.report.figures import base
from towtank.variables import Variable

_UNIT_AXIS: dict[str, tuple[str | None, str]] = {
    "ratio": (None, "~%"),
    "per_s": ("per second", "~r"),
    "cores": ("cores", "~r"),
    "money": (None, "~g"),
}
_LOGARITHMIC = 10
"""Times that differ by more than this factor need a logarithmic axis to be seen at all."""


def domain(var: Variable, values: Iterable[float | None]) -> tuple[float, float]:
    """Everything that is drawn, with a margin; not forced to zero, as positions, not lengths, carry the value."""
    finite = [float(v) for v in values if pd.notna(v)]
    if not finite:
        return (0.0, 1.0)
    low, high = min(finite), max(finite)
    if var.unit == "s" and low > 0 and high / low > _LOGARITHMIC:
        return low / 1.25, high * 1.25
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    low, high = low - margin, high + margin
    if var.unit == "ratio":
        return (low, min(1.0 + (1.0 - low) * 0.06, high)) if high > 1 else (low, high)
    return (max(0.0, low) if min(finite) >= 0 else low, high)


def scale(var: Variable, span: tuple[float, float]) -> alt.Scale:
    """Return a scale over the span; logarithmic where it has to be."""
    kind: Literal["log", "linear"] = "log" if _is_logarithmic(var, span) else "linear"
    zero = alt.Undefined if kind == "log" else False
    return alt.Scale(type=kind, domain=list(span), nice=False, clamp=True, zero=zero)


def axis(var: Variable, span: tuple[float, float], *, ticks: int, title: str | None = None) -> alt.Axis:
    """Return an axis over the span, of about as many ticks as asked for.

    Parameters
    ----------
    var : Variable
    span : tuple of float
        From `domain`.
    ticks : int
    title : str, optional
        Else only the unit, where the labels do not say it.
    """
    if _is_logarithmic(var, span):
        marks = base.log_ticks(*span)
        few = marks if len(marks) <= ticks + 2 else [t for t in marks if base.is_power_of_ten(t)]
        return base.duration_axis(title, values=few)
    if var.unit == "s":
        return base.duration_axis(title, tickCount=ticks)
    if var.unit == "bytes":
        return base.byte_axis(*span, title)
    unit, form = _UNIT_AXIS.get(var.unit, (None, "~s"))
    told = f"{title} ({unit})" if title and unit else title or unit
    return alt.Axis(title=told, format=form, tickCount=ticks)


def place(var: Variable, span: tuple[float, float], value: float) -> float:
    """Return where on its axis a value lies, 0–1."""
    low, high = span
    if _is_logarithmic(var, span):
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def _is_logarithmic(var: Variable, span: tuple[float, float]) -> bool:
    return var.unit == "s" and span[0] > 0 and span[1] / span[0] > _LOGARITHMIC
