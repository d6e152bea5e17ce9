"""What each file of a paper's folder is: its caption, how it was computed, and what it was made from."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from towtank.report.computed import computed
from towtank.report.language import catalogue
from towtank.report.model import Figure, ReportModel, Table
from towtank.report.text import markdown as esc

COLUMNS = ("kind", "id", "section", "title", "caption", "computed", "files")


@dataclass(frozen=True)
class Entry:
    """One table or figure, and its files below the folder.

    Parameters
    ----------
    block : Table or Figure
    section : str
        Chapter of the report in which it stands.
    files : tuple of str
    """

    block: Table | Figure
    section: str
    files: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Tell which it is."""
        return "table" if isinstance(self.block, Table) else "figure"

    @property
    def title(self) -> str:
        """What it is called."""
        return self.block.caption if isinstance(self.block, Table) else self.block.title

    @property
    def caption(self) -> str:
        """What a reader has to know: the figure's caption, or the remark and columns of the table."""
        if isinstance(self.block, Figure):
            return self.block.caption
        columns = [f"{c.title}: {c.explanation}" for c in self.block.columns if c.explanation]
        told = f"{'; '.join(columns)}." if columns else ""
        return " ".join(part for part in (self.block.remark, told) if part)

    @property
    def computed(self) -> str:
        """How its numbers came about."""
        return computed(self.block)


def as_csv(model: ReportModel, entries: Sequence[Entry]) -> str:
    """Write the index for programs: one row for each table and figure, its files with blanks between."""
    text, say = io.StringIO(), catalogue(model.language).text
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for one in entries:
        writer.writerow(
            (
                one.kind,
                one.block.id,
                one.section,
                one.title,
                one.caption,
                say(one.computed),
                " ".join(one.files),
            )
        )
    return text.getvalue()


def as_markdown(model: ReportModel, entries: Sequence[Entry], *, packages: Sequence[str]) -> str:
    """Write the index for people."""
    dated = f", {esc(model.dated, starts_line=False)}" if model.dated else ""
    made = ", ".join(f"{name} {version}" for name, version in model.versions.items())
    versions = esc(made, starts_line=False)
    say = catalogue(model.language).text
    digest = f" {say('Digest of the experiment')}: `{esc(model.digest)}`." if model.digest else ""
    parts = [
        f"# {say('Tables and figures')}: {esc(model.question)}",
        f"{say('Experiment')} {esc(model.experiment)}{dated}.{digest}"
        + (f" {say('Made with')} {versions}." if versions else ""),
        f"**{esc(model.headline)}**" + (f" {esc(model.caution)}" if model.caution else ""),
        say("Names of files stay the same from report to report.")
        + f" {say('LaTeX: load')} {', '.join(f'`{name}`' for name in packages)}. "
        + say(
            "`\\input` a file; figures look below `\\towtankfolder`, the path of this folder (`.` if it is not "
            "defined). `all.tex` shows everything. Figures come as wide as a page (7 in) and, as `…-column`, as wide "
            "as a column (3.6 in). The CSV files have the unrounded number beside each text."
        ),
        _overview(entries, say),
        *(_entry(one, say) for one in entries),
    ]
    return "\n\n".join(parts) + "\n"


def _overview(entries: Sequence[Entry], say: Callable[[str], str]) -> str:
    rows = []
    for one in entries:
        title, section = (esc(text, starts_line=False) for text in (one.title, one.section))
        rows.append(f"| `{one.block.id}` | {say(one.kind)} | {title} | {section} |")
    return "\n".join(
        [f"| {say('name')} | | {say('what')} | {say('section of the report')} |", "|---|---|---|---|", *rows]
    )


def _entry(one: Entry, say: Callable[[str], str]) -> str:
    seen = f"\n- {say('Seen')}: {esc(one.block.alt)}" if isinstance(one.block, Figure) else ""
    return (
        f"## {esc(one.title)}\n\n"
        f"- {say('Files')}: {', '.join(f'`{file}`' for file in one.files)}\n"
        + (f"- {say('Caption')}: {esc(one.caption)}\n" if one.caption else "")
        + f"- {say('Computed')}: {esc(say(one.computed)) if one.computed else say('see the caption')}"
        + seen
    )
