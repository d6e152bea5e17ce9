"""Durations, sizes, rates and shares with units: read at the edges, plain numbers inside.

Inside Towtank a time is in seconds (`float`) or integer microseconds/nanoseconds as its name says, a size
in bytes, a share between 0 and 1. This module is the only place that reads or prints a unit.
"""

from __future__ import annotations

import math
import re

_UNSIGNED = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_DURATION_PART = re.compile(rf"\s*({_UNSIGNED})\s*(ns|us|µs|ms|s|min|m|h|d)")
_NUMBER = r"[+-]?" + _UNSIGNED
_PLAIN = re.compile("-?" + _UNSIGNED)
_WHOLE = re.compile("-?[0-9]+")
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z%/µ]*)\s*$")

SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
BYTES = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def parse_number(text: str) -> float:
    """Read a number as files of numbers write it: digits of ASCII, no plus sign, no underscore.

    Python's `float` takes ``1_0``, ``+5`` and digits of other scripts, which no tool writes.

    Parameters
    ----------
    text : str
        Blanks around the number are passed over.

    Returns
    -------
    float
        Infinite where the number is larger than a float can be.

    Raises
    ------
    ValueError
        Anything else, ``nan`` and ``inf`` too.
    """
    return float(_written(_PLAIN, text))


def parse_whole(text: str) -> int:
    """Read a whole number, as strictly as `parse_number`."""
    return int(_written(_WHOLE, text))


def _written(pattern: re.Pattern[str], text: str) -> str:
    bare = text.strip(" \t")
    if pattern.fullmatch(bare) is None:
        raise ValueError(f"{text!r} is not a number in digits from 0 to 9")
    return bare


def parse_duration(text: str | float) -> float:
    """Read a duration such as ``15m``, ``300ms`` or ``1h30m``.

    Parameters
    ----------
    text : str or float
        A bare ``0`` is allowed; any other number needs a unit.

    Returns
    -------
    float
        Seconds, ≥ 0.

    Raises
    ------
    ValueError
        No unit, unknown unit, negative or not a number.
    """
    allowed = "a number with a unit: ns, us, ms, s, m, h or d, such as 15m or 300ms"
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a duration; allowed is {allowed}")
    if isinstance(text, int | float):
        if text == 0:
            return 0.0
        raise ValueError(f"{text!r} has no unit; allowed is {allowed}")
    position, total = 0, 0.0
    for match in _DURATION_PART.finditer(text):
        if match.start() != position:
            break
        total += float(match.group(1)) * SECONDS[match.group(2)]
        position = match.end()
    if position == 0 or text[position:].strip():
        if text.strip() == "0":
            return 0.0
        raise ValueError(f"{text!r} is not a duration; allowed is {allowed}")
    if total < 0 or not math.isfinite(total):
        raise ValueError(f"{text!r} is not a duration that time can take: it must be ≥ 0")
    return total


def parse_bytes(text: str | float) -> int:
    """Read a size such as ``64MiB`` or ``1.5GB``; a bare integer counts bytes."""
    if isinstance(text, float) and not text.is_integer():
        raise ValueError(
            f"{text!r} is not a size: a number without a unit counts bytes; write 64MiB or 0.5GiB"
        )
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a size; allowed is a number with B, kB, MB, GB, KiB, MiB or GiB")
    if isinstance(text, int | float):
        value: float = text
    else:
        match = _QUANTITY.match(text)
        if not match or match.group(2) not in BYTES:
            raise ValueError(
                f"{text!r} is not a size; allowed is a number with B, kB, MB, GB, KiB, MiB or GiB, such as 64MiB"
            )
        value = float(match.group(1)) * BYTES[match.group(2)]
    if value < 0 or not math.isfinite(value):
        raise ValueError(f"{text!r} is not a size: it must be ≥ 0")
    return round(value)


