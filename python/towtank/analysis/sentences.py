"""Findings in plain English that a person can quote: size, interval, evidence, word.

Numbers inside are logs, shares and seconds; here they become "0.62 ×", "1.2 points" and "38 % lower".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from towtank.units import format_bytes, format_duration, format_number

if TYPE_CHECKING:
    from towtank.analysis.differences import Difference
    from towtank.analysis.model import VerdictWord
    from towtank.variables import Variable

_NOUNS = {
    "CPU": "CPU use",
    "memory": "memory use",
    "fastest": "fastest answer",
    "slowest": "slowest request",
    "requests": "number of requests",
    "received": "rate of received data",
    "sent": "rate of sent data",
}


def noun(described: Variable) -> str:
    """Name of a variable as a noun that can be had: "CPU use"."""
    return _NOUNS.get(described.title, described.title)


def difference_sentence(
    described: Variable,
    difference: Difference,
    *,
    treatment: str,
    baseline: str,
    evidence: str,
    unit: str,
    ending: str,
) -> str:
    """Say one comparison.

    Parameters
    ----------
    described : Variable
    difference : Difference
    treatment, baseline : str
        Labels.
    evidence : str
        Kind of interval, such as "95 % simultaneous interval"; and after a bar the p-value: "… | Holm p = 0.002".
    unit : str
        What n counts: "blocks", or "runs a side".
    ending : str
        What follows the bracket: ": better", "; undecided …".
    """
    interval_name, _, p_text = evidence.partition("|")
    facts = []
    shown = interval(described, difference)
    if shown:
        facts.append(f"{interval_name.strip()} {shown}")
    by_signs = difference.estimate is None and difference.signs is not None and difference.direction != 0
    if not by_signs:
        sides = difference.sides
        facts.append(
            count(difference.n, unit) if sides is None else f"{count(sides[0], 'runs')} against {sides[1]}"
        )
    if p_text.strip():
        facts.append(p_text.strip())
    what = noun(described)
    if difference.estimate is None:
        claim = _ranked(what[0].upper() + what[1:], treatment, baseline, difference)
        if by_signs and difference.signs is not None:
            claim = f"{claim} in {max(difference.signs)} of {count(difference.n, unit)}"
        bracket = f" ({'; '.join(facts)})" if facts else ""
        return f"{claim}{bracket}{ending}."
    article = "an" if what[0].lower() in "aeiou" else "a"
    if described.scale == "log":
        times = math.exp(difference.estimate)
        if times == 1:
            return f"{treatment} has the same {what} as {baseline} ({'; '.join(facts)}){ending}."
        size = f"{ratio(times)} × that of {baseline} ({_change(times)}; {'; '.join(facts)})"
        return f"{treatment} has {article} {what} of {size}{ending}."
    if difference.estimate == 0:
        return f"{treatment} has the same {what} as {baseline} ({'; '.join(facts)}){ending}."
    word = "higher" if difference.estimate > 0 else "lower"
    amount = f"{share_points(abs(difference.estimate))} {word}"
    return f"{treatment} has {article} {what} {amount} than {baseline} ({'; '.join(facts)}){ending}."


def interval(described: Variable, difference: Difference) -> str:
    """Interval as text: "0.51–0.75", or "−2 to 0.4 points"; empty when there is none."""
    if difference.interval is None:
        return ""
    low, high = difference.interval.low, difference.interval.high
    if described.scale == "log":
        if math.isinf(low) and math.isinf(high):
            return ""
        if math.isinf(high):
            return f"above {ratio(math.exp(low))}"
        if math.isinf(low):
            return f"below {ratio(math.exp(high))}"
        return f"{ratio(math.exp(low))}–{ratio(math.exp(high))}"
    return f"{significant(low * 100)} to {significant(high * 100)} points"


def p_value(p: float, *, name: str) -> str:
    """Show a p-value: "Holm p = 0.002"."""
    return f"{name} < 0.001" if p < 0.001 else f"{name} = {significant(p, digits=2)}"


def count(n: int, unit: str) -> str:
    """Show a number of blocks or runs: "8 blocks", "1 block"."""
    if n == 1:
        first, _, rest = unit.partition(" ")
        return f"1 {first.removesuffix('s')}{' ' + rest if rest else ''}"
    return f"{n} {unit}"


def failure(quoted: str) -> str:
    """Say why a run failed: the message of an error as it was printed, quoted, since no report translates those."""
    return f"the run failed: “{quoted}”"


def significant(value: float, *, digits: int = 3) -> str:
    """Show a number with significant digits, a true minus and no exponent."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}".replace(",", "\u202f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text.replace("-", "−")


def ratio(value: float) -> str:
    """Show a ratio: three significant digits, and more near 1, where the distance from 1 is what matters."""
    near = abs(value - 1)
    if near >= 0.1 or near == 0:
        return significant(value)
    decimals = min(5, max(3, 1 - math.floor(math.log10(near))))
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".")


def value(described: Variable, number: float) -> str:
    """Show a value with its unit: "12.3 ms", "100 %"."""
    match described.unit:
        case "s":
            return format_duration(number)
        case "ratio":
            return percent(number)
        case "bytes" | "bytes_per_s":
            return format_bytes(number) + ("/s" if described.unit == "bytes_per_s" else "")
        case "per_s":
            return f"{format_number(number)}/s"
        case "cores":
            return f"{format_number(number)} cores"
        case _:
            return format_number(number)


def percent(ratio: float) -> str:
    """Show a share as a percentage: "5 %"."""
    return f"{significant(ratio * 100)} %"


def share_points(difference: float) -> str:
    """Show a difference of shares: "1 point", "1.2 points"."""
    text = significant(difference * 100)
    return f"{text} {'point' if text == '1' else 'points'}"


def verdict_ending(
    verdict: VerdictWord, *, matters: float, described: Variable, certain: bool, planned: str
) -> str:
    """What follows the bracket of a confirmatory sentence.

    Parameters
    ----------
    verdict : VerdictWord
    matters : float
        Smallest difference worth acting on, a share of the ratio or points of a share.
    described : Variable
    certain : bool
        The difference is statistically certain, however small.
    planned : str
        What an undecided comparison would need, or why it cannot be decided; may be empty.
    """
    if verdict == "equivalent":
        margin = percent(matters) if described.scale == "log" else share_points(matters)
        small = ", a certain difference but smaller than what matters" if certain else ""
        return f": equivalent within {margin}{small}"
    if verdict == "not worse":
        margin = percent(matters) if described.scale == "log" else share_points(matters)
        return f": not worse by {margin} or more"
    if verdict == "undecided":
        return f": undecided{'; ' + planned if planned else ''}"
    return f": {verdict}"


def _change(times: float) -> str:
    if times >= 2:
        return f"{significant((times - 1) * 100, digits=2)} % higher"
    size = abs(times - 1) * 100
    return f"{significant(size, digits=2)} % {'higher' if times > 1 else 'lower'}"


def _ranked(what: str, treatment: str, baseline: str, difference: Difference) -> str:
    """Say on which side of another one lies; each way is a sentence of its own, for those who translate them."""
    if difference.direction == 0:
        return f"{what} of {treatment} cannot be told from that of {baseline}"
    if difference.signs is not None:
        if difference.direction > 0:
            return f"{what} of {treatment} is above that of {baseline}"
        return f"{what} of {treatment} is below that of {baseline}"
    if difference.direction > 0:
        return f"{what} of {treatment} is mostly above that of {baseline}"
    return f"{what} of {treatment} is mostly below that of {baseline}"
