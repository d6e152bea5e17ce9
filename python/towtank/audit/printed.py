"""A printed number as the range of numbers that print like it, in exact arithmetic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][+-]?\d{1,2})?")
_NOTHING = frozenset({"", "-", "–", "—", "n/a", "na", "nan", "none", "null"})
_MINUS = "−"
_LONGEST = 40
"""Characters of a cell; more is no printed number."""
_LARGEST = Decimal("1e30")
"""Nothing that is counted, timed or paid is more; products of several such numbers can still be printed."""


@dataclass(frozen=True)
class Range:
    """All values that a number may have, from `low` to `high`, both included; without `high` it has no end.

    Parameters
    ----------
    low : Fraction
    high : Fraction or None
    """

    low: Fraction
    high: Fraction | None

    @classmethod
    def exactly(cls, value: Fraction | int) -> Range:
        """One value and no other."""
        return cls(Fraction(value), Fraction(value))

    def times(self, factor: Fraction) -> Range:
        """Scale by a factor above 0: another unit."""
        return Range(self.low * factor, None if self.high is None else self.high * factor)

    def widened(self, share: Fraction) -> Range:
        """Range with a share of its ends more on both sides."""
        high = None if self.high is None else self.high + abs(self.high) * share
        return Range(self.low - abs(self.low) * share, high)

    def meets(self, other: Range) -> bool:
        """Whether there is a value that both may have."""
        below = self.high is not None and self.high < other.low
        above = other.high is not None and other.high < self.low
        return not (below or above)


def read_number(text: str, *, count: bool = False, slack: int = 1) -> Range | None:
    """Read a cell as it is printed.

    Parameters
    ----------
    text : str
        Digits with a decimal point; commas may part thousands. ``%`` may follow. ``≈2000`` is rounded to its last digit
        that is not 0, ``<5`` and ``≤5`` lie between 0 and 5, ``>30`` and ``≥30`` have no upper end.
    count : bool
        Of things that are counted: without decimals it is exact.
    slack : int
        Half units of the last digit to either side: 1 for rounded numbers, 2 where they may have been cut off.

    Returns
    -------
    Range or None
        None where nothing is printed: an empty cell, a dash.

    Raises
    ------
    ValueError
        It is no number.

    Examples
    --------
    >>> read_number("26.2")
    Range(low=Fraction(523, 20), high=Fraction(105, 4))
    """
    plain = text.strip().replace(_MINUS, "-").removesuffix("%").strip()
    if plain.lower() in _NOTHING:
        return None
    sign = plain[0] if plain[0] in "<>≤≥≈~" else ""
    digits = plain.removeprefix(sign).strip()
    if len(digits) > _LONGEST or not re.search(r"\d", digits) or not _NUMBER.fullmatch(digits):
        raise ValueError(f"{text.strip()!r} is not a number")
    number = Decimal(digits.replace(",", ""))
    if abs(number) > _LARGEST:
        raise ValueError(
            f"{text.strip()!r} is more than {_LARGEST:.0e}, the largest number that is understood"
        )
    value = Fraction(number)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)  # noqa: S101 - digits are finite
    if sign in {"≈", "~"} and number:
        exponent = int(number.normalize().as_tuple().exponent)
    half = Fraction(10) ** exponent / 2 * slack
    if count and exponent == 0 and not sign:
        half = Fraction(0)
    if sign in {"<", "≤"}:
        return Range(Fraction(0), value + half)
    if sign in {">", "≥"}:
        return Range(value - half, None)
    return Range(value - half, value + half)


def show(value: Fraction) -> str:
    """Number for a sentence, to six digits that say something."""
    return f"{float(value):.6g}"


def show_range(found: Range, scale: Fraction = Fraction(1)) -> str:
    """Range in words: one number where both ends look the same."""
    low = show(found.low / scale)
    if found.high is None:
        return f"{low} or more"
    high = show(found.high / scale)
    return low if low == high else f"{low} to {high}"
