"""The answer in one or two sentences, and whether the question is decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from towtank.analysis import sentences
from towtank.analysis.contrasts import contrasts
from towtank.analysis.model import Comparison, TreatmentSummary
from towtank.design.plan import Plan
from towtank.store.run_record import Reason, RunRecord

MOST_CAUSES = 2
"""Reasons of invalid runs that are named where no run is valid."""
MOST_CONTRASTS = 3
"""More contrasts than this are counted, not told one by one."""


def is_decided(comparisons: Sequence[Comparison]) -> bool:
    """Whether every confirmatory comparison has a verdict other than undecided; without any, nothing is decided."""
    confirmatory = [c for c in comparisons if c.confirmatory]
    return bool(confirmatory) and all(c.verdict != "undecided" for c in confirmatory)


def headline(
    plan: Plan,
    treatments: Sequence[TreatmentSummary],
    comparisons: Sequence[Comparison],
    records: Sequence[RunRecord] = (),
) -> str:
    """Say the answer.

    Parameters
    ----------
    plan : Plan
    treatments : sequence of TreatmentSummary
    comparisons : sequence of Comparison
    records : sequence of RunRecord
        Says why there is no valid run, if there is none.

    Returns
    -------
    str
        Never claims more than the confirmatory verdicts; says so when there is nothing to claim.
    """
    if not any(t.n_valid for t in treatments):
        attempts = sum(t.n_invalid for t in treatments)
        spoiled = f"all {attempts} judged runs are invalid" if attempts else "no run is complete"
        return f"No answer: {spoiled}, so nothing can be said about the system.{_causes(records)}"
    collapse = _collapses(treatments)
    if len(treatments) == 1:
        return f"One treatment, {treatments[0].label}: there is nothing to compare it with.{collapse}"
    if plan.experiment.answer is None:
        return (
            "The experiment file declares no `answer`, so every comparison is exploratory and nothing is claimed."
            + collapse
        )
    labels = {t.treatment_id: t.label for t in treatments}
    told = []
    pairs = [contrast.key for contrast in contrasts(plan)]
    if not pairs:
        baseline = plan.experiment.answer.baseline
        return f"The baseline {baseline!r} leaves nothing to compare; nothing is claimed.{collapse}"
    for pair in pairs:
        family = [c for c in comparisons if c.confirmatory and (c.treatment_id, c.baseline_id) == pair]
        told.append((any(c.verdict != "undecided" for c in family), _pair(plan, family, labels)))
    return (_shortened(told) if len(told) > MOST_CONTRASTS else " ".join(text for _, text in told)) + collapse


def _shortened(told: Sequence[tuple[bool, str]]) -> str:
    """Tell the first that are decided, and count the rest."""
    decided = [text for known, text in told if known][:MOST_CONTRASTS]
    if not decided:
        every = f"none of {len(told)} contrasts can be told from chance"
        return f"Undecided: {every}; the table says what each would take."
    undecided = sum(not known for known, _ in told)
    more = f"{len(told) - len(decided)} more contrasts" + (
        f", {undecided} of them undecided" if undecided else ""
    )
    return " ".join((*decided, f"{more}, are in the table."))


def _pair(plan: Plan, family: Sequence[Comparison], labels: dict[str, str]) -> str:
    """One sentence about one contrast over all primary variables."""
    first = family[0]
    treatment, baseline = labels[first.treatment_id], labels[first.baseline_id]
    parts = []
    for word in ("better", "worse", "equivalent", "not worse", "undecided"):
        said = [c for c in family if c.verdict == word]
        if said:
            listed = _and([_evidence(plan, c) for c in said])
            parts.append(f"undecided in {listed}" if word == "undecided" else f"{word} in {listed}")
    relation = "against" if all(c.verdict == "undecided" for c in family) else "compared with"
    return f"{treatment} {relation} {baseline} is {_and(parts)}."


def _evidence(plan: Plan, comparison: Comparison) -> str:
    """Name of the variable with the size of the difference, where there is one."""
    described = plan.experiment.variable(comparison.variable)
    name = sentences.noun(described)
    if comparison.verdict == "undecided" or comparison.estimate is None:
        return name
    low, high = comparison.low, comparison.high
    if comparison.scale == "log":
        size = f"{sentences.ratio(comparison.estimate)} ×"
        bounds = f", {sentences.ratio(low)}–{sentences.ratio(high)}" if low and high else ""
        return f"{name} ({size}{bounds})"
    size = sentences.share_points(comparison.estimate)
    if low is None or high is None:
        return f"{name} ({size})"
    return f"{name} ({size}, {sentences.significant(low * 100)} to {sentences.significant(high * 100)})"


def _causes(records: Sequence[RunRecord]) -> str:
    """Name the commonest reasons of invalid runs, with what one of them says and what to do about the first."""
    grouped: dict[str, list[Reason]] = defaultdict(list)
    for record in records:
        if record.verdicts and record.verdicts.instrument == "invalid":
            for reason in record.verdicts.instrument_reasons:
                if reason.severe:
                    grouped[reason.name].append(reason)
    common = sorted(grouped.values(), key=len, reverse=True)[:MOST_CAUSES]
    if not common:
        return ""
    told = [f"{found[0].name.replace('_', ' ')} in {len(found)} ({found[0].message})" for found in common]
    advice = f" Advice: {common[0][0].advice}." if common[0][0].advice else ""
    return f" Commonest {'reason' if len(told) == 1 else 'reasons'}: {_and(told)}.{advice}"


def _collapses(treatments: Sequence[TreatmentSummary]) -> str:
    told = [
        f"{t.label} collapsed in {t.n_collapsed} of {t.n_valid} runs" for t in treatments if t.n_collapsed
    ]
    return f" {_and(told)}." if told else ""


def _and(parts: Sequence[str]) -> str:
    if len(parts) <= 1:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
