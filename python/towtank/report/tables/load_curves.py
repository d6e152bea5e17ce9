"""Where responses turn over load, and how throughput scales: exploratory, each with its cautions."""

from __future__ import annotations

import math

from towtank.analysis.load_curves import LoadCurve, Scales
from towtank.analysis.model import ExperimentAnalysis
from towtank.analysis.scalability import Coefficient
from towtank.design.capacity_file import UNITS
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import nothing
from towtank.report.text import clean
from towtank.units import format_number


def turning_points(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """One row for each response over the loads of a deployment; nothing without several loads."""
    if not analysis.load_curves:
        return None
    columns = (
        Column("Deployment"),
        Column("Response"),
        Column(
            "Turns at",
            numeric=True,
            explanation="load at which two straight lines meet that fit the runs best",
        ),
        Column(
            "Before and after", numeric=True, explanation="change of the response for each unit more of load"
        ),
        Column(
            "p", numeric=True, explanation="how often one line would be left so far behind by chance alone"
        ),
    )
    remark = (
        "Two straight lines that meet, against one, by bootstrap; of latency its logarithm is fitted, so its slopes "
        "are factors. Where one line does as well there is no such place."
    )
    rows = tuple(_turning(one, names) for one in analysis.load_curves)
    return Table("turning-points", "Where responses turn", columns, rows, remark)


def _turning(one: LoadCurve, names: Names) -> tuple[Cell, ...]:
    found, described = one.turning, names.variable(one.variable)
    left = f"; {one.left_out} {one.unit} whose value lies among failures are left out" if one.left_out else ""
    head = (Cell(clean(one.family.label)), Cell(clean(described.title)))
    p = nothing(found.reason) if found.p is None else Cell(format_number(found.p, digits=2), sort=found.p)
    if found.at is None:
        return (*head, nothing(found.reason + left), nothing(found.reason + left), p)
    unit = UNITS[one.family.model]
    bounds = f"{format_number(found.low or 0, digits=3)} to {format_number(found.high or 0, digits=3)}"
    place = Cell(
        f"{format_number(found.at, digits=3)} {unit}", note=clean((found.reason + left).removeprefix("; ")),
        detail=bounds, sort=found.at,
    )  # fmt: skip
    is_log = described.percentile is not None
    slopes = " → ".join(_slope(one, is_log=is_log) for one in (found.slope_before, found.slope_after))
    return (*head, place, Cell(slopes), p)


def _slope(value: float | None, *, is_log: bool) -> str:
    """Change for each unit of load: a share of itself where logarithms were fitted."""
    if value is None:
        return "–"
    if is_log:
        return f"{'+' if value >= 0 else '−'}{format_number(100 * abs(math.expm1(value)), digits=2)} %"
    return f"{'+' if value >= 0 else '−'}{format_number(abs(value), digits=2)}"


def scaling_laws(analysis: ExperimentAnalysis) -> Table | None:
    """One row for each fit of the Universal Scalability Law; nothing where there are too few levels for any."""
    if not analysis.scaling_laws:
        return None
    columns = (
        Column("Deployment"),
        Column("What scales"),
        Column("λ", numeric=True, explanation="what one alone does"),
        Column("σ, contention", numeric=True, explanation="share that is done one after another"),
        Column("κ, crosstalk", numeric=True, explanation="what each pays for each other"),
        Column("Most at", numeric=True, explanation="where more of it brings no more, if that was shown"),
        Column("Levels", numeric=True),
    )
    remark = (
        "X(N) = λN ÷ (1 + σ(N − 1) + κN(N − 1)), with 95 % profile intervals. A description of the range that was "
        "measured; the notes say for what it must not be trusted."
    )
    rows = tuple(_law(one) for one in analysis.scaling_laws)
    return Table("scalability", "Universal Scalability Law", columns, rows, remark)


def _law(one: Scales) -> tuple[Cell, ...]:
    what = Cell(f"{clean(one.of)} over {clean(one.by)}")
    law = one.law
    if law is None:
        return (Cell(clean(one.label)), what, *(nothing(one.reason) for _ in range(5)))
    peak = "no crosstalk was shown, so no peak either"
    return (
        Cell(clean(one.label), note=clean("; ".join(one.cautions))),
        what,
        *(_coefficient(value) for value in (law.rate, law.contention, law.crosstalk)),
        nothing(peak)
        if law.peak_at is None
        else Cell(format_number(law.peak_at, digits=3), sort=law.peak_at),
        Cell(str(law.levels), detail=f"{law.n} runs", sort=float(law.levels)),
    )


def _coefficient(found: Coefficient) -> Cell:
    high = "∞" if math.isinf(found.high) else format_number(found.high, digits=3)
    text = format_number(found.value, digits=3)
    return Cell(text, detail=f"{format_number(found.low, digits=3)} to {high}", sort=found.value)
