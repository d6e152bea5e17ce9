"""Ask the engine whether it understands every journey of a plan, and say its problems at their place in the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towtank.errors import DesignError, MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from towtank.design import Plan, Problem, Treatment
    from towtank.design.model import Workload
    from towtank.platforms.base import Target

_NOWHERE = "127.0.0.1:9"
"""Stands for addresses that are not known before something is deployed; a check sends nothing."""
_PART = re.compile(r"([A-Za-z_$][\w-]*)|\[(\d+)\]")
_WORKLOAD = re.compile(r"\$\.workloads\[(\d+)\]\.?(.*)")
_FEED = re.compile(r"\$\.feeds\.([A-Za-z_]\w*)\.?(.*)")
_RENAMED = {"size_bytes": "size"}
"""Key of the job → key of the experiment file, where taking `_us` away is not enough."""


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
    root = file if file.is_dir() else file.parent
    for treatment in plan.treatments:
        if not treatment.spec.driven:  # the journey is a script's
            continue
        job = _job(treatment, root.absolute())
        key = repr((treatment.spec.drive, job["workloads"], job.get("feeds"), sorted(job["targets"])))
        if key in seen:
            continue
        seen.add(key)
        try:
            found = check_job(job)
        except MachineError as error:
            return f"journeys were not checked: {error.message}"
        problems += [_problem(file, treatment.spec.driven, text) for text in found]
    if problems:
        raise DesignError(sorted(set(problems), key=lambda p: (p.file, p.line, p.column, p.path)))
    return None


def _job(treatment: Treatment, root: Path) -> dict[str, Any]:
    from towtank.load import JobRequest, build_job

    spec = treatment.spec
    targets = {name: _target(spec.deployment, name) for name in spec.deployment.target_names()}
    return build_job(
        JobRequest(
            run_id="plan",
            seed=0,
            output=Path("requests"),
            workloads=spec.driven,
            targets=targets,
            generator=spec.generator,
            files=(root,),
        )
    )


def _target(deployment: Any, name: str) -> Target:  # noqa: ANN401 - any platform's own model
    """A target with what the engine's check looks at: its name and its protocol."""
    from towtank.platforms.base import Instance, Target
    from towtank.platforms.transport import PLAIN, Transport

    asked = deployment.transport_of(name) if hasattr(deployment, "transport_of") else PLAIN
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
