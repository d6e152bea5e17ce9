"""What a reader should know before believing a number: findings and threats to validity, each with advice.

Everything here is read from what was stored about the runs; nothing is measured again. Names are stable: docs and
reports refer to them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from towtank.analysis.contrasts import contrasts, is_blocked, shares_one_deployment_each
from towtank.analysis.data_states import DataState, data_state
from towtank.analysis.deployments import emulations, is_local, told
from towtank.analysis.engine_findings import EngineFinding, reported, runs_in_words
from towtank.analysis.fault_findings import of_faults
from towtank.analysis.model import Comparison, Finding, RunSummary, TreatmentSummary
from towtank.analysis.paired import PERMUTATION_FROM
from towtank.analysis.verdicts import GOODPUT_GUARD
from towtank.design.foreign import is_imported
from towtank.design.model import Adaptive, ClosedLoad
from towtank.design.plan import Plan
from towtank.store.run_record import Reason, RunRecord

FEW_BLOCKS = 6
"""With fewer blocks no exact 95 % interval of a median exists, and one odd block decides."""
ENOUGH_BLOCKS = 8
"""Repetitions that the advice about few ones asks for."""
IMBALANCE = 1.5
"""Busiest instance ÷ fairest share beyond which the spread of requests is worth a word."""
SEVERITY_ORDER = {"serious": 0, "warning": 1, "info": 2}


def findings(
    plan: Plan,
    records: Sequence[RunRecord],
    runs: Sequence[RunSummary],
    treatments: Sequence[TreatmentSummary],
    comparisons: Sequence[Comparison],
    *,
    said: Mapping[str, Sequence[EngineFinding]] | None = None,
    damage: Iterable[str] = (),
    deployments: Mapping[str, int] | None = None,
) -> tuple[Finding, ...]:
    """Collect findings, most serious first.

    Parameters
    ----------
    plan : Plan
    records : sequence of RunRecord
        Of all attempts.
    runs : sequence of RunSummary
        Of all attempts.
    treatments, comparisons : sequences
    said : mapping of str to sequence of EngineFinding, optional
        Run id → what the load engine reported in it.
    damage : iterable of str
        Files of the result folder that could not be read.
    deployments : mapping of str to int, optional
        Treatment id → how often it was deployed for the runs that count (`deployments.deployments_of`).
    """
    found = (
        *_damage(damage),
        *_coverage(plan, records, runs),
        *_instrument(records),
        *_system(treatments, records),
        *reported(said or {}),
        *of_faults(records, runs),
        *_deployments(records),
        *_spread(treatments),
        *_design(plan, treatments, deployments or {}),
        *_load(plan, records),
        *_claims(plan, comparisons),
    )
    return tuple(sorted(found, key=lambda f: SEVERITY_ORDER[f.severity]))


def _damage(damage: Iterable[str]) -> Iterator[Finding]:
    messages = list(damage)
    if messages:
        quoted = messages[0]
        yield Finding(
            "damaged_files",
            "serious",
            f"{len(messages)} run(s) could not be read: “{quoted}”.",
            "They count as missing. Restore them, or run the experiment again: it repeats what is missing.",
        )


def _coverage(plan: Plan, records: Sequence[RunRecord], runs: Sequence[RunSummary]) -> Iterator[Finding]:
    """Runs that are missing, cut off, or came from different environments."""
    cut = tuple(r.run_id for r in runs if r.instrument == "incomplete")
    if cut:
        quoted = _most_common(r.failure or "" for r in records if r.state != "complete")
        yield Finding(
            "interrupted_runs",
            "info" if any(r.state == "complete" for r in records) else "serious",
            f"{len(cut)} attempt(s) were cut off before they were judged, and count for nothing: “{quoted}”."
            if quoted
            else f"{len(cut)} attempt(s) were cut off before they were judged; they count for nothing.",
            "Nothing to do if they were repeated; else the same command resumes.",
            cut,
        )
    counting = {r.planned_id for r in records if r.verdicts and r.verdicts.instrument != "invalid"}
    counting &= {r.planned_id for r in records if r.state == "complete"}
    missing = [p.id for p in plan.runs if p.id not in counting]
    if missing:
        yield Finding(
            "missing_runs",
            "serious" if len(missing) * 5 > len(plan.runs) else "warning",
            f"{len(missing)} of {len(plan.runs)} planned runs have no valid attempt; their blocks are incomplete.",
            "Run the experiment again: it resumes and repeats what is missing.",
            tuple(missing),
        )
    environments = {r.environment_digest for r in records if r.environment_digest}
    if len(environments) > 1:
        yield Finding(
            "mixed_environments",
            "serious",
            f"The runs come from {len(environments)} different environments (host, versions or engine build).",
            "Compare the environments; start afresh with --force-new if they matter to the question.",
        )


def _instrument(records: Sequence[RunRecord]) -> Iterator[Finding]:
    """Reasons of the instrument axis, grouped by name and by whether the run was thrown away.

    What alone would have left a run suspect is no cause of its being thrown away, and touches no number then.
    """
    for verdict in ("suspect", "invalid"):
        grouped: dict[str, list[tuple[RunRecord, Reason]]] = defaultdict(list)
        for record in records:
            if record.verdicts and record.verdicts.instrument == verdict:
                for reason in record.verdicts.instrument_reasons:
                    if reason.severe or verdict == "suspect":
                        grouped[reason.name].append((record, reason))
        for name, cases in grouped.items():
            worst = max((reason for _, reason in cases), key=lambda r: abs(r.value or 0.0))
            kept = "kept, with care" if verdict == "suspect" else "left out of every number and repeated"
            told = f"{runs_in_words(len(cases))} {verdict} ({kept})"
            yield Finding(
                name,
                "warning",
                f"{told}; the worst of them: {worst.message}"
                if len(cases) > 1
                else f"{told}: {worst.message}",
                worst.advice or "See the run's reasons.",
                tuple(record.run_id for record, _ in cases),
            )


def _system(treatments: Sequence[TreatmentSummary], records: Sequence[RunRecord]) -> Iterator[Finding]:
    """Collapses and degradations: results of a treatment, never repeated away."""
    for treatment in treatments:
        own = [
            r for r in records
            if r.treatment_id == treatment.treatment_id and r.verdicts and r.verdicts.instrument != "invalid"
        ]  # fmt: skip
        for word, number, severity in (
            ("collapsed", treatment.n_collapsed, "serious"),
            ("degraded", treatment.n_degraded, "warning"),
        ):
            if not number:
                continue
            cases = [r for r in own if r.verdicts and r.verdicts.system == word]
            reasons = [reason for r in cases if r.verdicts for reason in r.verdicts.system_reasons]
            why = f": {_most_common(reason.message for reason in reasons)}" if reasons else ""
            yield Finding(
                word,
                "serious" if severity == "serious" else "warning",
                f"{treatment.label} {word} in {number} of {treatment.n_valid} runs{why}",
                _result(_most_common(reason.advice for reason in reasons)),
                tuple(r.run_id for r in cases),
            )


def _deployments(records: Sequence[RunRecord]) -> Iterator[Finding]:
    """Limits and priorities of a deployment that could not be applied."""
    refused: dict[tuple[str, str], set[str]] = defaultdict(set)
    runs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in records:
        for kind, said in _limits(record.deployment):
            key = (record.treatment_label, kind)
            refused[key].add(said)
            if record.run_id not in runs[key]:
                runs[key].append(record.run_id)
    for (label, kind), reasons in refused.items():
        yield Finding(
            "limit_not_applied",
            "serious",
            f"{kind} of {label} was asked for and not applied: {min(reasons)}",
            "What was measured is the deployment without it; `towtank doctor` says what this machine permits.",
            tuple(runs[label, kind]),
        )


def _limits(node: object) -> Iterator[tuple[str, str]]:
    """Walk a deployment's description for limits that were asked for and not applied."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "limits" and isinstance(value, Mapping):
                for kind, limit in value.items():
                    if isinstance(limit, Mapping) and limit.get("applied") is False:
                        yield str(kind), str(limit.get("note") or "no reason was given")
            else:
                yield from _limits(value)
    elif isinstance(node, list | tuple):
        for item in node:
            yield from _limits(item)


