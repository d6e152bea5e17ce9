"""One result as one session: the values of its valid runs, as independent samples of each treatment."""

from __future__ import annotations

from dataclasses import dataclass, field

from towtank.analysis.model import Quantity
from towtank.analysis.run_cost import cost_values
from towtank.analysis.run_values import run_values
from towtank.analysis.selection import counting_attempts, wanted_variables
from towtank.analysis.steady_state import beginning_at
from towtank.store import Results


@dataclass
class Session:
    """Values of one result: variable → treatment → run number → value."""

    values: dict[str, dict[str, dict[int, Quantity]]] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    collapsed: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    environments: set[str] = field(default_factory=set)


def read_session(results: Results, start_us: int | None) -> Session:
    """Values of a result; its measured windows begin at `start_us` where there is one."""
    plan, session = results.plan, Session()
    folders = beginning_at(results.runs("all"), start_us)
    chosen = counting_attempts([folder.record for folder in folders])
    wanted = wanted_variables(plan)
    costs = cost_values(folders, plan)
    for folder in folders:
        record = folder.record
        session.attempts[record.treatment_id] = session.attempts.get(record.treatment_id, 0) + 1
        if record.run_id not in chosen:
            continue
        summary = run_values(results, folder, plan, costs, wanted=wanted)
        number = session.runs.get(record.treatment_id, 0)
        session.runs[record.treatment_id] = number + 1
        if summary.system == "collapsed":
            session.collapsed[record.treatment_id] = session.collapsed.get(record.treatment_id, 0) + 1
        if record.environment_digest:
            session.environments.add(record.environment_digest)
        for name, quantity in summary.values.items():
            session.values.setdefault(name, {}).setdefault(record.treatment_id, {})[number] = quantity
    return session
