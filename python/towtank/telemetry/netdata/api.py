"""The questions that are asked of a Netdata agent (API v1): which charts there are, and their values over a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towtank.spelling import nearest_name
from towtank.telemetry.http.client import Server
from towtank.telemetry.http.clock import DateClock
from towtank.telemetry.netdata.options import Chart, NetdataOptions
from towtank.telemetry.netdata.units import Conversion, conversion

MOST_POINTS = 10_000
"""Of one answer; a longer run is asked for in parts."""


@dataclass(frozen=True)
class Line:
    """One dimension of one chart, and how it becomes samples."""

    dimension: str
    metric: str
    factor: float


@dataclass(frozen=True)
class Wanted:
    """A chart of the agent that was asked for, by id or as one of a context."""

    name: str
    id: str
    instance: str
    update_every_s: float
    lines: tuple[Line, ...]


class Netdata:
    """A Netdata agent.

    Parameters
    ----------
    options : NetdataOptions
    root : Path
        Folder of the experiment file.

    Raises
    ------
    TelemetryError
        A secret or the file with the authorities is not there.
    """

    def __init__(self, options: NetdataOptions, root: Path) -> None:
        self.server = Server("netdata", options, root)
        self.clock = DateClock(self.server, "/api/v1/info")
        self.version = ""
        self._options = options

    def find(self) -> tuple[list[Wanted], list[str]]:
        """What of the charts asked for is there, and a problem for each that is not.

        Raises
        ------
        TelemetryError
            No answer, or something else than Netdata.
        """
        answer = self.server.ask("/api/v1/charts")
        if not answer.ok:
            raise self.server.refused(answer)
        data: Any = self.server.json(answer)
        charts = data.get("charts") if isinstance(data, dict) else None
        if not isinstance(charts, dict):
            raise self.server.failed(
                "sent something else than charts", hint="is this the address of Netdata (port 19999)?"
            )
        self.version = str(data.get("version", ""))
        found: list[Wanted] = []
        problems: list[str] = []
        for name, chart in self._options.charts.items():
            try:
                found += _wanted(name, chart, charts, self._options.most_series)
            except _Missing as missing:
                problems.append(f"{name}: {missing}")
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise self.server.failed(
                    f"describes {chart.asked} in a way that is not Netdata's: {error!r}"
                ) from error
        return found, problems

    def all_wanted(self) -> list[Wanted]:
        """Everything that was asked for.

        Raises
        ------
        TelemetryError
            Something of it is not there, or the agent is not.
        """
        found, problems = self.find()
        if problems:
            raise self.server.failed(f"lacks what is to be observed: {'; '.join(problems)}")
        return found

    def values(
        self, wanted: Wanted, after_s: int, before_s: int, step_s: float
    ) -> list[tuple[int, Sequence[float | None]]]:
        """Unix time, and the value of each line of a chart, oldest first; None where the agent has none.

        Raises
        ------
        TelemetryError
        """
        every_s = max(1, round(max(step_s, wanted.update_every_s)))
        rows: list[tuple[int, Sequence[float | None]]] = []
        for first in range(after_s, before_s, every_s * MOST_POINTS):
            last = min(before_s, first + every_s * MOST_POINTS)
            answer = self.server.ask("/api/v1/data", {
                "chart": wanted.id, "after": first, "before": last, "points": max(1, (last - first) // every_s),
                "group": "average", "format": "json", "options": "seconds|absolute|unaligned",
            })  # fmt: skip
            if not answer.ok:
                raise self.server.refused(answer)
            rows += self._rows(self.server.json(answer), wanted)
        return sorted(dict(rows).items())

    def close(self) -> None:
        """Let go of the connection; harmless to repeat."""
        self.server.close()

    def _rows(self, data: Any, wanted: Wanted) -> list[tuple[int, Sequence[float | None]]]:  # noqa: ANN401
        try:
            columns = [data["labels"].index(line.dimension) for line in wanted.lines]
            return [(int(row[0]), [_number(row[column]) for column in columns]) for row in data["data"]]
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise self.server.failed(
                f"sent values of {wanted.id!r} in a way that is not Netdata's: {error!r}",
                hint="has the chart changed since the run began?",
            ) from error


class _Missing(Exception):  # noqa: N818 - told as a problem
    """A chart, context or dimension that the agent does not have, or whose unit nobody knows."""


def _wanted(name: str, chart: Chart, charts: Mapping[str, Any], most: int) -> list[Wanted]:
    if chart.chart is not None:
        ids = [chart.chart] if chart.chart in charts else []
        known = list(charts)
    else:
        ids = sorted(key for key, one in charts.items() if one["context"] == chart.context)
        known = sorted({str(one["context"]) for one in charts.values()})
    if not ids:
        near = nearest_name(chart.chart or chart.context or "", known)
        raise _Missing(
            f"there is no {chart.asked} among its {len(known)}"
            + (f"; did you mean {near!r}?" if near else "")
        )
    found = [_one(name, chart, key, charts[key]) for key in ids]
    lines = sum(len(one.lines) for one in found)
    if lines > most:
        raise _Missing(
            f"{chart.asked} has {lines} lines; allowed are {most}: name `dimensions`, or raise `most_series`"
        )
    return found


def _one(name: str, chart: Chart, key: str, described: Mapping[str, Any]) -> Wanted:
    names = [str(one["name"]) for one in described["dimensions"].values()]
    for dimension in chart.dimensions or ():
        if dimension not in names:
            near = nearest_name(dimension, names)
            raise _Missing(
                f"{key!r} has no dimension {dimension!r}; it has {', '.join(names[:20])}"
                + (f"; did you mean {near!r}?" if near else "")
            )
    units = str(described["units"])
    if chart.unit is not None and chart.factor is not None:
        as_ours: Conversion | None = Conversion(chart.unit, chart.factor)
    else:
        as_ours = conversion(units)
    if as_ours is None:
        raise _Missing(f"{key!r} is in {units!r}, which has no counterpart here: give `unit` and `factor`")
    lines = tuple(
        Line(dimension, metric_name(name, dimension, as_ours.unit), as_ours.factor)
        for dimension in chart.dimensions or names
    )
    return Wanted(
        name, key, key if chart.context is not None else "", float(described["update_every"]), lines
    )


def metric_name(name: str, dimension: str, unit: str) -> str:
    """Name of the samples of one line.

    >>> metric_name("cpu", "guest nice", "ratio")
    'cpu_guest_nice_ratio'
    >>> metric_name("processes", "running", "count")
    'processes_running'
    """
    line = re.sub(r"[^a-z0-9]+", "_", dimension.lower()).strip("_")
    whole = name if not line or line == name else f"{name}_{line}"
    return whole if unit == "count" or whole.endswith(f"_{unit}") else f"{whole}_{unit}"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
