"""What deployments cost: of a run, for a thousand requests, and the requests at which they would draw level."""

from __future__ import annotations

from dataclasses import replace

from towtank.analysis.cost_items import CostItem
from towtank.analysis.model import ExperimentAnalysis, TreatmentSummary
from towtank.cost.break_even import Crossing, a_day, always_in_words
from towtank.cost.per_request import THOUSAND, parity
from towtank.report.model import Cell, Column, Table
from towtank.report.naming import Names
from towtank.report.tables.headings import column, nothing, row_head
from towtank.report.text import clean
from towtank.report.values import MINUS, count, estimate, share
from towtank.units import format_number
from towtank.variables import COST_VARIABLES


def costs(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """One row per treatment; the cheapest of each panel is marked. None where there are no prices."""
    currency = analysis.meta.get("currency")
    if not currency:
        return None
    cheapest, by_use = _cheapest(analysis, names), analysis.meta.get("by_use", ())
    rows = []
    for treatment in analysis.treatments:
        best = cheapest.get(names[treatment.treatment_id].panel)
        cells = [estimate(treatment.estimates.get(name)) for name in COST_VARIABLES]
        if best is not None and best.treatment_id == treatment.treatment_id:
            cells[-1] = replace(cells[-1], text=f"{cells[-1].text} ✓ cheapest", tone="good")
        rows.append(
            (
                row_head(names, treatment.treatment_id),
                *cells,
                *_parity(treatment, best, by_use=treatment.treatment_id in by_use),
            )
        )
    columns = (
        Column("Treatment"),
        *(column(name) for name in COST_VARIABLES),
        Column(
            "Parity",
            numeric=True,
            explanation="requests of a run at which each would cost what it costs at the cheapest",
        ),
        Column("More requests", numeric=True, explanation="how many more than were driven that is"),
    )
    divided = "expected answers" if analysis.meta.get("per_1000") == "successes" else "all requests due"
    remark = (
        f"In {clean(currency)}. For 1,000 requests counts {divided}, warm-up included. Run cost is marginal: free "
        "tiers and monthly credits are not in it. Parity: so many requests would have to be served for the same "
        "money to cost as little each as at the cheapest, if what is there can carry them."
    )
    caption = f"Cost of a run, {clean(currency)}: mean over runs, its interval below"
    return Table("cost", caption, columns, tuple(rows), remark)


_SHOWN_PER: dict[str, tuple[str, float]] = {
    "node-s": ("node-h", 3600.0), "machine-s": ("machine-h", 3600.0), "vCPU-s": ("vCPU-h", 3600.0),
    "GiB-s": ("GiB-h", 3600.0), "s": ("h", 3600.0), "J": ("kWh", 3.6e6), "bytes": ("GB", 1e9),
}  # fmt: skip
"""Unit of an item → as people read it, and how many of the unit that is; others are counted one by one."""


def cost_items(analysis: ExperimentAnalysis, names: Names) -> Table | None:
    """One row per item of a treatment's bill, the dearest first; None where there is no bill."""
    if not analysis.cost_items:
        return None
    rows = []
    for item in analysis.cost_items:
        unit, size = _SHOWN_PER.get(item.unit, (item.unit, 1.0))
        per = "million" if unit == item.unit else unit
        price = item.price * (1e6 if unit == item.unit else size)
        ratio, at_least = item.share_ratio, "> " if item.money.above else ""
        rows.append((
            row_head(names, item.treatment_id),
            Cell(clean(item.name)),
            Cell(f"{at_least}{format_number(item.quantity / size)} {unit}", sort=item.quantity),
            Cell(f"{format_number(price)} / {per}", sort=price),
            estimate(item.money),
            _no_share(item, analysis) if ratio is None else Cell(share(ratio), sort=ratio),
        ))  # fmt: skip
    columns = (
        Column("Treatment"), Column("Item"), Column("Used in a run", numeric=True, explanation="mean over runs"),
        Column("Price", numeric=True), column("cost"), Column("Share", numeric=True),
    )  # fmt: skip
    currency = clean(analysis.meta.get("currency", ""))
    remark = f"In {currency}, of the whole billing window. What is free in a price list is no item."
    return Table("cost-items", "What the cost of a run is made of", columns, tuple(rows), remark)


def _no_share(item: CostItem, analysis: ExperimentAnalysis) -> Cell:
    of_it = [one for one in analysis.cost_items if one.treatment_id == item.treatment_id]
    is_bound = any(one.money.above for one in of_it)
    return nothing("the cost is known by a bound only" if is_bound else "the runs cost nothing")


def break_even(analysis: ExperimentAnalysis) -> Table | None:
    """One row per crossing of two deployments' monthly costs, and per pair without one; None without a pair."""
    found = analysis.break_even
    if found is None or not (found.crossings or found.always):
        return None
    rows = tuple(
        (
            Cell(clean(one.cheaper_below)),
            Cell(clean(one.cheaper_above)),
            Cell(
                a_day(one.per_s), detail=_range(one), sort=one.per_s, note="" if _range(one) else _NO_INTERVAL
            ),
        )
        for one in found.crossings
    ) + tuple(
        (Cell(clean(one.cheaper)), Cell(clean(one.dearer)), nothing(always_in_words(one)))
        for one in found.always
    )
    columns = (
        Column("Cheaper below"),
        Column("Cheaper above"),
        Column("Requests a day", numeric=True, explanation="mean over a month; its interval below"),
    )
    said = ". ".join(clean(words) for words in found.sentences[:SENTENCES])
    left = f" {found.not_listed} more crossings are not listed." if found.not_listed else ""
    without = "".join(f" No line of {clean(label)}: {clean(why)}." for label, why in found.unknown.items())
    remark = (
        f"{said}. By the month, with free tiers, credits and fees.{left}{without} What one node or instance carries is "
        "what the file says or a search found (carries, fails; capacity)."
    )
    return Table("break-even", "Loads at which the cheaper deployment is another", columns, rows, remark)


_IN_PART = "its cost is not known, or in part only"
_NONE_CHEAPEST = "it is not known which one is the cheapest"
_BY_USE = "paid by use: more requests cost more"
_NO_INTERVAL = "at an end of what was measured there is no crossing"
SENTENCES = 3
"""Crossings that are said in words; the rows have all."""


def _range(one: Crossing) -> str:
    return "" if one.low is None or one.high is None else f"{a_day(one.low)} – {a_day(one.high)}"


def _mean(treatment: TreatmentSummary, name: str) -> float | None:
    found = treatment.estimates.get(name)
    return None if found is None or found.above else found.mean


def _cheapest(analysis: ExperimentAnalysis, names: Names) -> dict[str, TreatmentSummary]:
    """Panel → its cheapest treatment for 1,000 requests; none where another one, known by a bound only, may be it."""
    panels: dict[str, list[TreatmentSummary]] = {}
    for treatment in analysis.treatments:
        panels.setdefault(names[treatment.treatment_id].panel, []).append(treatment)
    found = {}
    for panel, treatments in panels.items():
        known = [(each, t) for t in treatments if (each := _mean(t, "cost_per_1000")) is not None]
        if len(known) < 2:
            continue
        least, best = min(known, key=lambda one: one[0])
        bounds = [one.mean for t in treatments if (one := t.estimates.get("cost_per_1000")) and one.above]
        if all(bound is None or bound >= least for bound in bounds):
            found[panel] = best
    return found


def _parity(treatment: TreatmentSummary, best: TreatmentSummary | None, *, by_use: bool) -> tuple[Cell, Cell]:
    """Requests at parity with the cheapest, as a total and as those that are more than were driven."""
    cost, each = _mean(treatment, "cost"), _mean(treatment, "cost_per_1000")
    if cost is None or not each:
        return nothing(_IN_PART), nothing(_IN_PART)
    if best is None:
        return nothing(_NONE_CHEAPEST), nothing(_NONE_CHEAPEST)
    if best.treatment_id == treatment.treatment_id:
        return nothing("the cheapest itself"), nothing("the cheapest itself")
    if by_use:
        return nothing(_BY_USE), nothing(_BY_USE)
    driven = round(THOUSAND * cost / each)
    level = parity(cost, (_mean(best, "cost_per_1000") or 0.0) / THOUSAND, driven)
    if level is None:
        return nothing("the cheapest costs nothing"), nothing("the cheapest costs nothing")
    whole, more = (round(number) for number in level)
    sign = MINUS if more < 0 else "+"
    return Cell(count(whole), sort=whole), Cell(f"{sign}{count(abs(more))}", sort=more)
