"""Response variables that the experiment declares, evaluated in one run."""

from __future__ import annotations

from towtank.analysis.model import Quantity
from towtank.design.plan import Plan
from towtank.store import Results
from towtank.store.run_folder import RunFolder


def own_values(results: Results, run: RunFolder, plan: Plan) -> dict[str, Quantity]:
    """Values of the declared variables in one run; empty where none are declared.

    Parameters
    ----------
    results : Results
    run : RunFolder
    plan : Plan

    Returns
    -------
    dict
        Name → value, or None with the reason.
    """
    declared = plan.experiment.answer.variables if plan.experiment.answer else {}
    if not declared:
        return {}
    from towtank.store.expressions import measure  # noqa: PLC0415 - loads the database, which few experiments need

    found = measure(results, run, {name: one.sql for name, one in declared.items()})
    return {name: Quantity(one.value, reason=one.reason) for name, one in found.items()}
