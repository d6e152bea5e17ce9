r"""Tables and figures as LaTeX floats (booktabs), and one document that holds them all.

A file is complete but for its packages: ``\input`` it where it belongs. It defines the few macros that it uses, if
nobody did before. What is too wide for the line is shrunk to it; what is too long for a page comes in parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from towtank.report.model import Cell, Column, Figure, ReportModel, Table
from towtank.report.paper import escape
from towtank.report.paper.escape import latex

PACKAGES = ("array", "booktabs", "graphicx")
LINES = 44
"""Lines of a table that fit on a page with their notes."""
FLOATS = 4
"""Floats of the whole document between two page breaks."""
LONG_TEXT = 44
"""Characters from which on a column of words is set in several lines."""

_CELL = (
    r"\providecommand{\towtankcell}[3]{\begin{tabular}[t]{@{}#1@{}}#2\\[-1pt]{\scriptsize #3}\end{tabular}}"
)
_FIT = (
    r"\providecommand{\towtankfit}[1]{\sbox0{#1}\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}"
    r"\else\usebox0\fi}"
)
_FOLDER = r"\providecommand{\towtankfolder}{.}"


def table(one: Table) -> str:
    """Write a table as a float with booktabs' rules; its notes stand below it.

    Parameters
    ----------
    one : Table
        Cells with a second line have it below the first, in smaller type.

    Returns
    -------
    str
        LaTeX; one float, or several where the table is longer than a page.
    """
    parts = list(_parts(one))
    floats = [_float(one, rows, number, len(parts)) for number, rows in enumerate(parts, start=1)]
    return "\n".join([f"% {one.id}: needs {', '.join(PACKAGES)}", escape.MACRO, _CELL, _FIT, *floats, ""])


def figure(one: Figure, file: str) -> str:
    r"""Write a figure as a float; `file` is its path below the folder of the paper, without ending.

    ``\towtankfolder`` is that folder as the document sees it; ``.`` if it is not defined.
    """
    return "\n".join([
        f"% {one.id}: needs graphicx", escape.MACRO, _FOLDER,
        r"\begin{figure}[htbp]", r"\centering",
        # no higher than leaves room for a caption on the same page
        f"\\includegraphics[width=\\linewidth,height=0.8\\textheight,keepaspectratio]{{\\towtankfolder/{file}.pdf}}",
        f"\\caption{{{latex(one.title)}. {latex(one.caption)}}}",
        f"\\label{{fig:{one.id}}}",
        r"\end{figure}", "",
    ])  # fmt: skip


def document(model: ReportModel, files: Sequence[str]) -> str:
    """Write a document that shows everything, in the order of the report: to look at, or to start from."""
    packages = "\n".join(f"\\usepackage{{{name}}}" for name in PACKAGES)
    # LaTeX keeps a bounded number of floats in mind; \clearpage has it set those.
    inputs = "\n".join(
        f"\\input{{{file}}}" + ("\n\\clearpage" if number % FLOATS == 0 else "")
        for number, file in enumerate(files, start=1)
    )
    return "\n".join([
        r"\documentclass[10pt,a4paper]{article}",
        r"\IfFileExists{lmodern.sty}{\usepackage[T1]{fontenc}\usepackage{lmodern}}{}",
        r"\usepackage[margin=18mm]{geometry}",
        packages, escape.MACRO,
        r"\setcounter{totalnumber}{50}\setcounter{topnumber}{50}",
        r"\begin{document}",
        f"\\title{{{latex(model.question)}}}",
        f"\\author{{Experiment {latex(model.experiment)}}}",
        f"\\date{{{latex(model.dated)}}}",
        r"\maketitle",
        f"\\noindent {latex(model.headline)}" + (f"\n\n\\noindent {latex(model.caution)}" if model.caution else ""),
        r"\clearpage",
        inputs,
        r"\end{document}", "",
    ])  # fmt: skip


def _parts(one: Table) -> list[tuple[tuple[Cell, ...], ...]]:
    """Rows by page."""
    parts: list[list[tuple[Cell, ...]]] = [[]]
    used = 0
    for row in one.rows:
        lines = 2 if any(cell.detail for cell in row) else 1
        if used + lines > LINES and parts[-1]:
            parts.append([])
            used = 0
        parts[-1].append(row)
        used += lines
    return [tuple(part) for part in parts]


def _float(one: Table, rows: Sequence[tuple[Cell, ...]], number: int, of: int) -> str:
    marks = one.footnotes()
    shown = {cell.note for row in rows for cell in row if cell.note}
    caption = latex(one.caption) + (f" ({number} of {of})" if of > 1 else "")
    label = one.id + (f"-{number}" if of > 1 else "")
    head = " & ".join(latex(column.title) for column in one.columns) + r" \\"
    body = [" & ".join(_cell(c, column, marks) for c, column in zip(row, one.columns, strict=True)) + r" \\"
            for row in rows]  # fmt: skip
    notes = [f"\\textsuperscript{{{mark}}} {latex(note)}" for note, mark in marks.items() if note in shown]
    notes += [latex(one.remark)] if one.remark else []
    return "\n".join([
        r"\begin{table}[htbp]", r"\centering", f"\\caption{{{caption}}}", f"\\label{{tab:{label}}}",
        r"\footnotesize" if one.dense else r"\small",
        r"\setlength{\tabcolsep}{4pt}",
        f"\\towtankfit{{\\begin{{tabular}}{{{_spec(one)}}}",
        r"\toprule", head, r"\midrule", *body, r"\bottomrule",
        r"\end{tabular}}",
        *([r"\par\smallskip", r"\begin{minipage}{\linewidth}\footnotesize\raggedright",
           "\\par\n".join(notes), r"\end{minipage}"] if notes else []),
        r"\end{table}",
    ])  # fmt: skip


def _spec(one: Table) -> str:
    """Columns: numbers to the right, long words in several lines."""
    kinds = []
    for index, column in enumerate(one.columns):
        longest = max((len(row[index].text) for row in one.rows), default=0)
        if longest > LONG_TEXT:
            kinds.append(r">{\raggedright\arraybackslash}p{0.32\linewidth}")
        else:
            kinds.append("r" if column.numeric else "l")
    return "@{}" + "".join(kinds) + "@{}"


def _cell(cell: Cell, column: Column, marks: dict[str, str]) -> str:
    text = latex(cell.text) + (f"\\textsuperscript{{{marks[cell.note]}}}" if cell.note else "")
    if not cell.detail:
        return text
    return f"\\towtankcell{{{'r' if column.numeric else 'l'}}}{{{text}}}{{{latex(cell.detail)}}}"
