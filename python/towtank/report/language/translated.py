"""A whole report in another language: every text of ours in the model, and none of the experiment's."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from towtank.report.language.catalogue import ENGLISH, Catalogue, catalogue
from towtank.report.model import (
    Answer,
    Block,
    Cell,
    Chip,
    Document,
    Facts,
    Figure,
    Notice,
    ReportModel,
    Section,
    Table,
)

_SHOWN = frozenset({"title", "text", "subtitle", "description"})
"""Keys of a figure's specification whose texts are read."""
_LISTS = frozenset({"domain", "sort"})
"""Keys that name values of the data, which are translated by the word."""
_REASONS = frozenset({"reason", "nothing"})
"""Columns of data that hold sentences."""
_EXPRESSIONS = frozenset({"expr", "labelExpr", "test", "filter", "calculate"})
_QUOTED = re.compile(r"'([^']*)'")


def translated(model: ReportModel, language: str) -> ReportModel:
    """Put a report into another language.

    Parameters
    ----------
    model : ReportModel
        In English, as `build` makes it.
    language : str
        One of `languages()`.

    Returns
    -------
    ReportModel
        Names, values, commands and files are those of the experiment, and stay.

    Raises
    ------
    TowtankError
        There is no such language.
    """
    plain = catalogue(language)
    if language == ENGLISH:
        return model
    say = plain.with_names(_names(model))
    return replace(
        model,
        headline=say.text(model.headline),
        question=say.word(model.question),
        caution=say.text(model.caution),
        answers=tuple(_answer(answer, say) for answer in model.answers),
        chips=tuple(Chip(say.text(chip.text), chip.tone) for chip in model.chips),
        sections=tuple(_section(section, say) for section in model.sections),
        language=language,
    )


def _names(model: ReportModel) -> set[str]:
    """Names of the experiment that stand alone: those that are shown with the look of a deployment."""
    cells = (cell for table in model.tables for row in table.rows for cell in row)
    return {name for name, _ in model.legend} | {cell.text for cell in cells if cell.style is not None}


def _answer(answer: Answer, say: Catalogue) -> Answer:
    return replace(
        answer,
        verdict=say.text(answer.verdict),
        claim=say.text(answer.claim),
        sentence=say.text(answer.sentence),
    )


def _section(section: Section, say: Catalogue) -> Section:
    return replace(
        section,
        title=say.text(section.title),
        short=say.text(section.short),
        intro=say.text(section.intro),
        blocks=tuple(_block(block, say) for block in section.blocks),
    )


def _block(block: Block, say: Catalogue) -> Block:
    match block:
        case Table():
            return _table(block, say)
        case Figure():
            return _figure(block, say)
        case Notice():
            return replace(block, message=say.text(block.message), advice=say.text(block.advice))
        case Facts():
            items = tuple((say.text(name), say.text(value)) for name, value in block.items)
            return replace(block, title=say.text(block.title), items=items)
        case Document():
            return replace(block, name=say.word(block.name))


def _table(table: Table, say: Catalogue) -> Table:
    columns = tuple(
        replace(column, title=say.text(column.title), explanation=say.text(column.explanation))
        for column in table.columns
    )
    rows = tuple(tuple(_cell(cell, say) for cell in row) for row in table.rows)
    return replace(
        table, caption=say.text(table.caption), remark=say.text(table.remark), columns=columns, rows=rows
    )


def _cell(cell: Cell, say: Catalogue) -> Cell:
    """Cells with a style name a deployment."""
    text = cell.text if cell.style is not None else say.text(cell.text)
    return replace(cell, text=text, note=say.text(cell.note), detail=say.text(cell.detail))


def _figure(figure: Figure, say: Catalogue) -> Figure:
    datasets = {
        name: [
            {key: _datum(key, value, say) if isinstance(value, str) else value for key, value in row.items()}
            for row in rows
        ]
        for name, rows in figure.datasets.items()
    }
    return replace(
        figure,
        title=say.text(figure.title),
        caption=say.text(figure.caption),
        alt=say.text(figure.alt),
        wide=_spec(figure.wide, say),
        narrow=_spec(figure.narrow, say),
        datasets=datasets,
    )


def _spec(part: Any, say: Catalogue, key: str = "") -> Any:  # noqa: ANN401 - JSON
    """Translate a specification: titles as sentences, values of the data as the data, quoted words in expressions."""
    if isinstance(part, dict):
        return {name: _spec(value, say, name) for name, value in part.items()}
    if isinstance(part, list):
        return [_spec(value, say, key) for value in part]
    if not isinstance(part, str):
        return part
    if key in _SHOWN:
        return say.text(part)
    if key in _EXPRESSIONS:
        return _QUOTED.sub(lambda match: f"'{say.word(match[1])}'", part)
    return say.label(part) if key in _LISTS else part


def _datum(key: str, value: str, say: Catalogue) -> str:
    """Names, and what axes and legends are ordered by, are read part by part; why there is nothing is a sentence."""
    return say.text(value) if key in _REASONS else say.label(value)
