"""Descriptive tables in the forms that studies publish, each cell with its change against the baseline.

They describe: no cell carries an interval or a verdict. What was lost is said in the cell, as in "lost 2 of 8".
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from towtank.analysis.descriptive import Spread
from towtank.analysis.model import ExperimentAnalysis, Quantity, TreatmentSummary
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import row_head
from towtank.report.text import clean
from towtank.report.values import MINUS, count, quantity, share
from towtank.variables import Variable

LATENCIES = {"mean": "AVG", "min": "MIN", "median": "MED", "max": "MAX", "p90": "p(90)", "p95": "p(95)"}
"""Variable → its heading in the form that k6 made common."""
SPREADS = {"min": "Min", "q25": "25 %", "median": "Median", "q75": "75 %", "max": "Max", "std": "Std"}
_CHANGE = "In brackets: change against the baseline."
_LEFT = "A change is left out where the baseline has no value, or is 0."


def latencies(analysis: ExperimentAnalysis, names: Names) -> Table:
    """AVG, MIN, MED, MAX, p(90), p(95): mean over runs of each run's value."""
    baselines = _baselines(analysis)
    known = {t.treatment_id: t for t in analysis.treatments}
    blocks = _blocks(analysis)
    rows = []
    for t in analysis.treatments:
        base = known.get(baselines.get(t.treatment_id, ""))
        cells = [
            _with_change(
                names.variable(name),
                _mean(t, name),
                _mean(base, name),
                lost=_lost(t, name, blocks),
                of=blocks,
            )
            for name in LATENCIES
        ]
        rows.append((row_head(names, t.treatment_id), *cells))
    columns = (
        Column("Treatment"),
        *(
            Column(title, numeric=True, explanation=names.variable(name).explanation)
            for name, title in LATENCIES.items()
        ),
    )
    remark = (
        "Mean over runs of each run's value. AVG and MIN are over successes; in the others failures rank above every "
        f"success. {_remark(baselines)}"
    )
    return Table(
        "latency-published", "Latency in the usual form", columns, tuple(rows), remark.strip(), folded=True
    )


