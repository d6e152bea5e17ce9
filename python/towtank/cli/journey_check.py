"""Ask the engine whether it understands every journey of a plan, and say its problems at their place in the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towtank.cli.expression_check import check_expressions
from towtank.design.journey_shape import requests_in
from towtank.design.problems import Place
from towtank.design.treatment import Drivable
from towtank.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from towtank.design import Plan, Problem
    from towtank.design.model import Workload
    from towtank.platforms.base import Target
    from towtank.platforms.transport import Transport

_NOWHERE = "127.0.0.1:9"
"""Stands for addresses that are not known before something is deployed; a check sends nothing."""
_ONLY_TARGET = "app"
"""Stands for the only target of a deployment that cannot be read."""
_PART = re.compile(r"([A-Za-z_$][\w-]*)|\[(\d+)\]")
_WORKLOAD = re.compile(r"\$\.workloads\[(\d+)\]\.?(.*)")
_FEED = re.compile(r"\$\.feeds\.([A-Za-z_]\w*)\.?(.*)")
_RENAMED = {"size_bytes": "size"}
"""Key of the job → key of the experiment file, where taking `_us` away is not enough."""


def checked_plan(file: Path, *, profile: str | None, overrides: Mapping[str, str]) -> tuple[Plan, str | None]:
    """Read an experiment file and check it, journeys by the engine, SQL by the database: all problems at once.

    Returns
    -------
    Plan
    str or None
        Why journeys were not checked, when there is no engine.

    Raises
    ------
    DesignError
        With every problem found, by place.
    """
    from towtank.design import read_draft

    draft = read_draft(file, profile=profile, overrides=overrides)
    check_expressions(draft.expressions, draft.problems)
    unchecked: str | None = None
    try:
        for problem in _found(file, draft.drivable):
            place = Place(problem.file, problem.line, problem.column)
            draft.problems.add(place, problem.path, problem.message)
    except MachineError as error:
        unchecked = f"journeys were not checked: {error.message}"
    if draft.plan is None or draft.problems:
        raise draft.error()
    return draft.plan, unchecked


def _found(file: Path, drivable: Iterable[Drivable]) -> list[Problem]:
    """What the engine finds wrong, each once, by place.

    Raises
    ------
    MachineError
        There is no engine.
    """
    from towtank.load import check_job

    problems: set[Problem] = set()
    seen: set[str] = set()
    root = file if file.is_dir() else file.parent
    for one in drivable:
        targets = _targets(one)
        if not targets:
            continue
        job = _job(one, targets, root.absolute())
        key = repr((sorted(one.workloads), job["workloads"], job.get("feeds"), sorted(job["targets"])))
        if key not in seen:
            seen.add(key)
            problems.update(_problem(file, one.workloads, text) for text in check_job(job))
    return sorted(problems, key=lambda p: (p.file, p.line, p.column, p.path))


def _targets(one: Drivable) -> dict[str, Target]:
    """Targets of the deployment; where it is wrong, those that the journeys name, or nothing if they do not say."""
    from towtank.platforms.transport import PLAIN

    if one.deployment is not None:
        return {name: _target(one.deployment, name) for name in one.deployment.target_names()}
    named = {
        request.target for w in one.workloads.values() for request in requests_in(w.journey) if not w.rotate
    }
    named |= {name for w in one.workloads.values() for name in w.rotate or ()}
    if None in named:
        if len(named) > 1:
            return {}
        named = {_ONLY_TARGET}
    return {name: _stand_in(name, PLAIN) for name in named if name is not None}


def _job(one: Drivable, targets: Mapping[str, Target], root: Path) -> dict[str, Any]:
    from towtank.load import JobRequest, build_job

    return build_job(
        JobRequest(
            run_id="plan",
            seed=0,
            output=Path("requests"),
            workloads=one.workloads,
            targets=targets,
            generator=one.generator,
            files=(root,),
        )
    )


def _target(deployment: Any, name: str) -> Target:  # noqa: ANN401 - any platform's own model
    """A target with what the engine's check looks at: its name and its protocol."""
    from towtank.platforms.transport import PLAIN

    return _stand_in(name, deployment.transport_of(name) if hasattr(deployment, "transport_of") else PLAIN)


def _stand_in(name: str, asked: Transport) -> Target:
    from towtank.platforms.base import Instance, Target
    from towtank.platforms.transport import Transport

    scheme = "https" if asked.tls is not None or asked.protocol == "auto" else "http"
    return Target(
        name, (Instance(f"{name}-0", f"{scheme}://{_NOWHERE}"),), transport=Transport(protocol=asked.protocol)
    )


def _problem(file: Path, workloads: Mapping[str, Workload], text: str) -> Problem:
    """Turn ``$.workloads[0].journey.steps[0].request.path: …`` into a problem of the experiment file."""
    from towtank.design import Problem, locate

    where, separator, message = text.partition(": ")
    if not separator or not where.startswith("$"):
        where, message = "", text
    names = list(workloads)
    keys: list[str | int] = ["workloads", names[0]]
    if (match := _WORKLOAD.fullmatch(where)) and int(match[1]) < len(names):
        keys = ["workloads", names[int(match[1])], *_keys(match[2])]
    elif match := _FEED.fullmatch(where):
        holder = next((name for name, one in workloads.items() if match[1] in one.feeds), names[0])
        keys = ["workloads", holder, "feeds", match[1], *_keys(match[2])]
    elif where.startswith(("$.dns", "$.traceparent", "$.threads", "$.cpus")):
        keys = ["generator", *_keys(where.removeprefix("$."))]
    place = locate(file, tuple(keys))
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")
    return Problem(place.file, place.line, place.column, path, f"the engine says: {message}")


def _keys(path: str) -> list[str | int]:
    """Key path of the experiment file from that of a job: requests stand there without a wrapping."""
    found: list[str | int] = []
    for word, number in _PART.findall(path):
        if word != "request":
            found.append(int(number) if number else _RENAMED.get(word, word.removesuffix("_us")))
    return found
