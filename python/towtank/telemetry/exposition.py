"""Lines of Prometheus' text format: of those that begin with a wanted name, their labels and their number.

Lines are chosen by their beginning before anything is parsed: endpoints say a great deal that nobody asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: (\d{1,15}))?$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Row(NamedTuple):
    """One number.

    Parameters
    ----------
    name : str
    labels : dict
    value : float
        Finite.
    """

    name: str
    labels: dict[str, str]
    value: float


def number(text: str) -> float | None:
    """A finite number; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def rows(text: str, names: tuple[str, ...]) -> Iterator[Row]:
    """Numbers of lines whose name begins with one of some; what cannot be understood is passed over."""
    for line in text.splitlines():
        if not line.startswith(names):
            continue
        match = LINE.match(line)
        value = number(match[3]) if match is not None else None
        if match is not None and value is not None:
            yield Row(match[1], dict(LABEL.findall(match[2] or "")), value)