def spreads(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """Min, 25 %, Median, 75 %, Max, Std of the per-run values of each variable."""
    if not analysis.spreads:
        return None
    baselines = _baselines(analysis)
    by_key = {(s.variable, s.treatment_id): s for s in analysis.spreads}
    rows = []
    for found in analysis.spreads:
        var = names.variable(found.variable)
        base = by_key.get((found.variable, baselines.get(found.treatment_id, "")))
        cells = [
            _with_change(
                var, found.cells[key], base.cells[key] if base else None, lost=found.lost, of=found.planned
            )
            for key in SPREADS
        ]
        rows.append((Cell(clean(var.title)), row_head(names, found.treatment_id), *cells, _runs(found)))
    columns = (
        Column("Variable"),
        Column("Treatment"),
        *(Column(title, numeric=True) for title in SPREADS.values()),
        Column("Runs", numeric=True, explanation="runs with a value, of the blocks begun"),
    )
    remark = f"Over the per-run values: quartiles of type 7, Std with n − 1. {_remark(baselines)}"
    return Table("spread", "Spread of the runs", columns, tuple(rows), remark.strip(), folded=True)


def volumes(analysis: ExperimentAnalysis, names: Names) -> Table:
    """Failed requests, all of them, and goodput, summed over the runs that count."""
    baselines = _baselines(analysis)
    numbers = {t.treatment_id: _volume(t) for t in analysis.treatments}
    var = names.variable("goodput")
    rows: list[tuple[Cell, ...]] = []
    for t in analysis.treatments:
        mine, base = numbers[t.treatment_id], numbers.get(baselines.get(t.treatment_id, ""))
        blocks = _blocks(analysis)
        if not mine["total"]:
            rows.append((row_head(names, t.treatment_id), *(_lost_cell(blocks - t.n_valid, blocks),) * 3))
            continue
        cells = [
            Cell(
                count(mine[key]) + _change(float(mine[key]), float(base[key]) if base else None),
                sort=float(mine[key]),
            )
            for key in ("failed", "total")
        ]
        goodput = Quantity(1 - mine["failed"] / mine["total"])
        before = Quantity(1 - base["failed"] / base["total"]) if base and base["total"] else None
        good = _with_change(var, goodput, before, lost=blocks - t.n_valid, of=blocks)
        rows.append((row_head(names, t.treatment_id), *cells, good))
    columns = (
        Column("Treatment"),
        Column("Failed", numeric=True, explanation="requests due that were not answered as expected in time"),
        Column("Total", numeric=True, explanation="requests due in the measured windows"),
        Column("Goodput", numeric=True, explanation="1 − failed ÷ total, over all runs together"),
    )
    return Table(
        "volumes", "Failed and total requests", columns, tuple(rows), _remark(baselines), folded=True
    )


def statuses(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """How the requests of each treatment were answered, in % of those due."""
    as_code = str((analysis.meta.get("answer") or {}).get("timeout_as") or "")
    found = {t.treatment_id: _renamed(t.answers, as_code) for t in analysis.treatments}
    kinds = sorted({kind for of in found.values() for kind in of}, key=lambda k: (not k.isdecimal(), k))
    if not kinds:
        return None
    rows = []
    for t in analysis.treatments:
        mine = found[t.treatment_id]
        total = sum(mine.values())
        if not total:
            lost = _lost_cell(_blocks(analysis) - t.n_valid, _blocks(analysis))
            rows.append((row_head(names, t.treatment_id), *(lost,) * len(kinds)))
            continue
        cells = [Cell(share(mine.get(k, 0) / total), sort=mine.get(k, 0) / total) for k in kinds]
        rows.append((row_head(names, t.treatment_id), *cells))
    columns = (Column("Treatment"), *(Column(clean(k, limit=40), numeric=True) for k in kinds))
    remark = "Share of the requests due in the measured windows, all runs together."
    if as_code:
        remark += f" Requests that timed out without a status are counted as {as_code}."
    return Table("statuses", "Status codes", columns, tuple(rows), remark, folded=True)


def _renamed(answers: Mapping[str, int], as_code: str) -> dict[str, int]:
    """Timeouts under the code that was asked for, together with answers that bore it."""
    found: dict[str, int] = {}
    for kind, number in answers.items():
        name = as_code if as_code and kind == "timeout" else kind
        found[name] = found.get(name, 0) + number
    return found


def _baselines(analysis: ExperimentAnalysis) -> dict[str, str]:
    """Treatment → the one baseline that it is compared with; without those that have several."""
    pairs = {(c.treatment_id, c.baseline_id) for c in analysis.comparisons}
    found = dict(pairs)
    return {t: b for t, b in found.items() if sum(one == t for one, _ in pairs) == 1}


def _remark(baselines: Mapping[str, str]) -> str:
    return f"{_CHANGE} {_LEFT}" if baselines else ""


def _with_change(var: Variable, found: Quantity | None, base: Quantity | None, *, lost: int, of: int) -> Cell:
    """A value, its change against the baseline, and how many runs it lacks."""
    if found is None or found.value is None:
        reason = found.reason if found is not None else ""
        return _lost_cell(lost, of, reason=reason)
    shown = quantity(var, found)
    plain = base is not None and base.value is not None and not base.above and not found.above
    change = _change(found.value, base.value) if plain and base is not None else ""
    detail = f"lost {lost} of {of}" if lost > 0 else ""
    return Cell(f"{shown.text}{change}", detail=detail, tone=shown.tone, sort=shown.sort)


def _lost_cell(lost: int, of: int, *, reason: str = "") -> Cell:
    """An empty cell: how much was lost, and why; where no run was lost, only why."""
    if lost <= 0:
        return Cell("–", note=clean(reason or "cannot be said"), tone="muted")
    return Cell(f"lost {lost} of {of}", note=clean(reason), tone="muted")


def _change(value: float, base: float | None) -> str:
    """`` (+83.4 %)``; nothing without a baseline that something can be related to.

    >>> _change(50.0, 25.0), _change(25.0, 50.0), _change(1.0, 0.0)
    (' (+100 %)', ' (−50 %)', '')
    """
    if base is None or base == 0 or not math.isfinite(value / base):
        return ""
    percent = (value / base - 1) * 100
    text = f"{abs(percent):.1f}".removesuffix(".0")
    if text == "0":
        return " (±0 %)"
    return f" ({'+' if percent > 0 else MINUS}{text} %)"


def _mean(treatment: TreatmentSummary | None, name: str) -> Quantity | None:
    found = treatment.estimates.get(name) if treatment is not None else None
    return None if found is None else Quantity(found.mean, above=found.above, reason=found.reason)


def _lost(treatment: TreatmentSummary, name: str, blocks: int) -> int:
    found = treatment.estimates.get(name)
    return blocks - (found.n if found is not None else 0)


def _blocks(analysis: ExperimentAnalysis) -> int:
    """Blocks begun."""
    return len({run.block for run in analysis.runs})


def _runs(found: Spread) -> Cell:
    have = found.planned - found.lost
    return Cell(f"{have} of {found.planned}", sort=have, tone="unsure" if found.lost else "plain")


def _volume(treatment: TreatmentSummary) -> dict[str, int]:
    total = sum(treatment.outcomes.values())
    return {"total": total, "failed": total - treatment.outcomes.get("answered", 0)}