def parse_ratio(text: str | float) -> float:
    """Read a share such as ``99.9%`` or ``0.999``; inside, shares run from 0 to 1."""
    allowed = "a percentage such as 5% or a share from 0 to 1"
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a share; allowed is {allowed}")
    if isinstance(text, int | float):
        value = float(text)
    else:
        match = _QUANTITY.match(text)
        if not match or match.group(2) not in ("", "%"):
            raise ValueError(f"{text!r} is not a share; allowed is {allowed}")
        value = float(match.group(1))
        if match.group(2):
            value = round(value / 100.0, 15)  # 99.9% is 0.999, not 0.9990000000000001
    if not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{text!r} is not a share; allowed is {allowed}")
    return value


def parse_cores(text: str | float) -> float:
    """Read a CPU amount: ``500m`` is half a core, ``1.5`` is one and a half."""
    allowed = "a number of cores such as 1.5 or 500m"
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a CPU amount; allowed is {allowed}")
    if isinstance(text, int | float):
        value = float(text)
    else:
        match = _QUANTITY.match(text)
        if not match or match.group(2) not in ("", "m"):
            raise ValueError(f"{text!r} is not a CPU amount; allowed is {allowed}")
        value = float(match.group(1)) / (1000.0 if match.group(2) == "m" else 1.0)
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{text!r} is not a CPU amount: it must be > 0")
    return value


def parse_rate(text: str | float) -> float:
    """Read a rate such as ``100/s``, ``6/min`` or a bare number per second."""
    allowed = "a number per second, or with /s, /min or /h, such as 100/s"
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is not a rate; allowed is {allowed}")
    if isinstance(text, int | float):
        value = float(text)
    else:
        match = re.fullmatch(rf"\s*({_NUMBER})\s*(?:/\s*(s|m|min|h))?\s*", text)
        if not match:
            raise ValueError(f"{text!r} is not a rate; allowed is {allowed}")
        value = float(match.group(1)) / SECONDS[match.group(2) or "s"]
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text!r} is not a rate: it must be ≥ 0")
    return value


def format_duration(seconds: float, *, digits: int = 3) -> str:
    """Show a duration with the unit that reads best: ``12.3 ms``, ``4.56 s``, ``2 h 5 min``, ``38 min``."""
    if math.isnan(seconds):
        return "–"
    if math.isinf(seconds):
        return "∞"
    magnitude = abs(seconds)
    if magnitude >= 3600:
        return _in_two(round(seconds / 60), "h", "min")
    if magnitude >= 120:
        return _in_two(round(seconds), "min", "s")
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if magnitude >= scale:
            return f"{_significant(seconds / scale, digits)} {unit}"
    return "0 s" if seconds == 0 else f"{_significant(seconds * 1e9, digits)} ns"


def _in_two(count: int, large: str, small: str) -> str:
    """A number of small units as sixties of them and the rest, where there is one."""
    sign, (whole, rest) = "-" if count < 0 else "", divmod(abs(count), 60)
    return f"{sign}{whole} {large}" + (f" {rest} {small}" if rest else "")


def format_bytes(count: float, *, digits: int = 3) -> str:
    """Show a size in binary units: ``64 MiB``."""
    if math.isnan(count):
        return "–"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            return f"{_significant(value, digits)} {unit}"
        value /= 1024
    raise AssertionError


def format_ratio(ratio: float, *, digits: int = 3) -> str:
    """Show a share as a percentage: ``99.9 %``."""
    return "–" if math.isnan(ratio) else f"{_significant(ratio * 100, digits)} %"


def format_number(value: float, *, digits: int = 3) -> str:
    """Show a plain number with `digits` significant digits and thin thousands separators."""
    return "–" if math.isnan(value) else _significant(value, digits)


def _significant(value: float, digits: int) -> str:
    """Round to significant digits without exponents; whole parts are never rounded away."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}".replace(",", "\u202f")
    return text.rstrip("0").rstrip(".") if "." in text else text
