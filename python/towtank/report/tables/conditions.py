"""What claims rest on: data, lifetimes, load generator, stand-ins, order, collapses; and what follows."""

from __future__ import annotations

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.model import Cell, Column, Table
from towtank.report.text import clean, listed

_SENTENCE = 300
"""Longest text of a cell, in characters."""
_MOST = 6
"""Treatments that are named; of more, their number."""


def conditions(analysis: ExperimentAnalysis) -> Table | None:
    """One row for each thing that was so, in the order in which an experiment is planned."""
    if not analysis.conditions:
        return None
    rows = []
    for one in analysis.conditions:
        labels = [clean(label) for label in one.labels]
        rows.append(
            (
                Cell(one.topic.capitalize()),
                Cell(clean(one.said, limit=_SENTENCE)),
                Cell(listed(labels, most=_MOST) if labels else "all", tone="plain" if labels else "muted"),
                Cell(clean(one.weakens, limit=_SENTENCE) or "–", tone="plain" if one.weakens else "muted"),
            )
        )
    columns = (
        Column("About"), Column("What was so"), Column("Treatments"), Column("What that means for claims"),
    )  # fmt: skip
    return Table("conditions", "What these results rest on", columns, tuple(rows))
