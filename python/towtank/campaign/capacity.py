"""The search for capacities as a campaign: rounds of one run for each deployment, as the runs so far ask for them.

It is carried out by the same loop as any plan, so it is resumed, checked and cleaned up like one. What comes next is
worked out from the stored runs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from towtank import store
from towtank.analysis.capacity import Came, Rules, ask, capacity_of, make_search, outcome_of
from towtank.analysis.load_line import LoadLine, Search, Wanted, rung_of
from towtank.analysis.summaries import RunTables
from towtank.design.capacity_file import FILE_NAME, Capacity, CapacityFile
from towtank.design.laddered import Laddered, declared_load
from towtank.design.plan import Plan
from towtank.store import Results
from towtank.store.files import write_bytes


class Attempts(Protocol):
    """What is read of a result folder; `store.Results` fits."""

    def attempts(self, planned_id: str) -> Sequence[RunTables]:
        """All attempts of a planned run."""


@dataclass
class CapacitySearch:
    """One search of every deployment of a laddered plan.

    Parameters
    ----------
    laddered : Laddered
    rules : Rules
    tell : callable, optional
        Gets a line whenever a search ends.
    """

    laddered: Laddered
    rules: Rules
    tell: Callable[[str], None] | None = None
    _came: dict[str, Came] = field(default_factory=dict)
    """Planned run → how it came out; each is read once."""
    _ended: set[str] = field(default_factory=set)

    def first_plan(self) -> Plan:
        """Plan the first round: what each search asks for when nothing has been run."""
        wanted = {base.id: self._search(base.id).next(()) for base in self.laddered.bases}
        rungs = {name: one.rung for name, one in wanted.items() if isinstance(one, Wanted)}
        return self.laddered.with_round(self.laddered.plan, rungs)

    def extension(self, results: Results, plan: Plan) -> Plan | None:
        """Add the next round to the plan and store it; see `campaign.Extension`."""
        longer = self.next_plan(results, plan)
        if longer is not None:
            store.write_plan(results.path, self.laddered.only_visited(longer))
        return longer

    def next_plan(self, results: Attempts, plan: Plan) -> Plan | None:
        """Make the plan with the next round; None when every search is over or cannot go on."""
        rungs: dict[str, int] = {}
        for name, found in self.state(results, plan).items():
            if isinstance(found, Wanted):
                rungs[name] = found.rung
            elif found is not None and name not in self._ended:
                self._ended.add(name)
                if self.tell is not None:
                    self.tell(f"{name}: the search is over after {found.trials} runs")
        return self.laddered.with_round(plan, rungs) if rungs else None

    def state(self, results: Attempts, plan: Plan) -> Mapping[str, Wanted | LoadLine | None]:
        """Where each search is; None where a run of it stayed spoiled, so that it cannot go on yet."""
        found: dict[str, Wanted | LoadLine | None] = {}
        for base in self.laddered.bases:
            made: list[tuple[int, Came]] = []
            is_stuck = False
            for planned in plan.runs:
                name, rung = self.laddered.place(planned.treatment_id)
                if name != base.id:
                    continue
                came = self._outcome(results, planned.id, base.spec.slo)
                is_stuck = is_stuck or came is None
                if came is not None:
                    made.append((rung, came))
            found[base.id] = None if is_stuck else ask(self._search(base.id), made)[1]
        return found

    def capacities(self, results: Attempts, plan: Plan) -> tuple[Capacity, ...]:
        """Put together what the searches that are over found."""
        state = self.state(results, plan)
        return tuple(
            capacity_of(base, self.laddered.rungs[base.id], line, self.rules)
            for base in self.laddered.bases
            if isinstance(line := state[base.id], LoadLine)
        )

    def _search(self, name: str) -> Search:
        base = next(one for one in self.laddered.bases if one.id == name)
        rungs = self.laddered.rungs[name]
        return make_search(len(rungs), rung_of(rungs, declared_load(base.spec)), self.rules)

    def _outcome(self, results: Attempts, planned_id: str, slo: dict[str, float]) -> Came | None:
        """How a planned run came out: its attempt that counts, or that the generator ended in every one."""
        if planned_id in self._came:
            return self._came[planned_id]
        outcomes = [outcome_of(run, slo) for run in results.attempts(planned_id)]
        known = [one for one in outcomes if one is not None]
        counting = [one for one in known if one.outcome != "generator"]
        came = counting[-1] if counting else (known[-1] if known else None)
        if counting:  # an attempt that the generator spoiled may still be followed by one that counts
            self._came[planned_id] = counting[-1]
        return came


def keep_capacities(results: Results, laddered: Laddered, found: Sequence[Capacity]) -> CapacityFile:
    """Write `capacity.json` into the result folder."""
    file = CapacityFile(
        experiment=laddered.plan.experiment.experiment, digest=laddered.plan.digest, capacities=tuple(found)
    )
    write_bytes(results.path / FILE_NAME, file.to_json().encode("utf-8"))
    return file
