"""Ask the engine whether it understands every journey of a plan, and say its problems at their place in the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towtank.errors import DesignError, MachineError

if TYPE_CHECKING:
    from towtank.design import Plan, Problem, Treatment

_NOWHERE = "http://127.0.0.1:9"
"""Stands for addresses that are not known before something is deployed; a check sends nothing."""
_PART = re.compile(r"([A-Za-z_][\w-]*)|\[(\d+)\]")


def check_journeys(file: Path, plan: Plan) -> str | None:
    """Check each different workload once.

    Returns
    -------
    str or None
        Why nothing was checked, when there is no engine.

    Raises
    ------
    DesignError
        With all problems that the engine found.
    """
    from towtank.load import check_job

    problems: list[Problem] = []
    seen: set[str] = set()
    for treatment in plan.treatments:
        job = _job(treatment)
        key = repr((treatment.spec.workload_name, job["workloads"], sorted(job["targets"])))
        if key in seen:
            continue
        seen.add(key)
        try:
            found = check_job(job)
        except MachineError as error:
            return f"journeys were not checked: {error.message}"
        problems += [_problem(file, treatment.spec.workload_name, text) for text in found]
    if problems:
        raise DesignError(sorted(set(problems), key=lambda p: (p.file, p.line, p.column, p.path)))
    return None


def _job(treatment: Treatment) -> dict[str, Any]:
    from towtank.load import JobRequest, build_job
    from towtank.platforms.base import Instance, Target

    spec = treatment.spec
    targets = {
        name: Target(name, (Instance(f"{name}-0", _NOWHERE),)) for name in spec.deployment.target_names()
    }
    return build_job(
        JobRequest(
            run_id="plan",
            seed=0,
            output=Path("requests"),
            workload_name=spec.workload_name,
            workload=spec.workload,
            targets=targets,
            generator=spec.generator,
        )
    )


def _problem(file: Path, workload: str, text: str) -> Problem:
    """Turn ``$.workloads[0].journey.steps[0].request.path: …`` into a problem of the experiment file."""
    from towtank.design import Problem, locate

    where, separator, message = text.partition(": ")
    prefix = "$.workloads[0]."
    if not separator or not where.startswith("$"):
        where, message = "", text
    keys: list[str | int] = ["workloads", workload]
    if where.startswith(prefix):
        for word, number in _PART.findall(where.removeprefix(prefix)):
            if word != "request":
                keys.append(int(number) if number else word.removesuffix("_us"))
    place = locate(file, tuple(keys))
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")
    return Problem(place.file, place.line, place.column, path, f"the engine says: {message}")
