"""Normality of per-run values: three tests with their p-values and a word. Descriptive."""

from __future__ import annotations

from towtank.analysis.model import ExperimentAnalysis
from towtank.analysis.normality import Normality, Tested
from towtank.report.model import Cell, Column, Table, Tone
from towtank.report.naming import Names
from towtank.report.text import clean
from towtank.report.values import NOTHING, p_value

TESTS = {
    "shapiro_wilk": ("Shapiro–Wilk W", "p"),
    "lilliefors": ("Kolmogorov–Smirnov D", "p (Lilliefors)"),
    "anderson_darling": ("Anderson–Darling A²", "p"),
}
_TONE: dict[str, Tone] = {"not normal": "unsure", "nothing against it": "plain"}


def normality(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """One row per variable and treatment; None without a run."""
    if not analysis.normality:
        return None
    rows = tuple(
        (
            Cell(clean(names.variable(one.variable).title)),
            Cell(names.label(one.treatment_id), style=names[one.treatment_id].style),
            Cell(str(one.n), sort=one.n),
            *(cell for name in TESTS for cell in _cells(one.tests[name])),
            _word(one),
        )
        for one in analysis.normality
    )
    columns = (
        Column("Variable"),
        Column("Treatment"),
        Column("Runs", numeric=True),
        *(Column(title, numeric=True) for titles in TESTS.values() for title in titles),
        Column("Verdict"),
    )
    remark = (
        "Of per-run values; each test by itself. No method was chosen by it: that is fixed by the design. "
        "Kolmogorov–Smirnov with mean and standard deviation estimated, hence Lilliefors' distribution, whose table "
        "reaches from 0.001 to 0.2."
    )
    return Table("normality", "Do the runs look normal?", columns, rows, remark, folded=True)


def _cells(test: Tested) -> tuple[Cell, Cell]:
    if test.statistic is None or test.p is None:
        return Cell(NOTHING, tone="muted"), Cell(NOTHING, tone="muted")
    shown = p_value(test.p)
    if test.bound and not shown.startswith("<"):
        shown = f"{test.bound} {shown}"
    return Cell(f"{test.statistic:.4f}", sort=test.statistic), Cell(shown, sort=test.p)


def _word(found: Normality) -> Cell:
    return Cell(found.word, note=clean(found.reason), tone=_TONE.get(found.word, "muted"))
