"""Instants as other tools write them: RFC 3339, or seconds, ms, µs or ns since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DIGITS = re.compile(r"[0-9]+(?:\.[0-9]*)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ((11, 1_000_000.0, 1_000_000), (14, 1_000.0, 1_000), (17, 1.0, 1), (20, 1e-3, 1))
"""(Fewer digits before the point than this, µs a unit, precision in µs.)"""


def epoch_us(text: object) -> int:
    """µs since the epoch of an RFC 3339 instant; digits beyond the µs are cut.

    Raises
    ------
    ValueError
    """
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is no instant")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def instant_us(text: str) -> tuple[int, int]:
    """Instant in any of the forms, and its precision in µs.

    >>> instant_us("1795242619")
    (1795242619000000, 1000000)

    Raises
    ------
    ValueError
    """
    if "T" in text:
        return epoch_us(text), 1
    whole = text.partition(".")[0]
    if _DIGITS.fullmatch(text) is None:
        raise ValueError(f"{text[:40]!r} is no instant")
    for digits, scale, precision in _UNITS:
        if len(whole) < digits:
            return round(int(whole) * scale) if "." not in text else round(float(text) * scale), precision
    raise ValueError(f"{text[:40]!r} is no instant")
