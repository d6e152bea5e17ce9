"""What a search for capacities found: for each deployment the load that holds, the one that fails, and why it ended."""

from __future__ import annotations

from towtank.analysis.capacity import factor, remarks
from towtank.analysis.model import ExperimentAnalysis
from towtank.design.capacity_file import UNITS, Capacity
from towtank.design.laddered import load_words
from towtank.report.model import Cell, Column, Table
from towtank.report.tables.headings import nothing
from towtank.report.text import clean

_ENDS = {
    "found": "a load holds, one above it fails",
    "top": "the highest load of the ladder holds",
    "bottom": "no load of the ladder was confirmed, down to the lowest",
    "generator": "the generator ends first",
    "budget": "no run was left",
}


def capacities(analysis: ExperimentAnalysis) -> Table | None:
    """One row for each deployment; nothing where no search was made."""
    found = analysis.capacities
    if not found:
        return None
    columns = (
        Column("Deployment"),
        Column("Holds at", numeric=True, explanation="highest load at which all confirmation runs held"),
        Column(
            "Fails at", numeric=True, explanation="lowest load above it at which all confirmation runs failed"
        ),
        Column("What failed"),
        Column("The search ended because"),
        Column("Runs", numeric=True),
    )
    rows = tuple(_row(one) for one in found)
    told = (
        f"Capacity is the highest load at which a run holds all objectives with a probability above ½, on a ladder of "
        f"loads {100 * found[0].step:g} % apart; {found[0].confirmations} runs had to agree."
    )
    return Table("capacities", "Capacity", columns, rows, " ".join([told, *_factors(found)]))


def _row(one: Capacity) -> tuple[Cell, ...]:
    unit = UNITS[one.model]
    because = ", ".join(f"{clean(what)} in {runs} of {one.confirmations}" for what, runs in one.why.items())

    def load(value: float | None, reason: str) -> Cell:
        return nothing(reason) if value is None else Cell(load_words(value, unit), sort=value)

    return (
        Cell(clean(one.label), note=clean("; ".join(remarks(one)))),
        load(one.holds, "no load was confirmed"),
        load(one.fails, "no load was refuted"),
        Cell(because) if because else nothing("no load was refuted"),
        Cell(_ENDS[one.end]),
        Cell(str(one.runs), sort=float(one.runs)),
    )


def _factors(found: tuple[Capacity, ...]) -> list[str]:
    """Each as a factor of the first, or why it is none."""
    return [clean(f"{factor(other, found[0])}.") for other in found[1:]]
