"""Numbers as the report shows them: sensible digits, units, and a reason where nothing can be said."""

from __future__ import annotations

import math
from collections.abc import Iterable

from towtank.analysis.model import Comparison, Estimate, ExperimentAnalysis, Quantity
from towtank.report.model import Cell, Tone
from towtank.report.text import clean
from towtank.units import format_bytes, format_duration, format_number
from towtank.variables import Variable, own_variable, variable

NOTHING = "–"
MINUS = "\u2212"
VERDICT_TONE: dict[str, Tone] = {
    "better": "good",
    "worse": "bad",
    "equivalent": "same",
    "not worse": "good",
    "undecided": "unsure",
}
VERDICT_SIGN = {"better": "✓", "worse": "✗", "equivalent": "≈", "not worse": "≥", "undecided": "?"}


def known(name: str) -> Variable:
    """Look a response variable up by its name alone: enough to show a value of it.

    One of the experiment's own has the unit that its name ends in; `naming.Names.variable` also knows which way is
    better.
    """
    try:
        return variable(name)
    except KeyError:
        return own_variable(name, "lower")


def show(var: Variable, value: float, *, digits: int = 3) -> str:
    """Show a value of a response variable with its unit.

    >>> show(variable("p95"), 0.01234)
    '12.3 ms'
    >>> show(variable("goodput"), 0.9991)
    '99.91 %'
    """
    match var.unit:
        case "s":
            text = format_duration(value, digits=digits)
        case "ratio":
            text = share(value)
        case "bytes":
            text = format_bytes(value, digits=digits)
        case "bytes_per_s":
            text = f"{format_bytes(value, digits=digits)}/s"
        case "cores":
            text = f"{format_number(value, digits=digits)} cores"
        case "per_s":
            text = f"{format_number(value, digits=digits)} /s"
        case _:
            text = format_number(value, digits=digits)
    return text.replace("-", MINUS)


def between(var: Variable, values: Iterable[float]) -> str:
    """Show the least and the greatest of some values, or the one that all are to three digits.

    >>> between(variable("p95"), [0.5, 2.0, 0.5])
    '500 ms to 2 s'
    >>> between(variable("p95"), [0.5, 0.5000001])
    '500 ms'
    """
    kept = list(values)
    ends = [show(var, value) for value in (min(kept), max(kept))]
    return " to ".join(dict.fromkeys(ends))


def share(ratio: float) -> str:
    """Show a share in per cent, with more digits the nearer it is to 0 or 100 %; never rounded to certainty.

    >>> share(0.9991), share(0.5), share(1.0), share(0.999999)
    ('99.91 %', '50 %', '100 %', '> 99.99 %')
    """
    if math.isnan(ratio):
        return NOTHING
    percent = ratio * 100
    if percent in (0.0, 100.0):
        return f"{percent:.0f} %"
    gap = min(abs(percent), abs(100 - percent))
    if gap < 0.01 and 0 < percent < 100:
        return "< 0.01 %" if percent < 50 else "> 99.99 %"
    text = f"{percent:.{2 if gap < 1 else 1}f}"
    return (text.rstrip("0").rstrip(".") + " %").replace("-", MINUS)


def quantity(var: Variable, found: Quantity | None) -> Cell:
    """Show one run's value: a censored one as ``> 5 s``, an unknown one as a dash with its reason."""
    if found is None or found.value is None or math.isnan(found.value):
        return Cell(
            NOTHING, note=clean(found.reason) if found and found.reason else "not measured", tone="muted"
        )
    if found.above:
        return Cell(f"> {show(var, found.value)}", sort=math.inf, tone="bad")
    return Cell(show(var, found.value), sort=found.value)


def estimate(found: Estimate | None) -> Cell:
    """Show a treatment's mean with its interval below it."""
    if found is None:
        return Cell(NOTHING, note="not measured", tone="muted")
    var = known(found.variable)
    if found.mean is None or math.isnan(found.mean):
        return Cell(NOTHING, note=clean(found.reason) or "no valid run", tone="muted")
    if found.above:
        return Cell(f"> {show(var, found.mean)}", note=clean(found.reason), sort=math.inf, tone="bad")
    if found.method == "constant":
        return Cell(show(var, found.mean), detail="in every run", sort=found.mean)
    return Cell(
        show(var, found.mean),
        note="" if found.low is not None else clean(found.reason) or "one run: no interval",
        detail=interval(var, found.low, found.high),
        sort=found.mean,
    )


