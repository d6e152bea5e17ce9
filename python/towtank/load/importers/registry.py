"""Which files can be imported: one table of formats, and the first line that tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from towtank.errors import ForeignFileError
from towtank.load.importers import hey, k6, locust, oha, vegeta
from towtank.load.importers.base import Reader, refuse
from towtank.load.importers.text import first_line


@dataclass(frozen=True)
class Format:
    """What is accepted of one tool.

    Parameters
    ----------
    tool : str
    wants : str
        What to give, and the tool's option that makes it.
    open : callable
        Reader of a file, from its path and first line; None when the line is not of this format.
    advice : callable
        What to say of a file of the tool that holds no requests; None when it is none of the tool's.
    """

    tool: str
    wants: str
    open: Callable[[Path, str], Reader | None]
    advice: Callable[[str], str | None] = lambda _: None


def open_file(tool: str, path: Path) -> Reader:
    """Open a file as a result of a tool.

    Raises
    ------
    ForeignFileError
        It is something else.
    """
    known = FORMATS[tool]
    try:
        line = first_line(path)
    except ForeignFileError as error:  # such as vegeta's own binary results
        raise ForeignFileError(
            error.message, hint=f"wanted is {known.wants}; nothing was imported"
        ) from error
    reader = known.open(path, line)
    if reader is not None:
        return reader
    said = known.advice(line)
    if said is not None:
        raise refuse(path, said, line=1, hint=f"wanted is {known.wants}; nothing was imported")
    other = next((name for name, one in FORMATS.items() if name != tool and one.open(path, line)), None)
    what = f"is not a file of {tool} that holds its requests; it begins with {line[:60]!r}"
    hint = f"it is one of {other}: towtank import {other} …" if other else f"wanted is {known.wants}"
    raise refuse(path, what, line=1, hint=f"{hint}; nothing was imported")


def _k6(path: Path, line: str) -> Reader | None:
    if line.startswith(k6.CSV_BEGINS):
        return k6.K6Csv(path, tuple(line.split(",")))
    return k6.K6Json(path) if k6.first_is_line(line) else None


def _k6_advice(line: str) -> str | None:
    if line.strip() != "{":
        return None
    return "is a summary, which holds no requests: none can be made of it"


def _locust(path: Path, line: str) -> Reader | None:
    return locust.LocustLog(path) if line == locust.HEADER else None


def _locust_advice(line: str) -> str | None:
    if not line.startswith(locust.AGGREGATED):
        return None
    what = "is a file of --csv: sums and rounded percentiles, of which no requests can be made"
    return f"{what}. Instead, {locust.ADVICE}"


def _hey(path: Path, line: str) -> Reader | None:
    return hey.HeyCsv(path) if line == hey.HEADER else None


def _oha(path: Path, line: str) -> Reader | None:
    return oha.OhaCsv(path) if line == oha.HEADER else None


def _oha_advice(line: str) -> str | None:
    return "is a summary, which holds no requests: none can be made of it" if line.strip() == "{" else None


def _vegeta(path: Path, line: str) -> Reader | None:
    columns = vegeta.columns_of(line)
    if columns is not None:
        return vegeta.VegetaCsv(path, columns)
    return vegeta.VegetaJson(path) if vegeta.first_is_result(line) else None


FORMATS: dict[str, Format] = {
    "k6": Format("k6", "what `k6 run --out csv=FILE` or `--out json=FILE` writes", _k6, _k6_advice),
    "locust": Format("locust", "the log that Locust's CsvRequestLogger writes", _locust, _locust_advice),
    "hey": Format("hey", "what `hey -o csv` prints", _hey),
    "vegeta": Format("vegeta", "what `vegeta encode --to csv` or `--to json` prints", _vegeta),
    "oha": Format("oha", "what `oha --output-format csv` prints", _oha, _oha_advice),
}
