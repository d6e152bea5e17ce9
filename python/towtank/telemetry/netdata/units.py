"""Netdata's units, in ours."""

from __future__ import annotations

import re
from typing import NamedTuple

from towtank.variables import Unit


class Conversion(NamedTuple):
    """Our unit, and what Netdata's values are multiplied by."""

    unit: Unit
    factor: float


_PLAIN: dict[str, Conversion] = {
    "percentage": Conversion("ratio", 0.01),
    "%": Conversion("ratio", 0.01),
    "percent": Conversion("ratio", 0.01),
    "B": Conversion("bytes", 1.0),
    "bytes": Conversion("bytes", 1.0),
    "KiB": Conversion("bytes", 2.0**10),
    "MiB": Conversion("bytes", 2.0**20),
    "GiB": Conversion("bytes", 2.0**30),
    "KB": Conversion("bytes", 1e3),
    "MB": Conversion("bytes", 1e6),
    "GB": Conversion("bytes", 1e9),
    "bits": Conversion("bytes", 1 / 8),
    "kilobits": Conversion("bytes", 1000 / 8),
    "megabits": Conversion("bytes", 1e6 / 8),
    "seconds": Conversion("s", 1.0),
    "milliseconds": Conversion("s", 1e-3),
    "ms": Conversion("s", 1e-3),
    "microseconds": Conversion("s", 1e-6),
    "nanoseconds": Conversion("s", 1e-9),
}
_RATE = re.compile(r"^(.+)/s(?:ec(?:ond)?)?$")


def conversion(units: str) -> Conversion | None:
    """How values of a chart become ours; None where that would be guessing.

    >>> conversion("KiB/s")
    Conversion(unit='bytes_per_s', factor=1024.0)
    >>> conversion("operations/s")
    Conversion(unit='per_s', factor=1.0)
    >>> conversion("processes")
    Conversion(unit='count', factor=1.0)
    >>> conversion("Celsius") is None
    True
    """
    if units in _PLAIN:
        return _PLAIN[units]
    rate = _RATE.match(units)
    if rate is None:
        return Conversion("count", 1.0) if units in _COUNTS else None
    of = _PLAIN.get(rate[1])
    if of is None:
        return Conversion("per_s", 1.0)
    if of.unit == "bytes":
        return Conversion("bytes_per_s", of.factor)
    return Conversion("ratio", of.factor) if of.unit == "s" else None


_COUNTS = frozenset({
    "processes", "threads", "open files", "files", "connections", "sockets", "load", "users", "value", "requests",
    "entries", "operations", "packets", "count", "containers", "tasks", "context switches", "active connections",
    "active processes", "clients", "sessions", "streams", "queries",
})  # fmt: skip
"""Units that count something."""
