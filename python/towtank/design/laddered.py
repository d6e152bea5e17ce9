"""A plan whose loads are replaced by the rungs of a ladder: what a search for capacities carries out.

Each treatment of the experiment becomes one treatment for each rung. All of them are known beforehand, so that a plan
is the same whenever it is made; runs are added one by one, as the search asks for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from towtank.design.foreign import ForeignWorkload
from towtank.design.model import ClosedLoad, OpenLoad, TreatmentSpec
from towtank.design.order import run_seed
from towtank.design.plan import Plan, PlannedRun, Treatment
from towtank.design.problems import Problem
from towtank.errors import DesignError
from towtank.units import format_number
from towtank.variables import COST_VARIABLES, DEMAND_VARIABLES, is_known

LOAD = "load"
"""Factor that the rungs are levels of."""
SUFFIX = "-capacity"
"""Of the experiment's name: a search is another experiment than the one whose file it takes."""


@dataclass(frozen=True)
class Laddered:
    """A plan over a ladder.

    Parameters
    ----------
    plan : Plan
        With the treatments of all rungs, and no runs yet.
    bases : tuple of Treatment
        As the file has them.
    rungs : mapping
        Id of a base → its loads, ascending.
    """

    plan: Plan
    bases: tuple[Treatment, ...]
    rungs: Mapping[str, Sequence[float]]

    def treatment_id(self, base: Treatment, rung: int) -> str:
        """Id of the treatment of one rung."""
        return _rung_id(base, self.rungs[base.id][rung])

    def place(self, treatment_id: str) -> tuple[str, int]:
        """Id of the base and number of the rung of a treatment.

        Raises
        ------
        KeyError
        """
        return self._places[treatment_id]

    @cached_property
    def _places(self) -> dict[str, tuple[str, int]]:
        """Id of the treatment of a rung → id of the base and number of the rung."""
        return {
            _rung_id(base, load): (base.id, number)
            for base in self.bases
            for number, load in enumerate(self.rungs[base.id])
        }

    def with_round(self, plan: Plan, wanted: Mapping[str, int]) -> Plan:
        """Add a block to a plan: for each base that is asked for, one run of one rung."""
        block = plan.blocks + 1
        more: list[PlannedRun] = []
        for base in self.bases:
            if base.id in wanted:
                name = self.treatment_id(base, wanted[base.id])
                seed = run_seed(plan.experiment.seed, block, name)
                more.append(PlannedRun(f"b{block:02d}-{name}", block, len(more) + 1, name, seed))
        return replace(plan, runs=(*plan.runs, *more))

    def only_visited(self, plan: Plan) -> Plan:
        """Leave out the treatments that have no run: what is stored and reported."""
        visited = {run.treatment_id for run in plan.runs}
        return replace(plan, treatments=tuple(t for t in plan.treatments if t.id in visited))


def laddered(plan: Plan, rungs: Mapping[str, Sequence[float]], *, rules: str) -> Laddered:
    """Put a ladder under each treatment of a plan.

    Parameters
    ----------
    plan : Plan
        What `check_ladderable` has nothing against.
    rungs : mapping
        Treatment id → loads, ascending.
    rules : str
        All else that the search goes by; part of the digest, since other rules are another search.
    """
    treatments: list[Treatment] = []
    for base in plan.treatments:
        for load in rungs[base.id]:
            treatments.append(
                Treatment(
                    _rung_id(base, load), len(treatments), {**base.levels, LOAD: _level(load)},
                    base.spec.model_copy(update={"workload": _at_load(base.spec, load)}),
                )
            )  # fmt: skip
    whole = "\n".join((plan.digest, rules, *(f"{name} {tuple(of)}" for name, of in sorted(rungs.items()))))
    experiment = plan.experiment.model_copy(
        update={
            "experiment": plan.experiment.experiment + SUFFIX,
            "answer": None,  # a search answers one question only, and by its own rule
            "repetitions": 1,
            "order": "listed",
        }
    )
    made = replace(
        plan, experiment=experiment, treatments=tuple(treatments), runs=(),
        digest=hashlib.sha256(whole.encode()).hexdigest(),
    )  # fmt: skip
    return Laddered(made, plan.treatments, rungs)


def declared_load(spec: TreatmentSpec) -> float:
    """Load that the file itself names; the search begins there."""
    load = spec.workload.load
    return float((load.rate if isinstance(load, OpenLoad) else getattr(load, "users", None)) or 0.0)


def check_ladderable(plan: Plan, file: str) -> None:
    """Say what keeps a plan from being searched.

    Raises
    ------
    DesignError
        With every problem.
    """
    found: dict[str, Problem] = {}
    for treatment in plan.treatments:
        for path, message, hint in _problems(treatment.spec):
            found.setdefault(f"{path} {message}", Problem(file, 1, 1, path, message, hint))
    if found:
        raise DesignError(tuple(found.values()))


def _problems(spec: TreatmentSpec) -> list[tuple[str, str, str]]:
    path = f"workloads.{spec.workload_name}.load"
    found = []
    if not spec.slo:
        found.append(("slo", "a capacity is the load at which objectives still hold, and the file has none",
                      "such as slo: {p95: 300ms, goodput: 99.9%}"))  # fmt: skip
    strange = [
        name for name in spec.slo if not is_known(name) or name in (*COST_VARIABLES, *DEMAND_VARIABLES)
    ]
    found += [(f"slo.{name}", "a search judges each run by its requests and telemetry alone, and leaves `answer` out",
               "bound what is known of every run, or run the experiment itself") for name in strange]  # fmt: skip
    if spec.beside:
        found.append(("factors.workload", f"{spec.drive!r} are driven side by side; a ladder has one load",
                      "choose one workload"))  # fmt: skip
    if isinstance(spec.workload, ForeignWorkload):
        found.append((path, "the load is made by another tool; only the engine's own can be varied", ""))
        return found
    load = spec.workload.load
    if isinstance(load, OpenLoad):
        constant = load.rate is not None and load.max_arrivals is None
    else:
        constant = load.users is not None and load.iterations is None and load.iterations_per_user is None
    if not constant or load.duration is None:
        found.append((path, "a ladder needs a constant load that lasts for a time: `rate` or `users` with `duration`",
                      "stages, traces and stops by count are for other questions"))  # fmt: skip
    return found


def _at_load(spec: TreatmentSpec, load: float) -> object:
    """Make the workload with another load; users come in the same time as in the file."""
    workload = spec.workload
    before = workload.load
    if isinstance(before, OpenLoad):
        changed: OpenLoad | ClosedLoad = before.model_copy(update={"rate": load})
    elif isinstance(before, ClosedLoad):
        spawn = before.spawn_per_s
        faster = None if spawn is None else spawn * load / (before.users or load)
        changed = before.model_copy(update={"users": round(load), "spawn_per_s": faster})
    else:
        raise TypeError(f"{before!r} is no load of the engine: check_ladderable refuses it")
    return workload.model_copy(update={"load": changed})


def _level(load: float) -> int | float:
    return int(load) if load == int(load) else load


def _rung_id(base: Treatment, load: float) -> str:
    return f"{base.id}-{LOAD}-{_level(load)}"


def load_words(load: float, unit: str) -> str:
    """Say a load: ``410 users``."""
    return f"{format_number(load, digits=4)} {unit}"
