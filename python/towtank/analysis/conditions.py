"""Under which conditions the runs were made: what a claim rests on, whether or not anything went wrong.

Findings say what was noticed; this says what was so, from the plan and from the records of the runs that count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from towtank.analysis.contrasts import is_blocked
from towtank.analysis.data_states import DataState, data_state
from towtank.analysis.deployments import emulations, is_local, was_there_already
from towtank.analysis.model import Condition, RunSummary, TreatmentSummary
from towtank.design.dropped import NOT_RUN
from towtank.design.foreign import ForeignWorkload, is_imported
from towtank.design.model import TreatmentSpec
from towtank.design.plan import Plan, Treatment
from towtank.store.run_record import RunRecord

EDGE_FAULTS = frozenset({"delay", "drop", "abort", "partition"})
"""Kinds that act on the way from one component to another."""
_Said = tuple[str, str]
"""What was so, and what it means for claims; the latter is empty where it means nothing."""


def conditions(
    plan: Plan,
    counted: Sequence[RunRecord],
    runs: Sequence[RunSummary],
    treatments: Sequence[TreatmentSummary],
    deployments: Mapping[str, int],
) -> tuple[Condition, ...]:
    """Say how data, deployments, load, disturbances and order were, and what came of the runs.

    Parameters
    ----------
    plan : Plan
    counted : sequence of RunRecord
        Of the runs that enter numbers.
    runs : sequence of RunSummary
        Of all attempts.
    treatments : sequence of TreatmentSummary
    deployments : mapping of str to int
        Treatment id → how often it was deployed (`deployments.deployments_of`).
    """
    specs = plan.treatments
    return (
        *_grouped("data state", ((t.label, _DATA[data_state(t.spec)]) for t in specs), len(specs)),
        *_grouped("lifetime", ((t.label, _lifetime(t, deployments)) for t in specs), len(specs)),
        *_fixtures(specs),
        *_grouped("load generator", ((t.label, _generator(t.spec)) for t in specs), len(specs)),
        *_ways(counted),
        *_grouped("stand-ins", ((t.label, said) for t in specs for said in _stand_ins(t.spec)), len(specs)),
        *_proxy(specs),
        *_machines(counted),
        _order(plan),
        *_profile(plan),
        *_collapses(treatments),
        *_left_out(runs),
    )


def _grouped(topic: str, told: Iterable[tuple[str, _Said]], of: int) -> Iterator[Condition]:
    """One condition for all treatments of which the same is said; none named where it is said of all."""
    found: dict[_Said, list[str]] = defaultdict(list)
    for label, said in told:
        found[said].append(label)
    for (what, weakens), labels in found.items():
        yield Condition(topic, what, weakens, () if len(labels) == of else tuple(labels))


_CARRIED = ("not reset: a run starts where the one before it ended", "a run may depend on those before it")
_DATA: dict[DataState, _Said] = {
    "imported": ("not known: the runs were imported", "a run may depend on those before it"),
    "fresh": (
        "as the deployment brings it, anew for every run",
        "data that live elsewhere are as the run before left them",
    ),
    "carried": _CARRIED,
    "there": _CARRIED,
    "copied": ("files copied anew before every run", ""),
    "verified": ("reset before every run, and verified", ""),
    "unverified": ("reset before every run, not verified", "that the reset worked is taken on trust"),
}


_DEPLOYED = {
    "per-run": "deployed anew for every run",
    "per-block": "deployed anew for every block",
    "once": "deployed once, for all runs",
}

_ONLY_THIS = "certainty is about this deployment only, not about another one made the same way"


def _lifetime(treatment: Treatment, deployments: Mapping[str, int]) -> _Said:
    spec = treatment.spec
    if is_imported(spec.workload):
        return "not known: the runs were imported", "certainty is about whatever was deployed"
    if was_there_already(spec):
        return "not deployed: it was there before, for all runs", _ONLY_THIS
    number = deployments.get(treatment.id)
    times = f" ({number} {'time' if number == 1 else 'times'})" if number else ""
    once = spec.deploy == "once" or number == 1
    return (
        f"{_DEPLOYED[spec.deploy]}{times}",
        _ONLY_THIS if once else "",
    )


def _profile(plan: Plan) -> Iterator[Condition]:
    """What the profile left out of the file, in the plan's words."""
    for note in plan.notes:
        if note.startswith(NOT_RUN):
            yield Condition("profile", note, "nothing is said of what was left out")


def _fixtures(treatments: Sequence[Treatment]) -> Iterator[Condition]:
    kept = {name: f.lifetime for t in treatments for name, f in t.spec.fixtures.items()}
    for lifetime in dict.fromkeys(kept.values()):
        names = ", ".join(name for name, of in kept.items() if of == lifetime)
        yield Condition(
            "lifetime",
            f"shared by the runs of {'a block' if lifetime == 'block' else 'the whole experiment'}: {names}",
            "what these keep is carried over from run to run",
        )


