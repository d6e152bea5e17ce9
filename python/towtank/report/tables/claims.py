"""What is claimed: contrasts with their verdicts, service levels; and what was looked at besides."""

from __future__ import annotations

import pandas as pd

from towtank.analysis.model import Comparison, ExperimentAnalysis
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import nothing, row_head, value_cell
from towtank.report.text import clean
from towtank.report.values import (
    confidence,
    effect,
    effect_interval,
    estimate,
    known,
    p_value,
    share,
    show,
    verdict,
)
from towtank.units import format_number


def claims(comparisons: tuple[Comparison, ...], names: Names, *, confirmatory: bool) -> Table | None:
    """Contrasts with effect, interval, adjusted p and verdict; exploratory ones carry no verdict."""
    mine = [c for c in comparisons if c.confirmatory == confirmatory]
    repeated = set() if confirmatory else _repeated(comparisons)
    mine = [c for c in mine if c.variable not in repeated]
    if not mine:
        return None
    columns = [
        Column("Contrast"),
        Column("Variable"),
        Column(
            "Effect",
            numeric=True,
            explanation="treatment ÷ baseline as a change; shares as a difference in points",
        ),
        Column("Interval", numeric=True),
        Column(
            "Adjusted p",
            numeric=True,
            optional=True,
            explanation="after Holm" if confirmatory else "for the false discovery rate",
        ),
        Column(
            "n", numeric=True, optional=True, explanation="blocks, or runs a side where the order was listed"
        ),
    ]
    if confirmatory:
        columns.append(Column("Verdict"))
    rows = tuple(_claim(c, names, confirmatory=confirmatory) for c in mine)
    if confirmatory:
        caption = "What is claimed"
        remark = "Intervals are simultaneous over all claims, p-values adjusted by Holm."
    else:
        caption = "What else was looked at (exploratory)"
        remark = (
            "Not part of the claims: p-values are adjusted for the false discovery rate of this table, "
            "and there are no verdicts."
            + (f" Left out, as they repeat others: {', '.join(sorted(repeated))}." if repeated else "")
        )
    return Table(
        "claims" if confirmatory else "exploratory",
        caption,
        tuple(columns),
        rows,
        " ".join([_method(mine), remark, _checks(mine)]).strip(),
    )


def _repeated(comparisons: tuple[Comparison, ...]) -> set[str]:
    """Variables whose comparisons say what others say: the error share beside goodput; ``_ok`` where nothing failed."""
    said: dict[str, list[tuple[object, ...]]] = {}
    for c in comparisons:
        numbers = c.treatment_id, c.baseline_id, c.n, c.estimate, c.low, c.high
        said.setdefault(c.variable, []).append(numbers)
    same = {name for name, rows in said.items() if name.endswith("_ok") and said.get(name[:-3]) == rows}
    return same | ({"error_ratio"} if "goodput" in said else set())


def _claim(c: Comparison, names: Names, *, confirmatory: bool) -> tuple[Cell, ...]:
    named, var = names[c.treatment_id], names.variable(c.variable)
    able, interval = c.estimate is not None, effect_interval(c)
    row = [
        Cell(named.label, detail=f"against {names.label(c.baseline_id)}", style=named.style),
        Cell(clean(var.title), detail="lower is better" if var.lower_is_better else "higher is better"),
        Cell(effect(c, c.estimate), sort=c.estimate) if c.estimate is not None else nothing(c.reason),
        Cell(interval, detail=confidence(c.confidence)) if interval else nothing(c.reason or "no interval"),
        Cell(p_value(c.p_adjusted), sort=c.p_adjusted)
        if c.p_adjusted is not None
        else nothing(c.reason or ("no test" if able else "")),
        Cell(str(c.n), sort=c.n),
    ]
    if confirmatory:
        row.append(
            verdict(c.verdict, fragile=bool(c.fragile)) if c.verdict else nothing(c.reason or "no verdict")
        )
    return tuple(row)


def _method(mine: list[Comparison]) -> str:
    methods = "; ".join(dict.fromkeys(clean(c.method) for c in mine if c.method not in ("", "none")))
    return f"Method: {methods}." if methods else ""


