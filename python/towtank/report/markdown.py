"""The report as Markdown (GitHub's flavour): the same words and tables, figures as links to their files."""

from __future__ import annotations

from collections.abc import Callable

from towtank.report.language import catalogue
from towtank.report.model import Cell, Column, Document, Facts, Figure, Notice, ReportModel, Section, Table
from towtank.report.text import fenced
from towtank.report.text import markdown as esc


def render(model: ReportModel, *, figures: str | None = None) -> str:
    """Write the report as Markdown.

    Parameters
    ----------
    model : ReportModel
    figures : str, optional
        Folder of saved SVG figures, relative to the Markdown file; without it figures are described in words.
    """
    parts = [f"# {esc(model.question)}", _top(model)]
    say = catalogue(model.language).text
    parts += [_section(s, figures, say) for s in model.sections]
    return "\n\n".join(p for p in parts if p) + "\n"


def _top(model: ReportModel) -> str:
    dated = f", {esc(model.dated)}" if model.dated else ""
    lines = [
        f"{catalogue(model.language).text('Experiment')} {esc(model.experiment)}{dated}",
        f"**{esc(model.headline)}**",
        *([esc(model.caution)] if model.caution else []),
        " · ".join(esc(c.text) for c in model.chips),
    ]
    if model.answers:
        lines.append(
            "\n".join(f"- **{esc(a.verdict)}**: {esc(a.claim)}. {esc(a.sentence)}" for a in model.answers)
        )
    return "\n\n".join(lines)


def _section(section: Section, figures: str | None, say: Callable[[str], str]) -> str:
    parts = [f"## {esc(section.title)}", esc(section.intro)]
    for block in section.blocks:
        match block:
            case Table():
                parts.append(table(block).rstrip())
            case Figure():
                parts.append(_figure(block, figures))
            case Notice():
                parts.append(_notice(block, say))
            case Facts():
                parts.append(
                    f"### {esc(block.title)}\n\n" + "\n".join(f"- {esc(k)}: {esc(v)}" for k, v in block.items)
                )
            case Document():
                parts.append(f"### {esc(block.name)}\n\n{fenced(block.text)}")
    return "\n\n".join(p for p in parts if p)


def table(one: Table) -> str:
    """Write one table with its caption, footnotes and remark."""
    marks = one.footnotes()
    lines = [
        f"### {esc(one.caption)}",
        "",
        _row([esc(c.title) for c in one.columns]),
        _row([_rule(c) for c in one.columns]),
    ]
    lines += [_row([_cell(c, marks) for c in row]) for row in one.rows]
    for note, mark in marks.items():
        lines += ["", f"{mark}: {esc(note)}"]
    if one.remark:
        lines += ["", esc(one.remark)]
    return "\n".join([*lines, ""])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(column: Column) -> str:
    return "---:" if column.numeric else "---"


def _cell(cell: Cell, marks: dict[str, str]) -> str:
    text = esc(cell.text, starts_line=False)
    if cell.note:
        text += f" ({marks[cell.note]})"
    if cell.detail:
        text += f" ({esc(cell.detail, starts_line=False)})"
    return text


def _figure(figure: Figure, folder: str | None) -> str:
    picture = f"\n\n![{esc(figure.alt)}]({folder}/{figure.id}.svg)" if folder else f"\n\n{esc(figure.alt)}"
    return f"### {esc(figure.title)}{picture}\n\n{esc(figure.caption)}"


def _notice(notice: Notice, say: Callable[[str], str]) -> str:
    more = f" {say(f'and {notice.more} more')}" if notice.more else ""
    runs = f" {say('Runs')}: {', '.join(esc(r) for r in notice.runs)}{more}." if notice.runs else ""
    advice = f"\n  → {esc(notice.advice)}" if notice.advice else ""
    return f"- **{say(notice.severity)}**, {esc(notice.name)}: {esc(notice.message)}{runs}{advice}"
