"""Values of the expression language and what can be done with them: typed, finite and bounded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from towtank.design.problems import listing, shown

Value = bool | int | float | str

MAX_TEXT = 10_000
"""Characters of an expanded value."""
MAX_NUMBER = 10**18
"""Largest magnitude of a whole number; no size, rate or duration needs more."""


class TemplateError(ValueError):
    """An expression cannot be read or has no value; the message says what is allowed.

    Parameters
    ----------
    message : str
    hint : str
        The nearest known name or the next step; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def as_text(value: Value) -> str:
    """Write a value into text: booleans as YAML does, whole numbers without a trailing ``.0``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def truth(value: Value, what: str) -> bool:
    """Return a condition as it is; anything but true or false is refused."""
    if isinstance(value, bool):
        return value
    raise TemplateError(f"`{what}` needs true or false, such as a comparison; found {shown(value)}")


def number(value: Value, what: str) -> int | float:
    """Return a number as it is; anything else is refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TemplateError(f"`{what}` needs a number; found {shown(value)}")
    return value


def finite(value: int | float) -> int | float:  # noqa: PYI041 - the distinction matters here
    """Return a number as it is; infinity, nan and huge whole numbers are refused."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TemplateError("the result of an expression is not a finite number")
    elif abs(value) > MAX_NUMBER:
        raise TemplateError(f"a whole number beyond ±{MAX_NUMBER:.0e} in an expression")
    return value


def bounded(text: str) -> str:
    """Return a text as it is; a very long one is refused."""
    if len(text) > MAX_TEXT:
        raise TemplateError(f"an expanded text of {len(text)} characters; at most {MAX_TEXT:,} are allowed")
    return text


_ARITHMETIC: dict[str, Callable[[int | float, int | float], int | float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
COMPARISONS: dict[str, Callable[[int | float | str, int | float | str], bool]] = {
    "<": lambda a, b: a < b,  # type: ignore[operator]  # `_compare` has made sure that both are alike
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def compare(operator: str, a: Value, b: Value) -> bool:
    """Compare two values of one type."""
    alike = isinstance(a, str) == isinstance(b, str) and isinstance(a, bool) == isinstance(b, bool)
    if not alike:
        raise TemplateError(
            f"{shown(a)} and {shown(b)} cannot be compared with {operator!r}: one type on both sides"
        )
    return COMPARISONS[operator](a, b)


def calculate(operator: str, a: Value, b: Value) -> Value:
    """Work out an arithmetic operation; ``+`` also joins two texts."""
    if operator == "+" and isinstance(a, str) and isinstance(b, str):
        return bounded(a + b)
    if isinstance(a, str) != isinstance(b, str) and operator == "+":
        raise TemplateError(f"{shown(a)} + {shown(b)} mixes text and a number; write str(…) or int(…)")
    x, y = number(a, operator), number(b, operator)
    try:
        return finite(_ARITHMETIC[operator](x, y))
    except ZeroDivisionError:
        raise TemplateError(f"division by zero: {x} {operator} {y}") from None
    except OverflowError:
        raise TemplateError("the result of an expression is not a finite number") from None


@dataclass(frozen=True)
class Function:
    """One function of the language: how many values it takes and what it does."""

    arity: tuple[int, int]
    work: Callable[..., Value]
    explanation: str


def _round(value: float, digits: int = 0) -> Value:
    if isinstance(digits, float) or abs(digits) > 15:
        raise TemplateError(f"round() takes whole digits from -15 to 15, found {shown(digits)}")
    return round(value, digits) if digits else round(value)


def _extreme(choose: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *values: choose(number(v, choose.__name__) for v in values)


FUNCTIONS: dict[str, Function] = {
    "min": Function((2, 10), _extreme(min), "the smallest of some numbers"),
    "max": Function((2, 10), _extreme(max), "the largest of some numbers"),
    "round": Function(
        (1, 2), lambda v, d=0: _round(number(v, "round"), d), "to a whole number, or to some digits"
    ),
    "ceil": Function((1, 1), lambda v: math.ceil(number(v, "ceil")), "up to a whole number"),
    "floor": Function((1, 1), lambda v: math.floor(number(v, "floor")), "down to a whole number"),
    "int": Function((1, 1), int, "a number or text as a whole number"),
    "float": Function((1, 1), float, "a number or text as a number"),
    "str": Function((1, 1), as_text, "a value as text"),
}


def call(name: str, work: Callable[..., Value], values: list[Value]) -> Value:
    """Call one of `FUNCTIONS`; whatever its arguments do, the only error is a `TemplateError`."""
    try:
        result = work(*values)
    except TemplateError:
        raise
    except (ValueError, OverflowError, TypeError):
        raise TemplateError(f"{name}() cannot make anything of {listing(shown(v) for v in values)}") from None
    if isinstance(result, int | float):
        return result if isinstance(result, bool) else finite(result)
    return bounded(result)
