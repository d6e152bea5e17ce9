"""What Prometheus answers, read strictly: series of a query, and what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from towtank.telemetry.prometheus.options import Query


class NotAnAnswer(ValueError):  # noqa: N818 - it is told as part of another error
    """Something that Prometheus would not say."""


@dataclass(frozen=True)
class Series:
    """One series: its labels, and values by Unix time in s."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Result:
    """Answer to one query.

    Parameters
    ----------
    kind : str
        vector, matrix, scalar or string.
    series : tuple of Series
    warnings : tuple of str
        A server that is put together of several says here that one of them did not answer.
    """

    kind: str
    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()


def read_result(data: object) -> Result:
    """Read the JSON of `query` or `query_range`.

    Raises
    ------
    NotAnAnswer
        Says what is not as it should be.
    """
    if (
        not isinstance(data, dict)
        or data.get("status") != "success"
        or not isinstance(data.get("data"), dict)
    ):
        raise NotAnAnswer("an answer without status success and data")
    inner: dict[str, Any] = data["data"]
    kind, result = inner.get("resultType"), inner.get("result")
    warnings = data.get("warnings") or []
    if not isinstance(kind, str) or not isinstance(result, list) or not isinstance(warnings, list):
        raise NotAnAnswer("an answer without resultType and result")
    series: tuple[Series, ...]
    if kind == "scalar":
        series = (Series({}, (_point(result),)),)
    elif kind == "string":
        series = ()
    else:
        series = tuple(_series(one) for one in result)
    return Result(kind, series, tuple(str(w) for w in warnings))


def error_words(data: object) -> str:
    """What an error of the API says, such as where a query is wrong; empty when it is none."""
    if isinstance(data, dict) and data.get("status") == "error":
        return f"{data.get('errorType', 'error')}: {data.get('error', '')}"
    return ""


def _series(one: object) -> Series:
    if not isinstance(one, dict) or not isinstance(one.get("metric"), dict):
        raise NotAnAnswer("a series without labels")
    points = one.get("values", [one["value"]] if "value" in one else [])
    if not isinstance(points, list):
        raise NotAnAnswer("a series whose values are no list")
    return Series({str(k): str(v) for k, v in one["metric"].items()}, tuple(_point(p) for p in points))


def _point(point: object) -> tuple[float, float]:
    try:
        if isinstance(point, list):
            at_s, value = point
            return float(at_s), float(value)
    except (TypeError, ValueError):
        pass
    raise NotAnAnswer(f"a value that is none: {str(point)[:60]}")


@dataclass
class Tally:
    """The series of one query over a run: their instances, and what had to be left out.

    Parameters
    ----------
    query : Query
    most_series : int
    """

    query: Query
    most_series: int
    values: int = 0
    not_numbers: int = 0
    warnings: dict[str, None] = field(default_factory=dict)
    failed: str = ""
    times_s: set[float] = field(default_factory=set)
    _instances: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    _left_out: set[frozenset[tuple[str, str]]] = field(default_factory=set)
    _alike: set[frozenset[tuple[str, str]]] = field(default_factory=set)

    def take(self, result: Result) -> Iterator[tuple[float, str, float]]:
        """Unix time in s, instance and value of everything that is kept, series by series."""
        self.warnings |= dict.fromkeys(result.warnings)
        for series in sorted(result.series, key=lambda one: sorted(one.labels.items())):
            instance = self._instance(series)
            if instance is None:
                continue
            for at_s, value in series.points:
                if not math.isfinite(value):
                    self.not_numbers += 1
                    continue
                self.values += 1
                self.times_s.add(at_s)
                yield at_s, instance, value

    @property
    def series(self) -> int:
        """Series kept."""
        return len(self._instances)

    @property
    def too_many(self) -> int:
        """Series beyond the bound, which were left out."""
        return len(self._left_out)

    @property
    def alike(self) -> int:
        """Series left out because the labels chosen do not tell them from another one."""
        return len(self._alike)

    def _instance(self, series: Series) -> str | None:
        """Name of a series; None when it is left out."""
        key = frozenset(series.labels.items())
        name = instance_name(series.labels, self.query.instance)
        known = self._instances.get(name)
        if known == key:
            return name
        if known is not None:
            self._alike.add(key)
            return None
        if len(self._instances) >= self.most_series:
            self._left_out.add(key)
            return None
        self._instances[name] = key
        return name


def instance_name(labels: Mapping[str, str], chosen: Iterable[str]) -> str:
    """Values of the chosen labels, joined; empty when the series has none of them."""
    return "/".join(labels[name] for name in chosen if labels.get(name))


def differing_labels(series: Sequence[Series]) -> list[str]:
    """Labels in which series differ: what could tell them apart."""
    names = sorted({name for one in series for name in one.labels} - {"__name__"})
    return [name for name in names if len({one.labels.get(name) for one in series}) > 1]
