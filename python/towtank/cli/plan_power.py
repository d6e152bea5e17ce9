"""`towtank plan --power`: how many repetitions a difference needs, judged by runs made before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from towtank.analysis.planning import Need, Needs
    from towtank.design import Plan


def effect_of(text: str) -> float:
    """Read the value of ``--power``, such as 5%.

    Raises
    ------
    typer.BadParameter
    """
    from towtank.units import parse_ratio

    try:
        effect = parse_ratio(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--power") from error
    if not 0 < effect < 1:
        raise typer.BadParameter(
            f"{text} cannot be planned for; allowed is above 0% and below 100%", param_hint="--power"
        )
    return effect


def read_needs(file: Path, made: Plan, *, effect: float, pilot: Path | None) -> Needs:
    """Judge a plan by a pilot: its own results, or a folder that is given.

    Raises
    ------
    ResultsError
        There are none.
    """
    from towtank.analysis.planning import needs
    from towtank.errors import ResultsError
    from towtank.store import Results, locate

    try:
        results = Results.open(locate(pilot or file))
    except ResultsError as error:
        if pilot is not None:
            raise
        raise ResultsError(
            f"--power needs runs to judge by, and {file} has no results yet: {error.message}",
            hint="run a few blocks first, or name a folder of results with --pilot DIR",
        ) from error
    return needs(made, results, effect=effect)


def lines(found: Needs) -> list[str]:
    """What is said on the terminal."""
    from towtank.analysis.sentences import percent

    of = percent(found.effect)
    said = [f"to find a true difference of {of} with 80 % power, each interval at {100 * found.level:.4g} %:"]
    said += [f"  {_line(claim, found)}" for claim in found.claims]
    if found.safe is not None:
        verdict = "are enough" if found.planned >= found.safe else "are too few to be sure"
        said.append(
            f"  planned are {found.planned} blocks; {found.safe} are on the safe side, so they {verdict}"
        )
    return said


def _line(claim: Need, found: Needs) -> str:
    head = f"{claim.variable}, {claim.treatment} against {claim.baseline}: "
    if claim.sd is None:
        return f"{head}cannot be said: {claim.reason}"
    enough, safe = (_number(n, claim.unit) for n in (claim.enough, claim.safe))
    scatter = f"{100 * claim.sd:.2g} {'%' if claim.scale == 'log' else 'points'}"
    power = f"; {found.planned} find it with {100 * (claim.power or 0):.0f} % power"
    reason = f"; {claim.reason}" if claim.reason else ""
    return f"{head}{enough}, {safe} on the safe side (scatter {scatter} in {claim.n}){power}{reason}"


def _number(n: int | None, unit: str) -> str:
    return f"more than 10000 {unit}" if n is None else f"{n} {unit}"