def interval(var: Variable, low: float | None, high: float | None) -> str:
    """Show an interval in the unit of its variable; it is cut at the values that the variable can take."""
    if low is None or high is None:
        return ""
    low, high = max(0.0, low), min(1.0, high) if var.unit == "ratio" else high
    a, b = show(var, low), show(var, high)
    if a == b:
        return f"± {show(var, (high - low) / 2, digits=1)}"
    number, _, unit = a.rpartition(" ")
    # "12.1–13.4 ms" reads better than "12.1 ms – 13.4 ms", where both have the same single unit
    same = number and unit == b.rpartition(" ")[2] and a.count(" ") == b.count(" ") == 1
    return f"{number}–{b}" if same else f"{a} – {b}"


def effect(comparison: Comparison, value: float) -> str:
    """Show a ratio as a change (``−38 %``, or ``× 6.9`` above double) or a difference of shares in points.

    The ends of an interval are shown in the form of its estimate, so that all three read alike.
    """
    if comparison.scale == "difference":
        return f"{_signed(value * 100)} points"
    around = next((v for v in (comparison.estimate, comparison.low, comparison.high) if v is not None), value)
    if around > 2:
        return f"× {format_number(value)}"
    return f"{_signed((value - 1) * 100)} %"


def _signed(number: float) -> str:
    """One decimal, two significant digits below one; a sign always."""
    if number == 0:
        return "±0"
    text = f"{abs(number):.1f}" if abs(number) >= 1 else f"{abs(number):.2g}"
    if "e" in text:
        return "±0"
    return f"{'+' if number > 0 else MINUS}{text}"


def effect_interval(comparison: Comparison) -> str:
    """Both ends of a comparison's interval in the form of its effect; an open end is said in words."""
    low, high = comparison.low, comparison.high
    if low is None and high is None:
        return ""
    if low is None and high is not None:
        return f"below {effect(comparison, high)}"
    if high is None and low is not None:
        return f"above {effect(comparison, low)}"
    a, b = (effect(comparison, v) for v in (low, high) if v is not None)
    unit = " points" if comparison.scale == "difference" else " %"
    return f"{a.removesuffix(unit)} … {b}" if a.endswith(unit) else f"{a} … {b}"


def size(comparison: Comparison) -> str:
    """Effect of a comparison, or the side on which it lies where only that is known; empty when nothing is."""
    if comparison.estimate is not None:
        return effect(comparison, comparison.estimate)
    return effect_interval(comparison)


def p_value(p: float | None) -> str:
    """Show a p-value with two significant digits; below a thousandth only that it is."""
    if p is None or math.isnan(p):
        return NOTHING
    return "< 0.001" if p < 0.001 else f"{p:.2g}" if p < 0.995 else "1"


def confidence(level: float) -> str:
    """Show a confidence level: ``95 %``, ``98.75 %``."""
    return f"{level * 100:.2f}".rstrip("0").rstrip(".") + " %"


def count(number: int) -> str:
    """Show a count with thousands set apart."""
    return f"{number:,}".replace(",", "\u202f")


def verdict(word: str | None, *, fragile: bool = False) -> Cell:
    """Show a verdict word with its sign; exploratory comparisons carry none.

    Parameters
    ----------
    word : str or None
    fragile : bool
        It would not stand without the suspect runs.
    """
    if word is None:
        return Cell("exploratory", tone="muted")
    if fragile:
        return Cell(f"{VERDICT_SIGN[word]} {word}, but fragile", tone="unsure")
    return Cell(f"{VERDICT_SIGN[word]} {word}", tone=VERDICT_TONE[word])


def listed_confidence(analysis: ExperimentAnalysis) -> str:
    """Return the confidence level of the treatments' intervals, all of them if they differ."""
    levels = sorted({e.confidence for t in analysis.treatments for e in t.estimates.values()})
    return " / ".join(confidence(level) for level in levels) or confidence(0.95)
