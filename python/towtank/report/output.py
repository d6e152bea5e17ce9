"""Write a report into a result folder: HTML, Markdown and, when asked for, figures as files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from towtank.analysis.model import ExperimentAnalysis
from towtank.errors import ResultsError
from towtank.report import html, markdown
from towtank.report.assemble import build
from towtank.report.figures import save
from towtank.report.language import ENGLISH
from towtank.report.model import ReportModel

HTML_NAME, MARKDOWN_NAME, FIGURES_NAME = "report.html", "report.md", "figures"


@dataclass(frozen=True)
class Written:
    """What was written: the model for the terminal, and the files."""

    model: ReportModel
    html: Path
    markdown: Path
    figures: tuple[Path, ...] = ()


def write(results: Path | str, *, html_file: Path | None = None) -> Path:
    """Analyse a result folder and write `report/report.html` and `report/report.md` into it.

    Parameters
    ----------
    results : Path
        Folder of one experiment.
    html_file : Path, optional
        Where the HTML goes instead.

    Returns
    -------
    Path
        Of the HTML file.

    Raises
    ------
    ResultsError
        The folder cannot be read or written.
    """
    return write_model(model_of(results), Path(results) / "report", html_file=html_file).html


def model_of(results: Path | str) -> ReportModel:
    """Analyse a result folder (or the folder above it, or an experiment file beside it) and build its report."""
    return build(analysis_of(results))


def analysis_of(results: Path | str) -> ExperimentAnalysis:
    """Analyse a result folder (or the folder above it, or an experiment file beside it)."""
    from towtank.analysis import analyse  # noqa: PLC0415 - scipy and statsmodels load here, not for --help
    from towtank.analysis.kept_runs import kept_runs  # noqa: PLC0415
    from towtank.store import Results  # noqa: PLC0415

    found = Results.open(results)
    return analyse(found, derived=kept_runs(found))


def write_model(
    model: ReportModel,
    folder: Path,
    *,
    html_file: Path | None = None,
    markdown_file: Path | None = None,
    figures: Path | None = None,
    formats: Iterable[str] = (),
) -> Written:
    """Write a report that is already built.

    Parameters
    ----------
    model : ReportModel
    folder : Path
        Where files go that have no path of their own.
    html_file, markdown_file : Path, optional
    figures : Path, optional
        Folder for figures; without it none are written as files.
    formats : iterable of str
        Some of svg, png, pdf.
    """
    page = html_file or folder / _named(HTML_NAME, model.language)
    text = markdown_file or folder / _named(MARKDOWN_NAME, model.language)
    saved = save(model, figures, formats) if figures is not None else []
    shown = None
    if figures is not None and any(p.suffix == ".svg" for p in saved):
        shown = Path(os.path.relpath(figures, text.parent)).as_posix()
    _replace(page, html.render(model))
    _replace(text, markdown.render(model, figures=shown))
    return Written(model, page, text, tuple(saved))


def _named(name: str, language: str) -> str:
    """Name of a file in a language: reports in several stand beside each other."""
    stem, _, suffix = name.partition(".")
    return name if language == ENGLISH else f"{stem}.{language}.{suffix}"


def _replace(path: Path, text: str) -> None:
    """Write beside, then rename: nobody ever opens half a report."""
    beside = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ResultsError(
            f"the report cannot be written to {path}: {error.strerror}",
            hint="choose another place with --html FILE",
        ) from error
