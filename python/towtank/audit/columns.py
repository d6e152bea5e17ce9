"""What the columns of a table mean: from their names to quantities in base units."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

TIME_UNITS = {
    "ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60),
    "h": Fraction(3600),
}  # fmt: skip
_SHARE = {"percent": Fraction(1, 100), "ratio": Fraction(1)}
_CHANGE = "_change_percent"


@dataclass(frozen=True)
class Column:
    """A column that the audit understands.

    Parameters
    ----------
    name : str
        As the file has it.
    key : str
        Quantity without its unit, such as ``goodput``, ``mean``, ``dns.p95``, ``cost_eur``.
    scale : Fraction
        Base units (s, ratio) in one of what is printed.
    count : bool
        Things counted, so that a whole number is exact.
    setup : bool
        Decided beforehand, so that rows may well have the same.
    changed : str
        Column whose change against the first row this is; else empty.
    """

    name: str
    key: str
    scale: Fraction = Fraction(1)
    count: bool = False
    setup: bool = False
    changed: str = ""


_Make = Callable[[str, "re.Match[str]"], Column]
_FORMS: tuple[tuple[str, _Make], ...] = (
    (r"total|failed|succeeded|n", lambda name, _: Column(name, name, count=True)),
    (r"users", lambda name, _: Column(name, name, count=True, setup=True)),
    (r"user_seconds", lambda name, _: Column(name, name, setup=True)),
    (r"node_seconds|throughput_per_s", lambda name, _: Column(name, name)),
    (r"(goodput|failed|succeeded|(?:status|share)_.+)_(percent|ratio)",
     lambda name, m: Column(name, m[1] if m[1] not in ("failed", "succeeded") else f"{m[1]}_share", _SHARE[m[2]])),
    (r"((?:[a-z0-9-]+\.)?(?:min|max|mean|std|median|p\d{1,2}(?:\.\d+)?))_(ns|us|ms|s)",
     lambda name, m: Column(name, re.sub(r"\bp50$", "median", m[1]), TIME_UNITS[m[2]])),
    (r"(duration|pause)_(ms|s|min|h)", lambda name, m: Column(name, m[1], TIME_UNITS[m[2]], setup=True)),
    (r"(elapsed)_(ms|s|min|h)", lambda name, m: Column(name, m[1], TIME_UNITS[m[2]])),
    (r"cost(?:_per_1000)?_([a-z]{2,3})", lambda name, _: Column(name, name)),
    (r"(?:price_per_node_second|fee_per_second|price_per_request|price_per_request_second)_([a-z]{2,3})",
     lambda name, _: Column(name, name, setup=True)),
)  # fmt: skip
KNOWN = (
    "total, failed, succeeded, n; goodput_percent, failed_percent, succeeded_percent, status_<code>_percent, "
    "share_<name>_percent (or _ratio); min_ms, p25_ms, median_ms, p75_ms, p95_ms, max_ms, mean_ms, std_ms (or _s, _us, "
    "with a prefix such as dns.); users, user_seconds, pause_s, duration_s, elapsed_s, throughput_per_s; cost_eur, "
    "cost_per_1000_eur, node_seconds and prices; <column>_change_percent"
)


def understand(names: list[str]) -> dict[str, Column]:
    """Columns of a table that the audit understands, by their names; the others are text."""
    found: dict[str, Column] = {}
    for name in names:
        for form, make in _FORMS:
            match = re.fullmatch(form, name)
            if match:
                found[name] = make(name, match)
                break
    for name in names:
        of = name.removesuffix(_CHANGE)
        if of != name and of in found:
            found[name] = Column(name, name, _SHARE["percent"], changed=of)
    return found
