"""How columns of response variables and rows of treatments are headed, and what a cell shows that has no value."""

from __future__ import annotations

from typing import Any

import pandas as pd

from towtank.analysis.model import Quantity
from towtank.report.model import Cell, Column
from towtank.report.naming import Names
from towtank.report.text import clean
from towtank.report.values import NOTHING, known, quantity

_SHORT = {
    "mean": "avg",
    "min": "min",
    "max": "max",
    "median": "median",
    "cpu_cores": "CPU",
    "requests": "Due",
}


def column(name: str) -> Column:
    """Head a column of a response variable."""
    return Column(title(name), numeric=True, explanation=known(name).explanation)


def title(name: str) -> str:
    """Short title: ``p95``, ``p95 ok`` (successes only), ``Goodput``."""
    var = known(name)
    if var.successes_only:
        plain = name.removesuffix("_ok")
        return f"{_SHORT.get(plain, plain)} ok"
    if name in _SHORT:
        return _SHORT[name]
    if var.percentile is not None:
        return name
    text = clean(var.title)
    return text[:1].upper() + text[1:]


def row_head(names: Names, treatment_id: str) -> Cell:
    """Head a row of a treatment: its label, with the look of its deployment."""
    named = names[treatment_id]
    return Cell(named.label, style=named.style)


def nothing(reason: str) -> Cell:
    """Show a dash with its reason."""
    return Cell(NOTHING, note=clean(reason or "cannot be said"), tone="muted")


def value_cell(name: str, value: Any, reason: str) -> Cell:  # noqa: ANN401 - a cell of a pandas table
    """Show a number or Quantity from a table of the analysis."""
    if isinstance(value, Quantity):
        return quantity(known(name), value)
    if value is None or pd.isna(value):
        return nothing(reason)
    return quantity(known(name), Quantity(float(value)))