def _spread(treatments: Sequence[TreatmentSummary]) -> Iterator[Finding]:
    """Requests that did not spread evenly over instances."""
    for treatment in treatments:
        counts = treatment.instances
        if len(counts) < 2 or not sum(counts.values()):
            continue
        fair = sum(counts.values()) / len(counts)
        name, most = max(counts.items(), key=lambda item: item[1])
        if most > IMBALANCE * fair:
            yield Finding(
                "uneven_spread",
                "warning",
                f"{name} of {treatment.label} got {most / sum(counts.values()):.0%} of the requests; an even share "
                f"of {len(counts)} instances is {1 / len(counts):.0%}.",
                "Few connections spread unevenly, as behind kube-proxy; more connections or another "
                "generator.spread change that.",
            )


def _design(
    plan: Plan, treatments: Sequence[TreatmentSummary], deployments: Mapping[str, int]
) -> Iterator[Finding]:
    """Threats that were there before the first run."""
    fewest = min((t.n_valid for t in treatments), default=0)
    if len(treatments) > 1 and fewest < FEW_BLOCKS:
        yield Finding(
            "few_blocks",
            "warning",
            f"Some treatment has only {fewest} valid run(s); intervals are wide and rest on the shape of the data.",
            "Run the experiment again: it resumes and repeats the runs that are missing or invalid."
            if len({p.block for p in plan.runs}) >= ENOUGH_BLOCKS
            else f"Use {ENOUGH_BLOCKS} repetitions or more; from {PERMUTATION_FROM} blocks a permutation test checks "
            "every claim.",
        )
    if not is_blocked(plan) and len(treatments) > 1:
        yield Finding(
            "listed_order",
            "warning",
            "Runs were made in the listed order, so whatever drifted with time looks like a difference "
            "between treatments.",
            "If the files were measured in turn, import them with --paired; else measure again in turn."
            if any(is_imported(t.spec.workload) for t in plan.treatments)
            else "Use order: randomized-blocks.",
        )
    if plan.experiment.answer is None and len(treatments) > 1:
        yield Finding(
            "no_answer_declared",
            "info",
            "No `answer` is declared: all comparisons are exploratory.",
            "Declare answer.primary and answer.baseline before the next experiment, not after looking.",
        )
    for contrast in contrasts(plan):
        if shares_one_deployment_each(contrast):
            yield Finding(
                "one_deployment_each",
                "warning",
                f"{contrast.treatment.label} against {contrast.baseline.label}: {told(contrast, deployments)}, for all "
                "runs that count. Certainty is about these deployments only, no interval speaks of another deployment "
                "of them, and their runs lie apart in time.",
                "Use deploy: per-block or per-run if the claim is about the way of deploying.",
            )
    if any(is_imported(t.spec.workload) for t in plan.treatments):
        yield Finding(
            "imported",
            "warning",
            "These runs were imported: how they were deployed, in which order and data state they were made, and "
            "whether the machine and the load generator kept up is not known.",
            "Let Towtank carry the experiment out to have all that checked; driver: k6 or locust runs the same script.",
        )
    yield from _data_states(plan)
    adaptive = plan.experiment.repetitions
    if isinstance(adaptive, Adaptive) and fewest >= adaptive.at_most:
        yield Finding(
            "at_most_reached",
            "info",
            f"The number of blocks was cut at {adaptive.at_most}: intervals may be wider than asked for.",
            "Raise repetitions.at_most, or accept the width; the level of the interval is not touched.",
        )


