"""The folder of a paper: tables as LaTeX, Markdown and CSV, figures as SVG, PDF and PNG, and an index of them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from towtank.errors import ResultsError
from towtank.report import csv_tables, markdown
from towtank.report.figures.save import FORMATS, encode, formats_of
from towtank.report.model import Figure, ReportModel, Table
from towtank.report.paper import latex
from towtank.report.paper.index import Entry, as_csv, as_markdown

PAGE_PX = 672
"""Width of a figure across a page: 7 in at 96 px; text of 11.5 px is then 8.6 pt."""
TABLES, FIGURES = "tables", "figures"
INDEX, INDEX_CSV, DOCUMENT = "index.md", "index.csv", "all.tex"
TABLE_ENDINGS = ("tex", "md", "csv")
COLUMN = "-column"
"""Added to the name of a figure that is as wide as a column."""


@dataclass(frozen=True)
class Paper:
    """What was written: the index, and what it lists."""

    index: Path
    entries: tuple[Entry, ...]


def write_paper(model: ReportModel, folder: Path, formats: Iterable[str] = FORMATS) -> Paper:
    """Write every table and figure of a report by itself.

    Parameters
    ----------
    model : ReportModel
        Built with ``wide_px=PAGE_PX``, so that its wide figures fit a page.
    folder : Path
        Created when it is not there. Files of an earlier paper are replaced, and those that its index lists and this
        paper does not have are removed; everything else stays.
    formats : iterable of str
        Of the figures: some of svg, png and pdf. LaTeX needs pdf.

    Raises
    ------
    ResultsError
        The folder cannot be written to.
    TowtankError
        Unknown format.
    """
    wanted = formats_of(formats)
    entries = tuple(_entries(model, wanted))
    try:
        for name in (TABLES, FIGURES):
            (folder / name).mkdir(parents=True, exist_ok=True)
        _remove_former(folder, {file for one in entries for file in one.files})
        for one in entries:
            _write(one, folder, wanted)
        shown = [file for one in entries for file in one.files if file.endswith(".tex")]
        _text(folder / DOCUMENT, latex.document(model, shown))
        _text(folder / INDEX, as_markdown(model, entries, packages=latex.PACKAGES))
        _text(folder / INDEX_CSV, as_csv(model, entries))
    except OSError as error:
        raise ResultsError(
            f"tables and figures cannot be written to {folder}: {error.strerror}",
            hint="choose another folder with --into DIR",
        ) from error
    return Paper(folder / INDEX, entries)


def _entries(model: ReportModel, formats: tuple[str, ...]) -> Iterator[Entry]:
    for section in model.sections:
        for block in section.blocks:
            if isinstance(block, Table):
                files = tuple(f"{TABLES}/{block.id}.{ending}" for ending in TABLE_ENDINGS)
                yield Entry(block, section.title, files)
            elif isinstance(block, Figure):
                drawn = [f"{FIGURES}/{block.id}{width}.{f}" for width in ("", COLUMN) for f in formats]
                floats = [f"{FIGURES}/{block.id}.tex"] if "pdf" in formats else []
                yield Entry(block, section.title, (*drawn, *floats))


def _write(one: Entry, folder: Path, formats: tuple[str, ...]) -> None:
    block = one.block
    if isinstance(block, Table):
        made = {"tex": latex.table, "md": markdown.table, "csv": csv_tables.render}
        for ending in TABLE_ENDINGS:
            _text(folder / TABLES / f"{block.id}.{ending}", made[ending](block))
        return
    for narrow, width in ((False, ""), (True, COLUMN)):
        for ending in formats:
            path = folder / FIGURES / f"{block.id}{width}.{ending}"
            path.write_bytes(encode(block, ending, narrow=narrow, padding=2))
    if "pdf" in formats:
        _text(folder / FIGURES / f"{block.id}.tex", latex.figure(block, f"{FIGURES}/{block.id}"))


def _remove_former(folder: Path, kept: set[str]) -> None:
    """Remove what an earlier index lists and this one does not: nobody should quote a figure of former results."""
    index = folder / INDEX_CSV
    if not index.is_file():
        return
    with index.open(encoding="utf-8", newline="") as lines:
        listed = {file for row in csv.DictReader(lines) for file in (row.get("files") or "").split()}
    for file in sorted(listed - kept):
        path = Path(file)
        if path.parent in (Path(TABLES), Path(FIGURES)) and path.suffix[1:] in (*TABLE_ENDINGS, *FORMATS):
            (folder / path).unlink(missing_ok=True)


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="")
