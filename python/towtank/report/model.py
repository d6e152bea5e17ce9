"""The report as data: sections of tables, figures and text that every renderer shows alike.

`build` fills it, `html`, `markdown` and `terminal` read it. All text in it is already free of control characters
(`towtank.report.text.clean`); each renderer escapes what its own language would read as markup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Tone = Literal["plain", "good", "bad", "same", "unsure", "muted"]
"""How a cell or chip is coloured; always beside words, never instead of them."""


@dataclass(frozen=True)
class Style:
    """How one deployment looks in every figure and table.

    Parameters
    ----------
    color : int
        Index into the palette of `towtank.report.style`.
    dash : int
        Index into the dash patterns and markers, so that the figures work in black and white.
    """

    color: int
    dash: int


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Parameters
    ----------
    text : str
        What is shown; ``–`` when nothing can be said.
    note : str
        Why nothing can be said, or a qualification; becomes a footnote of the table.
    detail : str
        A second, quieter line: an interval, a count.
    tone : Tone
    style : Style, optional
        Shows the deployment's line and marker before the text.
    sort : float, optional
        What the column sorts by; without it, the text.
    """

    text: str
    note: str = ""
    detail: str = ""
    tone: Tone = "plain"
    style: Style | None = None
    sort: float | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    title : str
    numeric : bool
        Set to the right.
    explanation : str
        What exactly stands in it.
    optional : bool
        The first to go where room is scarce.
    """

    title: str
    numeric: bool = False
    explanation: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Table:
    """A table; the first cell of each row heads it.

    Parameters
    ----------
    id : str
        Unique in the report, fit for an HTML id and a file name.
    caption : str
    columns : tuple of Column
    rows : tuple of tuple of Cell
    remark : str
        One sentence below the table.
    folded : bool
        Closed at first in HTML, left out of the terminal.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    remark: str = ""
    folded: bool = False

    @property
    def dense(self) -> bool:
        """Tell whether it has so many columns that they need narrower type."""
        return len(self.columns) > 8

    def footnotes(self) -> dict[str, str]:
        """Note → mark (a, b, …) in order of appearance; equal notes share a mark."""
        notes = dict.fromkeys(cell.note for row in self.rows for cell in row if cell.note)
        return {note: _mark(number) for number, note in enumerate(notes)}


@dataclass(frozen=True)
class Figure:
    """One Vega-Lite definition in two widths over the same datasets.

    Parameters
    ----------
    id, title, caption : str
    alt : str
        What is seen, for those who do not see it.
    wide, narrow : dict
        Vega-Lite specifications without `datasets`.
    datasets : dict
        Name → records.
    """

    id: str
    title: str
    caption: str
    alt: str
    wide: dict[str, Any]
    narrow: dict[str, Any]
    datasets: dict[str, list[dict[str, Any]]]
    folded: bool = False

    def spec(self, *, narrow: bool = False) -> dict[str, Any]:
        """The complete specification, for rendering alone."""
        return {**(self.narrow if narrow else self.wide), "datasets": self.datasets}


@dataclass(frozen=True)
class Figures:
    """All figures by their place in the report; None where there is nothing to show."""

    forest: Figure | None = None
    exploratory: Figure | None = None
    intervals: Figure | None = None
    percentiles: Figure | None = None
    ecdf: Figure | None = None
    request_phases: tuple[Figure, ...] = ()
    timeseries: tuple[Figure, ...] = ()
    observed: tuple[Figure, ...] = ()
    pod_starts: Figure | None = None
    supply: Figure | None = None
    cold_starts: Figure | None = None
    predicted_scaling: Figure | None = None
    load_line: Figure | None = None
    each: tuple[Figure, ...] = ()
    hops: Figure | None = None
    outcomes: Figure | None = None
    instances: Figure | None = None
    violins: Figure | None = None
    heat: tuple[Figure, ...] = ()
    interactions: Figure | None = None
    paretos: tuple[Figure, ...] = ()
    break_even: Figure | None = None


NO_FIGURES = Figures()
"""For a report without pictures."""


@dataclass(frozen=True)
class Answer:
    """One confirmatory contrast: a verdict, the effect in a few words, and the whole finding with its certainty."""

    verdict: str
    tone: Tone
    claim: str
    sentence: str
    style: Style | None = None


@dataclass(frozen=True)
class Chip:
    """A short fact beside the answer: SLO held, runs excluded."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Notice:
    """A finding or a threat to validity, with what to do about it."""

    severity: Literal["info", "warning", "serious"]
    name: str
    message: str
    advice: str
    runs: tuple[str, ...] = ()
    more: int = 0
    """Runs that are not listed."""


@dataclass(frozen=True)
class Facts:
    """Names and values, such as versions."""

    title: str
    items: tuple[tuple[str, str], ...]
    code: bool = False


@dataclass(frozen=True)
class Document:
    """A text file or a command, shown verbatim."""

    name: str
    text: str
    folded: bool = True


Block = Table | Figure | Notice | Facts | Document


@dataclass(frozen=True)
class Section:
    """A chapter of the report; `short` names it where room is scarce."""

    id: str
    title: str
    short: str
    intro: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class ReportModel:
    """The whole report.

    Parameters
    ----------
    experiment, question, headline : str
        What was asked, and the answer in one or two sentences.
    caution : str
        Stands under the headline: what the answer rests on; may be empty.
    decided : bool
    answers : tuple of Answer
        One per confirmatory contrast.
    chips : tuple of Chip
    legend : tuple of (str, Style)
        The deployments and how they look.
    sections : tuple of Section
    dated : str
        When the experiment ran; may be empty.
    language : str
        Of the texts that are not the experiment's (`language.translated`).
    digest : str
        Of the experiment's plan, so that what leaves the report can be traced back; may be empty.
    """

    experiment: str
    question: str
    headline: str
    decided: bool
    answers: tuple[Answer, ...]
    chips: tuple[Chip, ...]
    legend: tuple[tuple[str, Style], ...]
    sections: tuple[Section, ...]
    dated: str = ""
    digest: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    caution: str = ""
    language: str = "en"

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Every figure, in order."""
        return tuple(b for s in self.sections for b in s.blocks if isinstance(b, Figure))

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table, in order."""
        return tuple(b for s in self.sections for b in s.blocks if isinstance(b, Table))


def _mark(number: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[number] if number < 26 else _mark(number // 26 - 1) + letters[number % 26]
