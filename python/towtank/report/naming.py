"""Which treatment is called and looks how: labels, styles and panels, the same in every figure and table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis, TreatmentSummary
from towtank.report.model import Style
from towtank.report.style import DASHES, SERIES_LIGHT
from towtank.report.text import clean, shorten
from towtank.report.values import known
from towtank.variables import Variable

COUNTED = ("valid", "suspect")
"""Instrument verdicts of runs that enter numbers and figures."""
FIGURE_LABEL = 34
"""Longest label in a figure, in characters."""


@dataclass(frozen=True)
class Named:
    """One treatment as it is shown.

    Parameters
    ----------
    id : str
        As in the analysis; never shown unescaped.
    label : str
        Full, cleaned label.
    short : str
        Label in figures; unique.
    series : str
        What its colour stands for: the deployment, or the first factor where the deployment is not varied.
    panel : str
        The levels of all other factors; figures show one panel for each.
    style : Style
    """

    id: str
    label: str
    short: str
    series: str
    panel: str
    style: Style


class Names:
    """Look treatments up by id, in the order of the file."""

    def __init__(self, analysis: ExperimentAnalysis) -> None:
        treatments = analysis.treatments
        key = series_factor(treatments)
        labels = _unique([clean(t.label) for t in treatments], [clean(t.treatment_id) for t in treatments])
        series = [_series(t, key, label) for t, label in zip(treatments, labels, strict=True)]
        order = {name: number for number, name in enumerate(dict.fromkeys(series))}
        shorts = _unique(
            [shorten(label, FIGURE_LABEL) for label in labels], [str(i + 1) for i in range(len(labels))]
        )
        named = [
            Named(t.treatment_id, label, short, name, _panel(t, key), style_of(order[name]))
            for t, label, short, name in zip(treatments, labels, shorts, series, strict=True)
        ]
        self.all: tuple[Named, ...] = tuple(named)
        self.by_id: dict[str, Named] = {n.id: n for n in named}
        self.legend: tuple[tuple[str, Style], ...] = tuple((name, style_of(i)) for name, i in order.items())
        self._own = analysis.own
        self.panels: tuple[str, ...] = tuple(dict.fromkeys(n.panel for n in named))

    def __getitem__(self, treatment_id: str) -> Named:
        return self.by_id.get(treatment_id) or Named(
            treatment_id, clean(treatment_id), shorten(clean(treatment_id), FIGURE_LABEL), "", "", style_of(0)
        )

    def in_order(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows with a `treatment_id` in the order of the file; those of one treatment stay as they are."""
        places = {name: place for place, name in enumerate(self.by_id)}
        place = rows["treatment_id"].map(places).fillna(len(places))
        return rows.iloc[np.argsort(place.to_numpy(dtype=float), kind="stable")]

    def variable(self, name: str) -> Variable:
        """Look a response variable up, those that the experiment declares included."""
        return self._own.get(name) or known(name)

    def label(self, treatment_id: str) -> str:
        """Return the full label of a treatment."""
        return self[treatment_id].label


def style_of(number: int) -> Style:
    """Return the n-th look; when the colours start over, the dashes shift, so that no look repeats before 36."""
    colors = len(SERIES_LIGHT)
    return Style(number % colors, (number + number // colors) % len(DASHES))


def varied_factors(treatments: tuple[TreatmentSummary, ...]) -> list[str]:
    """Return the factors that do not have the same level in all treatments, or that some do not have."""
    factors = dict.fromkeys(name for t in treatments for name in t.levels)
    return [f for f in factors if len({str(t.levels.get(f)) for t in treatments}) > 1]


def series_factor(treatments: tuple[TreatmentSummary, ...]) -> str | None:
    """Return the factor that colours stand for: the deployment, else the first varied one whose levels are names.

    Where all are numbers it is the first; None where nothing is varied.
    """
    varied = varied_factors(treatments)
    if "deployment" in varied:
        return "deployment"
    names = [f for f in varied if not are_numbers(treatments, f)]
    return next(iter((*names, *varied)), None)


def are_numbers(treatments: tuple[TreatmentSummary, ...], factor: str) -> bool:
    """Whether all levels of a factor are numbers: an axis has a place for them, and their order is no accident."""
    return all(
        isinstance(level, int | float) and not isinstance(level, bool)
        for level in (t.levels.get(factor) for t in treatments)
    )


def _series(treatment: TreatmentSummary, key: str | None, label: str) -> str:
    if key is None or key not in treatment.levels:
        return label
    level = clean(treatment.levels[key])
    return level if key == "deployment" else f"{clean(key)} {level}"


def _panel(treatment: TreatmentSummary, key: str | None) -> str:
    rest = {name: level for name, level in treatment.levels.items() if name != key}
    return shorten(" · ".join(f"{clean(name)} {clean(level)}" for name, level in rest.items()), 60)


def _unique(texts: list[str], fallbacks: list[str]) -> list[str]:
    seen = Counter(texts)
    return [f"{t} ({f})" if seen[t] > 1 else t for t, f in zip(texts, fallbacks, strict=True)]