_RESET = "Declare `reset`, so that every run starts from the same data."
_OF_DATA: dict[DataState, tuple[str, str]] = {
    "carried": (
        "Data are not reset and the deployment outlives a run, so a run starts where the one before it ended",
        _RESET,
    ),
    "there": (
        "Data are not reset and the deployment was there before, so a run starts where the one before it ended",
        _RESET,
    ),
    "fresh": (
        "Data are not reset before a run; only what the deployment keeps itself is new each time",
        "Declare `reset` if the deployment uses data that live elsewhere.",
    ),
    "unverified": (
        "The data state after `reset` is not verified",
        "Print what identifies it from the command, and declare reset.verify.",
    ),
}
"""What is told of a data state, and what to do; nothing of those that are as they should be."""


def _data_states(plan: Plan) -> Iterator[Finding]:
    for state, (message, advice) in _OF_DATA.items():
        labels = [t.label for t in plan.treatments if data_state(t.spec) == state]
        if labels:
            yield Finding("data_state", "info", f"{message} ({', '.join(labels)}).", advice)


def _load(plan: Plan, records: Sequence[RunRecord]) -> Iterator[Finding]:
    """How the load was made, and what follows for reading latencies."""
    closed = sorted(
        {
            name
            for t in plan.treatments
            for name, workload in t.spec.workloads.items()
            if isinstance(workload.load, ClosedLoad)
        }
    )
    if closed:
        yield Finding(
            "closed_loop",
            "info",
            f"The load of {', '.join(closed)} is closed: users wait for answers, so a slow system gets fewer requests "
            "and its latencies hide part of the waiting.",
            "Compare throughput beside latency; use an open load where arrivals do not wait for answers.",
        )
    cold = sorted(
        {
            name
            for t in plan.treatments
            for name, workload in t.spec.workloads.items()
            if workload.load.warmup == 0
        }
    )
    if cold:
        yield Finding(
            "no_warmup",
            "info",
            f"The workload {', '.join(cold)} has no warm-up: first connections and cold caches are in the numbers.",
            "Set load.warmup, unless the start is what is asked about.",
        )
    local = [t for t in plan.treatments if is_local(t.spec)]
    if local and any(t.spec.generator.where == "local" for t in local):
        yield Finding(
            "same_host",
            "info",
            "The load engine shares this machine with what it measures.",
            "Differences between treatments are fair; absolute latencies are higher than with a generator of its own.",
        )
    emulated = sorted({words for t in plan.treatments for words in emulations(t.spec)})
    if emulated:
        yield Finding(
            "emulated_autoscaler",
            "warning",
            f"The platform is an emulation: {', '.join(emulated)}, with processes of this machine as instances.",
            "Say so wherever these numbers are shown; measure the platform itself before anything is said of it.",
        )
    late = {r.run_id: lag for r in records if (lag := _lag_ms(r)) is not None and lag > 1.0}
    if late:
        run, worst = max(late.items(), key=lambda item: item[1])
        yield Finding(
            "engine_lag",
            "info",
            f"The engine picked requests up late by up to {worst:.3g} ms (p99 of lag, in {run}); latencies from the "
            "intended start contain it.",
            "Give the engine a core or priority (generator.cpus, generator.nice).",
            tuple(late),
        )


