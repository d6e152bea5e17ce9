"""Money and prices with their units: read where a price list is validated, plain numbers inside.

A price is written with what it is for, ``0.0445/h`` or ``0.20/1M``, so that nobody has to know in which unit a file
counts. ``ct`` are hundredths of the currency. ``free`` is a price of nothing that somebody has written down; a price
that is not written is an error, never nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from towtank.units import BYTES, SECONDS

MONTH_S = 730 * 3600.0
"""An average month, as cloud providers reckon it: 8,760 h ÷ 12."""
DAY_S = 86_400.0

CURRENCIES = frozenset({
    "AUD", "BRL", "CAD", "CHF", "CLP", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF",
    "IDR", "ILS", "INR", "JPY", "KRW", "MXN", "MYR", "NOK", "NZD", "PHP", "PLN", "RON",
    "SEK", "SGD", "THB", "TRY", "TWD", "USD", "ZAR",
})  # fmt: skip
"""ISO 4217 codes that cloud providers bill in."""

_TIMES: Mapping[str, float] = {**SECONDS, "month": MONTH_S, "y": 8760 * 3600.0}
_COUNTS: Mapping[str, float] = {"1": 1.0, "1k": 1e3, "1M": 1e6}
_SIZES: Mapping[str, float] = {unit: float(size) for unit, size in BYTES.items() if unit}
_ENERGIES: Mapping[str, float] = {"kWh": 3.6e6, "MWh": 3.6e9}
_PRICE = re.compile(
    r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*(ct)?\s*(?:/\s*([A-Za-zµ0-9]+))?\s*"
)
CENTS = 100.0


def _reader(units: Mapping[str, float], example: str) -> Callable[[object], float]:
    allowed = f"an amount for one of {', '.join(units)}, such as {example}, or `free`"

    def read(value: object) -> float:
        text = value if isinstance(value, str) else "" if isinstance(value, bool) else repr(value)
        if text.strip() == "free":
            return 0.0
        match = _PRICE.fullmatch(text)
        if match is None or match[3] not in units:
            raise ValueError(f"{value!r} is not a price of this; allowed is {allowed}")
        amount = float(match[1]) / (CENTS if match[2] else 1.0) / units[match[3]]
        if not math.isfinite(amount):
            raise ValueError(f"{value!r} is not a price that can be paid; allowed is {allowed}")
        return amount

    return read


def _money(value: object) -> float:
    text = value if isinstance(value, str) else "" if isinstance(value, bool) else repr(value)
    match = _PRICE.fullmatch(text)
    amount = float(match[1]) / (CENTS if match[2] else 1.0) if match and match[3] is None else math.nan
    if not math.isfinite(amount):
        raise ValueError(
            f"{value!r} is not an amount of money; allowed is a number ≥ 0, such as 74.40 or 12 ct"
        )
    return amount


def _currency(value: object) -> str:
    if value in CURRENCIES:
        return str(value)
    raise ValueError(f"{value!r} is not a known currency; allowed are {', '.join(sorted(CURRENCIES))}")


def _written(unit: str, scale: float) -> PlainSerializer:
    """A price as a file would say it, so that a stored plan can be read by the same models."""
    return PlainSerializer(
        lambda price: f"{float(price) * scale!r}/{unit}", return_type=str, when_used="json"
    )


_SCHEMA = WithJsonSchema({"type": "string"}, mode="validation")

TimePrice = Annotated[float, BeforeValidator(_reader(_TIMES, "0.0445/h")), _written("h", 3600.0), _SCHEMA]
"""Per second; written ``0.0445/h``."""
CountPrice = Annotated[float, BeforeValidator(_reader(_COUNTS, "0.20/1M")), _written("1M", 1e6), _SCHEMA]
"""Per one; written ``0.20/1M``."""
SizePrice = Annotated[float, BeforeValidator(_reader(_SIZES, "0.12/GB")), _written("GB", 1e9), _SCHEMA]
"""Per byte; written ``0.12/GB``."""
EnergyPrice = Annotated[
    float, BeforeValidator(_reader(_ENERGIES, "0.28/kWh")), _written("kWh", 3.6e6), _SCHEMA
]
"""Per joule; written ``0.28/kWh``."""
Money = Annotated[
    float,
    BeforeValidator(_money),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]}, mode="validation"),
]
"""An amount of the list's currency, ≥ 0; written ``74.40``."""
Currency = Annotated[
    str, BeforeValidator(_currency), WithJsonSchema({"enum": sorted(CURRENCIES)}, mode="validation")
]
"""ISO 4217 code."""


@dataclass(frozen=True)
class Conversion:
    """One currency in another: one `source` is `rate` `target`, on a date that is written down.

    Parameters
    ----------
    source, target : str
        ISO 4217 codes.
    rate : float
        > 0.
    date : str
        ISO 8601 date of the rate.
    """

    source: str
    target: str
    rate: float
    date: str


def converted(amount: float, source: str, target: str, conversions: Sequence[Conversion]) -> float:
    """Say an amount in the currency of the report; a rate that nobody wrote down is never guessed.

    Parameters
    ----------
    amount : float
    source, target : str
    conversions : sequence of Conversion
        Read both ways; never chained, as errors of two rates would add up unseen.

    Raises
    ------
    ValueError
        No conversion between the two is written down.
    """
    if source == target:
        return amount
    for one in conversions:
        if (one.source, one.target) == (source, target):
            return amount * one.rate
        if (one.source, one.target) == (target, source):
            return amount / one.rate
    raise ValueError(
        f"prices are in {source} and the report is in {target}, and no conversion between them is written down; "
        f"write `cost.conversions: [{{from: {source}, to: {target}, rate: …, date: …}}]`"
    )