def _generator(spec: TreatmentSpec) -> _Said:
    if isinstance(spec.workload, ForeignWorkload):
        return (
            f"{spec.workload.driver}",
            "whether it kept up with its schedule is not known" if is_imported(spec.workload) else "",
        )
    generator = spec.generator
    workers = f"{generator.workers} {'worker' if generator.workers == 1 else 'workers'}"
    if generator.where == "cluster":
        return (
            f"{workers} in the cluster",
            "they share nodes with what they measure, unless a node selector keeps them apart",
        )
    if isinstance(generator.where, tuple):
        return (
            f"{workers} on {len(generator.where)} other {'machine' if len(generator.where) == 1 else 'machines'}",
            "",
        )
    if is_local(spec):
        return (
            f"{workers} on the machine of the deployment",
            "latencies are higher than with a machine of its own; differences between treatments are fair",
        )
    return f"{workers} on the machine that carried the experiment out", ""


_LATE_PODS = "pods that come while connections are open get nothing from them"
_WAYS: dict[str, _Said] = {
    "node_port": ("through a node port: connections are balanced, not requests", _LATE_PODS),
    "load_balancer": ("through a load balancer: connections are balanced, not requests", _LATE_PODS),
    "cluster_ip": ("to the Service's own address: connections are balanced, not requests", _LATE_PODS),
    "ingress": ("through an Ingress: its controller balances", "latencies contain that of the controller"),
    "gateway": ("through a Gateway: its controller balances", "latencies contain that of the controller"),
}
"""How requests got into a cluster, as records name it."""


def _ways(counted: Sequence[RunRecord]) -> Iterator[Condition]:
    told = {
        (record.treatment_label, _WAYS[instance["way"]]): None
        for record in counted
        for instance in record.deployment.get("instances") or ()
        if isinstance(instance, dict) and instance.get("way") in _WAYS
    }
    yield from _grouped("way in", told, len({record.treatment_label for record in counted}))


def _stand_ins(spec: TreatmentSpec) -> Iterator[_Said]:
    """What is not the thing itself: processes for a deployment, another tool's load, faults made on purpose."""
    if is_local(spec):
        yield (
            "processes of one machine stand for the deployment",
            "calls between its parts cross no network, and all share the machine's CPUs",
        )
    for emulated in emulations(spec):
        yield (
            f"an emulation of {emulated}, with processes of one machine as its instances",
            "decisions follow its published algorithm; its start times, network and delays are not measured",
        )
    kinds = sorted({f.kind for f in spec.faults if f.is_active})
    if kinds:
        yield (
            f"faults are made on purpose: {', '.join(kinds)}",
            "how often faults come by themselves is not measured",
        )


def _proxy(treatments: Sequence[Treatment]) -> Iterator[Condition]:
    if any(f.kind in EDGE_FAULTS for t in treatments for f in t.spec.faults):
        yield Condition(
            "stand-ins",
            "a proxy stands on the ways that some treatment disturbs, in all treatments",
            "latency on these ways contains the proxy's, in all treatments alike",
        )


def _machines(counted: Sequence[RunRecord]) -> Iterator[Condition]:
    known = [r.environment_digest for r in counted if r.environment_digest]
    lacking = len(counted) - len(known)
    if lacking:
        yield Condition(
            "environment",
            "not known: no run says on which machine and with which versions it was made"
            if not known
            else f"not known of {lacking} of {len(counted)} runs",
            "differences between environments may be in the numbers",
        )
    several = len(set(known)) > 1
    if several or (known and not lacking):
        yield Condition(
            "environment",
            f"{len(set(known))} different ones"
            if several
            else "the same machine, versions and engine for all runs",
            "differences between environments are in the numbers"
            if several
            else "certainty is about this environment",
        )


def _order(plan: Plan) -> Condition:
    if is_blocked(plan):
        return Condition("order", f"{plan.experiment.order.replace('-', ' ')}, seed {plan.experiment.seed}")
    return Condition(
        "order", "as listed", "whatever drifted with time looks like a difference between treatments"
    )


def _collapses(treatments: Sequence[TreatmentSummary]) -> Iterator[Condition]:
    fallen = [t for t in treatments if t.n_collapsed]
    for t in fallen:
        yield Condition(
            "collapses",
            f"in {t.n_collapsed} of {t.n_valid} runs",
            "its means are over runs that collapsed and runs that did not",
            (t.label,),
        )
    if treatments and not fallen and any(t.n_valid for t in treatments):
        yield Condition("collapses", "none")


def _left_out(runs: Sequence[RunSummary]) -> Iterator[Condition]:
    """What the instrument spoiled."""
    if not runs:
        return
    spoiled = sum(r.instrument == "invalid" for r in runs)
    cut_off = sum(r.instrument == "incomplete" for r in runs)
    suspect = sum(r.instrument == "suspect" for r in runs)
    counted = (
        (spoiled, "left out as invalid"),
        (cut_off, "cut off before they were judged"),
        (suspect, "kept although suspect"),
    )
    told = [f"{number} of {len(runs)} {what}" for number, what in counted if number]
    yield Condition(
        "instrument",
        " and ".join(told) or f"{len(runs)} of {len(runs)} attempts are valid",
        "the findings say why" if spoiled or suspect else "",
    )