def _checks(mine: list[Comparison]) -> str:
    """Return the p-values of the methods that check the main one, as a range each."""
    found: dict[str, list[float]] = {}
    for c in mine:
        for name, p in c.checks.items() or [("permutation", c.p_permutation)]:
            if p is not None:
                found.setdefault(clean(name).replace("_", " "), []).append(p)
    parts = []
    for name, values in found.items():
        low, high = p_value(min(values)), p_value(max(values))
        parts.append(f"{name} p {low}" if low == high else f"{name} p {low} to {high}")
    return f"As a check: {'; '.join(parts)}." if parts else ""


def service_levels(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """Declared bounds, and whether each treatment kept them."""
    if analysis.slo.empty:
        return None
    rows = []
    estimates = {t.treatment_id: t.estimates for t in analysis.treatments}
    for record in analysis.slo.to_dict(orient="records"):
        var, treatment_id = names.variable(str(record["variable"])), str(record["treatment_id"])
        held, reason = record["held"], str(record.get("reason") or "it was not measured")
        if held is None or pd.isna(held):
            word = Cell("unknown", tone="unsure", note=clean(reason))
        else:
            word = Cell("✓ held", tone="good") if held else Cell("✗ missed", tone="bad")
        bound = Cell(f"{'≤' if var.lower_is_better else '≥'} {show(var, float(record['bound']))}")
        found = estimates.get(treatment_id, {}).get(var.name)
        # among failures there is no mean, but a bound that it is above of
        above = found is not None and found.above
        measured = estimate(found) if above else value_cell(var.name, record["value"], reason)
        rows.append(
            (
                row_head(names, treatment_id),
                Cell(clean(var.title)),
                bound,
                measured,
                _runs_held(record.get("runs_held"), record.get("runs")),
                word,
            )
        )
    columns = (
        Column("Treatment"),
        Column("Variable"),
        Column("Bound", numeric=True),
        Column("Measured", numeric=True, explanation="mean over runs; this decides"),
        Column("Runs that held it", numeric=True),
        Column("SLO"),
    )
    return Table("slo", "Service-level objectives", columns, tuple(rows))


def _runs_held(held: object, runs: object) -> Cell:
    if (
        not isinstance(held, int | float)
        or not isinstance(runs, int | float)
        or pd.isna(held)
        or pd.isna(runs)
    ):
        return nothing("not counted by run")
    return Cell(f"{int(held)} of {int(runs)}", sort=held / runs if runs else 0.0)


def factorial(analysis: ExperimentAnalysis) -> Table | None:
    """Analysis of variance over several factors; exploratory."""
    frame = analysis.factorial
    if frame.empty:
        return None
    rows = []
    for record in frame.to_dict(orient="records"):
        p, f, part, check = (_number(record.get(k)) for k in ("p", "f", "share", "p_permutation"))
        why = str(record.get("reason") or "") or "no test for this term"
        stratum = str(record.get("stratum") or "")
        rows.append(
            (
                Cell(clean(known(str(record["variable"])).title)),
                Cell(clean(record["term"]), detail=clean(stratum)),
                Cell(format_number(_number(record.get("df")) or 0.0)),
                Cell(format_number(f), sort=f) if f is not None else nothing(why),
                Cell(p_value(p), sort=p) if p is not None else nothing(why),
                Cell(p_value(check), sort=check) if check is not None else nothing(why),
                Cell(share(part), sort=part) if part is not None else nothing("not known"),
            )
        )
    columns = (
        Column("Variable"),
        Column("Term"),
        Column("df", numeric=True),
        Column("F", numeric=True),
        Column("p", numeric=True),
        Column("p, permuted", numeric=True, explanation="Freedman–Lane's permutation test, a check"),
        Column("Share of variation", numeric=True, explanation="sum of squares ÷ total"),
    )
    remark = (
        "Analysis of variance on the scale of comparison (logs for ratios), with blocks as a term. Where runs share a "
        "deployment, factors that change with it are held against the variation between deployments."
    )
    return Table("factorial", "Which factor moves what (exploratory)", columns, tuple(rows), remark)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not pd.isna(value) else None
