"""Figures as files: SVG, PNG and PDF through vl-convert, without network and without a browser."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from towtank.errors import TowtankError
from towtank.report.model import Figure, ReportModel
from towtank.report.style import LIGHT
from towtank.report.text import listed

FORMATS = ("svg", "png", "pdf")
PNG_SCALE = 2.0
"""Device pixels per CSS pixel: sharp on paper at the width of a column."""


@functools.cache
def vegalite_version() -> str:
    """Return the Vega-Lite version that altair writes, as vl-convert names it (``6.1``)."""
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def svg(figure: Figure, *, narrow: bool = False) -> str:
    """Draw a figure as SVG in the light colours, on a transparent ground."""
    text: str = vl_convert.vegalite_to_svg(
        json.dumps(figure.spec(narrow=narrow)), vl_version=vegalite_version()
    )
    return text


def save(model: ReportModel, folder: Path, formats: Iterable[str] = FORMATS) -> list[Path]:
    """Write every figure of a report to `folder`, on white, one file per figure and format.

    Parameters
    ----------
    model : ReportModel
    folder : Path
        Created when it does not exist; files of the same name are replaced.
    formats : iterable of str
        Some of svg, png and pdf.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    TowtankError
        Unknown format, or the folder cannot be written.
    """
    wanted = formats_of(formats)
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in model.figures:
            for suffix in wanted:
                path = folder / f"{figure.id}.{suffix}"
                path.write_bytes(encode(figure, suffix))
                written.append(path)
    except OSError as error:
        raise TowtankError(f"figures cannot be written to {folder}: {error.strerror}") from error
    return written


def formats_of(wanted: Iterable[str]) -> tuple[str, ...]:
    """Read the formats that are asked for; each of them once.

    Raises
    ------
    TowtankError
        One is unknown, or there is none.
    """
    found = tuple(dict.fromkeys(f.strip().lower() for f in wanted))
    unknown = [f for f in found if f not in FORMATS]
    if unknown or not found:
        raise TowtankError(
            f"figures cannot be written as {listed(unknown) or 'nothing'}; allowed is {listed(FORMATS)}",
            hint="for example --format svg,pdf",
        )
    return found


def alone(figure: Figure, *, narrow: bool = False, padding: int = 16) -> dict[str, Any]:
    """Return the specification of a figure that stands by itself: on white, with room around it in px."""
    spec = copy.deepcopy(figure.spec(narrow=narrow))
    return {**spec, "background": LIGHT["paper"], "padding": padding}


def encode(figure: Figure, suffix: str, *, narrow: bool = False, padding: int = 16) -> bytes:
    """Draw a figure on white in one format.

    Parameters
    ----------
    figure : Figure
    suffix : str
        One of `FORMATS`.
    narrow : bool
        As for a phone, or a column of a paper.
    padding : int
        White around it, px.
    """
    text = json.dumps(alone(figure, narrow=narrow, padding=padding))
    version = vegalite_version()
    if suffix == "svg":
        return str(vl_convert.vegalite_to_svg(text, vl_version=version)).encode()
    if suffix == "png":
        return bytes(vl_convert.vegalite_to_png(text, vl_version=version, scale=PNG_SCALE))
    return bytes(vl_convert.vegalite_to_pdf(text, vl_version=version))