def _lag_ms(record: RunRecord) -> float | None:
    """99th percentile of the engine's own lag, ms."""
    for holder in (record.engine, record.engine.get("done")):
        own = holder.get("self") if isinstance(holder, Mapping) else None
        if isinstance(own, Mapping) and isinstance(own.get("lag_p99_us"), int | float):
            return float(own["lag_p99_us"]) / 1000
    return None


def _claims(plan: Plan, comparisons: Sequence[Comparison]) -> Iterator[Finding]:
    """Where a check disagrees with a claim, and where a ranking was refused."""
    answer = plan.experiment.answer
    if answer is None:
        return
    family = [c for c in comparisons if c.confirmatory]
    each = (1 - answer.confidence) / max(len(family), 1)
    labels = {t.id: t.label for t in plan.treatments}
    for claim in family:
        pair = f"{claim.variable} of {labels[claim.treatment_id]} against {labels[claim.baseline_id]}"
        for name, p in claim.checks.items():
            if claim.verdict in ("better", "worse") and p > each:
                yield Finding(
                    "check_disagrees",
                    "warning",
                    f"{pair}: the {name.replace('_', ' ')} check has p = {p:.2g} and does not confirm the claim alone "
                    f"(it would need {each:.2g}).",
                    "Read the claim with care; more blocks settle it.",
                )
        if "do not rank" in claim.reason:
            yield Finding(
                "ranking_refused",
                "warning",
                f"{pair}: {claim.reason} (the limit is {GOODPUT_GUARD:.0%}).",
                "Claim a percentile over all requests (without _ok), or goodput itself.",
            )


def _result(advice: str) -> str:
    """What a finding about the system means; of the reason's own advice only what it says beyond that."""
    known = "This is a result of the treatment and is part of every estimate"
    rest = advice.removeprefix("a result of this treatment")
    if rest.startswith(","):
        return f"{known}{rest}."
    rest = rest.lstrip(":; ")
    if not rest:
        return f"{known}."
    return f"{known}. {rest[0].upper()}{rest[1:]}" + ("" if rest.endswith((".", "?")) else ".")


def _most_common(messages: Iterable[str]) -> str:
    seen: dict[str, int] = defaultdict(int)
    for message in messages:
        if message:
            seen[message] += 1
    return max(seen, key=lambda m: seen[m]) if seen else ""
