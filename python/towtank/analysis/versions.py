"""Two results of one experiment, made at different times: what became better or worse from one version to the next.

Runs of two sessions share no block, whatever their numbers say: they are independent samples. And each session is one:
what differs between the two besides the version (time of day, a machine's neighbours, a new deployment) is in every
difference, and more runs do not take it out. It is the whole-plot error of a split-plot design with one plot a side, so
that it cannot be told from the version; the caution says so wherever claims are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from towtank.analysis.comparison import Compared, Rules, confirmatory, exploratory
from towtank.analysis.differences import between_samples
from towtank.analysis.model import Comparison, Quantity
from towtank.analysis.session import Session, read_session
from towtank.analysis.steady_state import CommonStart, common_start
from towtank.analysis.summaries import STANDARD_VARIABLES
from towtank.analysis.verdicts import goodput_guard
from towtank.design.digest import difference
from towtank.design.plan import Plan, Treatment
from towtank.errors import ResultsError
from towtank.store import Results

MAY_DIFFER = ("deployment", "fixtures", "observe", "slo", "seed", "repetitions", "experiment")
"""Of the design: what makes a version, how often it is run, and what is looked at besides."""
CAUTION = (
    "Each side is one session: what else differed between them (time, machine, neighbours, a new deployment) cannot be "
    "told from the version, and more runs do not change that. To be sure, run the two versions as treatments of one "
    "experiment."
)


@dataclass(frozen=True)
class Version:
    """One treatment in one of two results."""

    id: str
    label: str


@dataclass(frozen=True)
class Versions:
    """A treatment, new against old."""

    treatment: Version
    baseline: Version


@dataclass(frozen=True)
class Regressions:
    """What differs between two results.

    Parameters
    ----------
    claims : tuple of Comparison
        The family: primary variables × treatments. Ratios are new ÷ old. `baseline_id` equals `treatment_id`.
    explored : tuple of Comparison
        All other variables, without verdict words.
    notes : tuple of str
        What a reader must know: lost runs, mixed environments, nothing declared.
    labels : dict of str to str
        Treatment id → how it is called.
    """

    experiment: str
    claims: tuple[Comparison, ...]
    explored: tuple[Comparison, ...]
    notes: tuple[str, ...]
    labels: dict[str, str]
    caution: str = CAUTION

    @property
    def worse(self) -> tuple[Comparison, ...]:
        """Claims that something became worse."""
        return tuple(c for c in self.claims if c.verdict == "worse")

    @property
    def decided(self) -> bool:
        """Whether every claim has a verdict; without any, nothing is decided."""
        return bool(self.claims) and all(c.verdict != "undecided" for c in self.claims)


def regressions(old: Results, new: Results) -> Regressions:
    """Compare a result with an older one of the same design.

    Parameters
    ----------
    old, new : Results

    Returns
    -------
    Regressions

    Raises
    ------
    ResultsError
        They are one folder, their designs differ (each difference is a line), or a side has no valid run.
    """
    refuse_incomparable(old, new)
    start = common_start((old, new))
    before, after = read_session(old, start.start_us), read_session(new, start.start_us)
    for results, session in ((old, before), (new, after)):
        if not session.runs:
            spoiled = sum(session.attempts.values())
            why = f"all {spoiled} attempts are invalid or incomplete" if spoiled else "there are none"
            raise ResultsError(
                f"{results.path} has no valid run to compare: {why}",
                hint="towtank report says why runs are invalid; towtank run repeats them",
            )
    plan = new.plan
    answer = plan.experiment.answer
    rules = Rules.of(plan)
    primary = answer.primary if answer else ()
    level = 1 - (1 - rules.confidence) / max(len(primary) * len(plan.treatments), 1)
    names = dict.fromkeys((*STANDARD_VARIABLES, *before.values, *after.values))
    explored = tuple(name for name in names if name not in primary)
    family = _compared(plan, rules, primary, before, after, level=level)
    table = _compared(plan, rules, explored, before, after, level=rules.confidence)
    known = [c for c in table if c.difference.n]  # what neither side measured is no row
    return Regressions(
        experiment=plan.experiment.experiment,
        claims=tuple(confirmatory(rules, family, level=level)),
        explored=tuple(exploratory(rules, known)),
        notes=(
            *_declared(answer is not None),
            *_damaged(old, new),
            *_lost(plan, before, after),
            *_mixed(before, after),
            *begun(start),
        ),
        labels={treatment.id: treatment.label for treatment in plan.treatments},
    )


def refuse_incomparable(old: Results, new: Results) -> None:
    """Refuse results whose designs differ in more than what makes a version.

    Raises
    ------
    ResultsError
        With a line for each difference.
    """
    if old.path == new.path:
        raise ResultsError(f"{old.path} cannot be compared with itself", hint="name an older result first")
    lines = difference(old.plan, new.plan, leave_out=MAY_DIFFER)
    profiles = [results.plan.experiment.profile or "none" for results in (old, new)]
    if lines and profiles[0] != profiles[1]:
        lines = [f"profile: {profiles[0]} → {profiles[1]}, and what it changes:", *lines]
    if lines:
        shown = "\n".join(f"  {line}" for line in lines)
        raise ResultsError(
            f"{old.path} and {new.path} are not comparable: their designs differ (old → new)\n{shown}",
            hint="compare results of one design; only the deployments, the number of repetitions, the seed, what is "
            "observed and the objectives may differ",
        )


def _compared(
    plan: Plan, rules: Rules, names: tuple[str, ...], before: Session, after: Session, *, level: float
) -> list[Compared]:
    found: list[Compared] = []
    nothing: Mapping[int, Quantity] = {}
    for name in names:
        described = plan.experiment.variable(name)
        for treatment in plan.treatments:
            sides = [s.values.get(name, {}).get(treatment.id, nothing) for s in (after, before)]
            rng = np.random.default_rng([rules.seed, len(found)])
            result = between_samples(described, *sides, confidence=level, rng=rng)
            goodput = (s.values.get("goodput", {}).get(treatment.id, nothing) for s in (after, before))
            guard = goodput_guard(*goodput) if described.successes_only else ""
            found.append(Compared(_pair(treatment), described, result, guard, blocked=False))
    return found


def _pair(treatment: Treatment) -> Versions:
    new = Version(treatment.id, f"{treatment.label} (new)")
    return Versions(new, Version(treatment.id, f"{treatment.label} (old)"))


def _declared(declared: bool) -> list[str]:  # noqa: FBT001 - the one thing that is asked
    if declared:
        return []
    return [
        "The experiment file declares no `answer`, so every comparison is exploratory and nothing is claimed."
    ]


def _damaged(old: Results, new: Results) -> list[str]:
    return [
        f"{len(results.damage)} run(s) of the {side} result could not be read and count as missing: {results.damage[0]}"
        for side, results in (("old", old), ("new", new))
        if results.damage
    ]


def _lost(plan: Plan, before: Session, after: Session) -> list[str]:
    """Treatments of which a side has no run, or only one, and those that collapsed."""
    told = []
    for treatment in plan.treatments:
        for side, session in (("old", before), ("new", after)):
            runs, attempts = session.runs.get(treatment.id, 0), session.attempts.get(treatment.id, 0)
            where = f"{treatment.label} ({side})"
            if not runs:
                spoiled = (
                    f"all {attempts} attempts are invalid or incomplete" if attempts else "it was never run"
                )
                told.append(f"{where} has no valid run: {spoiled}; nothing can be said about it.")
            elif runs == 1:
                told.append(
                    f"{where} has one valid run: its variation is unknown, so nothing is claimed about it."
                )
            if session.collapsed.get(treatment.id):
                told.append(f"{where} collapsed in {session.collapsed[treatment.id]} of {runs} runs.")
    return told


def begun(start: CommonStart) -> list[str]:
    """Say where windows begin, or why they begin as declared although they should not."""
    if start.refused:
        return [f"`steady_state` left nothing out of any side: {start.refused}, and all must begin alike."]
    if start.start_us is None:
        return []
    return [
        f"Measured windows of all sides begin at {start.start_us / 1e6:g} s: p95 is steady only then, by MSER-5."
    ]


def _mixed(before: Session, after: Session) -> list[str]:
    return [
        f"The runs of the {side} result come from {len(session.environments)} different environments "
        "(host, versions or engine build)."
        for side, session in (("old", before), ("new", after))
        if len(session.environments) > 1
    ]
