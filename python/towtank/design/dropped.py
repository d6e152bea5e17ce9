"""What a profile leaves out of the whole file: plan and report say it, so that nobody takes a part for all."""

from __future__ import annotations

from collections.abc import Sequence

from towtank.design.factors import Combination, Levels, combinations, level_key, read_factors
from towtank.design.operations import as_text
from towtank.design.problems import Problems
from towtank.design.tree import Mapping

NOT_RUN = "not run in this profile"
"""How the sentence begins, in `Plan.notes`."""


def not_run(whole: Mapping, kept: Sequence[Levels]) -> str:
    """Say which treatments of the file a profile does not have.

    Parameters
    ----------
    whole : Mapping
        The file without any profile.
    kept : sequence of Levels
        Of the treatments that are there with it.

    Returns
    -------
    str
        Levels of which none is left, then the number of other combinations; empty when nothing is left out.
    """
    problems = Problems()  # what is wrong with the file itself is said where it is read
    all_of_it = combinations(whole, read_factors(whole, problems), problems)
    there = {level_key(levels) for levels in kept}
    left_out = [one for one in all_of_it if level_key(one.levels) not in there]
    if not left_out:
        return ""
    gone = _gone(all_of_it, kept)
    named = [f"{factor} {', '.join(levels)}" for factor, levels in gone.items()]
    others = sum(not _has(one.levels, gone) for one in left_out)
    if others:
        named.append("1 other combination" if others == 1 else f"{others} other combinations")
    some, whole_file, which = len(left_out), len(all_of_it), "; ".join(named)
    return f"not run in this profile: {some} of the file's {whole_file} treatments ({which})"


def _gone(all_of_it: Sequence[Combination], kept: Sequence[Levels]) -> dict[str, list[str]]:
    """Factor → its levels that no treatment of the profile has, in the order of the file."""
    found: dict[str, list[str]] = {}
    for factor in all_of_it[0].levels:
        still = {as_text(levels[factor]) for levels in kept if factor in levels}
        listed = dict.fromkeys(as_text(one.levels[factor]) for one in all_of_it)
        if gone := [level for level in listed if level not in still]:
            found[factor] = gone
    return found


def _has(levels: Levels, gone: dict[str, list[str]]) -> bool:
    return any(as_text(levels[factor]) in texts for factor, texts in gone.items())
