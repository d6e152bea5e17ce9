"""From a treatment and the addresses of its deployment to the engine's job (docs/formats.md §1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from towtank.design.model import (
    Choose,
    ClosedLoad,
    ClosedStage,
    ExponentialThink,
    Generator,
    Journey,
    OpenLoad,
    OpenStage,
    Request,
    Step,
    Think,
    UniformThink,
    Workload,
)
from towtank.platforms.base import Target

VERSION = 1
COUNT_BOUND_S = 3600.0
"""Upper bound in time of a load that stops by count and names no duration, seconds."""
MASK = "•••"
LIMITS = {"max_body_bytes": 64 * 2**20, "max_header_bytes": 64 * 2**10, "max_connections": 10_000}

_SENSITIVE_HEADERS = {"authorization", "proxy-authorization", "cookie", "x-api-key"}


@dataclass(frozen=True)
class JobRequest:
    """What a job is made from.

    Parameters
    ----------
    run_id : str
    seed : int
    output : Path
        Base name of the records: ``<output>/thread-N.log`` while running, then ``<output>.parquet``.
    workload_name : str
    workload : Workload
    targets : mapping
        Name → target, as the deployment says.
    generator : Generator
    limits : mapping, optional
        Overrides of `LIMITS`.
    """

    run_id: str
    seed: int
    output: Path
    workload_name: str
    workload: Workload
    targets: Mapping[str, Target]
    generator: Generator
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """A linear stretch of a load: `level` is users (closed) or arrivals per second (open)."""

    name: str
    from_level: float
    to_level: float
    duration_s: float
    stage: int
    """Index of the declared stage that it belongs to."""


@dataclass(frozen=True)
class Stage:
    """A declared stage on the run clock, µs."""

    name: str
    start_us: int
    end_us: int


def build_job(request: JobRequest) -> dict[str, Any]:
    """Make the job as a JSON-serialisable dictionary; it may contain secrets (see `masked`)."""
    generator = request.generator
    workload = request.workload
    return {
        "version": VERSION,
        "run_id": request.run_id,
        "seed": request.seed,
        "output": str(request.output),
        "threads": generator.threads,
        "nice": generator.nice,
        "cpus": list(generator.cpus) if generator.cpus is not None else None,
        "spread": generator.spread,
        "instance_header": generator.instance_header,
        "targets": {name: _target(target) for name, target in request.targets.items()},
        "workloads": [
            {
                "name": request.workload_name,
                "warmup_us": _us(workload.load.warmup),
                "timeout_us": _us(workload.timeout),
                "load": _load(workload.load),
                "journey": _journey(workload.journey),
            }
        ],
        "limits": {**LIMITS, **request.limits},
    }


def masked(job: Mapping[str, Any], mask: Callable[[str], str] = str) -> dict[str, Any]:
    """Copy a job for keeping: declared secrets and what headers such as Authorization carry are masked.

    Parameters
    ----------
    mask : callable
        Replaces declared secrets in a text (`platforms.base.KeepsSecrets.mask`).
    """

    def inside(value: object) -> object:
        if isinstance(value, str):
            return mask(value)
        if isinstance(value, dict):
            return {
                key: MASK if _sensitive(key) and isinstance(inner, str) else inside(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [inside(inner) for inner in value]
        return value

    return cast("dict[str, Any]", inside(dict(job)))


def pieces(load: OpenLoad | ClosedLoad) -> list[Piece]:
    """Resolve a load model to linear pieces.

    A declared stage is a ramp from the level before (0 at the start) followed by a hold. ``users`` with
    ``spawn_per_s`` ramps from 0 at that rate; the ramp is part of ``duration``, as in Locust.
    """
    if load.stages is not None:
        return _declared_pieces(load)
    bounded = _bounded_by_count(load)
    duration = load.duration if load.duration is not None else (COUNT_BOUND_S if bounded else 0.0)
    if isinstance(load, OpenLoad):
        rate = load.rate or 0.0
        return [Piece("constant", rate, rate, duration, 0)]
    users = float(load.users or 0)
    if not load.spawn_per_s:
        return [Piece("constant", users, users, duration, 0)]
    ramp = users / load.spawn_per_s
    if ramp >= duration:
        return [Piece("spawning", 0.0, users * duration / ramp, duration, 0)]
    return [
        Piece("spawning", 0.0, users, ramp, 0),
        Piece("constant", users, users, duration - ramp, 1),
    ]


def load_duration_s(load: OpenLoad | ClosedLoad) -> float:
    """How long the schedule is, seconds, without graceful stop and drain."""
    return sum(piece.duration_s for piece in pieces(load))


def stages(load: OpenLoad | ClosedLoad) -> tuple[Stage, ...]:
    """Declared stages on the run clock, for figures; ramp and hold of one stage are one stretch."""
    found: dict[int, Stage] = {}
    start = 0.0
    for piece in pieces(load):
        end = start + piece.duration_s
        known = found.get(piece.stage)
        name = known.name if known else _stage_name(load, piece)
        found[piece.stage] = Stage(name, known.start_us if known else _us(start), _us(end))
        start = end
    return tuple(found.values())


def _declared_pieces(load: OpenLoad | ClosedLoad) -> list[Piece]:
    found: list[Piece] = []
    level = 0.0
    stages: tuple[OpenStage | ClosedStage, ...] = load.stages or ()
    for index, stage in enumerate(stages):
        goal = stage.rate if isinstance(stage, OpenStage) else float(stage.users)
        name = stage.name or f"stage {index + 1}"
        if stage.ramp > 0:
            ramp_name = f"{name} (ramp)" if stage.hold > 0 else name
            found.append(Piece(ramp_name, level, goal, stage.ramp, index))
        if stage.hold > 0:
            found.append(Piece(name, goal, goal, stage.hold, index))
        level = goal
    return found


def _stage_name(load: OpenLoad | ClosedLoad, piece: Piece) -> str:
    if load.stages is None:
        return piece.name
    return load.stages[piece.stage].name or f"stage {piece.stage + 1}"


def _bounded_by_count(load: OpenLoad | ClosedLoad) -> bool:
    if isinstance(load, OpenLoad):
        return load.max_arrivals is not None
    return load.iterations is not None or load.iterations_per_user is not None


def _load(load: OpenLoad | ClosedLoad) -> dict[str, Any]:
    resolved = pieces(load)
    if isinstance(load, OpenLoad):
        return {
            "model": "open",
            "arrivals": load.arrivals,
            "stages": [_stage(piece, "per_s", piece.from_level, piece.to_level) for piece in resolved],
            "max_in_flight": load.max_in_flight,
            "when_full": load.when_full,
            "max_arrivals": load.max_arrivals,
        }
    return {
        "model": "closed",
        "stages": [
            _stage(piece, "users", round(piece.from_level), round(piece.to_level)) for piece in resolved
        ],
        "graceful_us": _us(load.graceful),
        "session": load.session,
        "max_rate_per_user_per_s": load.max_rate_per_user,
        "pacing_us": _think(load.pacing),
        "iterations": load.iterations,
        "iterations_per_user": load.iterations_per_user,
    }


def _stage(piece: Piece, unit: str, start: float, end: float) -> dict[str, Any]:
    return {
        "name": piece.name,
        f"from_{unit}": start,
        f"to_{unit}": end,
        "duration_us": _us(piece.duration_s),
    }


def _journey(journey: Journey) -> dict[str, Any]:
    return {"think": _think(journey.think), "steps": _steps(journey.steps)}


def _steps(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [_step(step) for step in steps]


def _step(step: Step) -> dict[str, Any]:
    if isinstance(step, Choose):
        return {
            "choose": [{"weight": option.weight, "steps": _steps(option.steps)} for option in step.choose]
        }
    return {"request": _request(step)}


def _request(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": request.name,
        "method": request.method,
        "path": request.path,
        "headers": dict(request.headers),
        "body": request.body,
        "timeout_us": _us(request.timeout) if request.timeout is not None else None,
        "expect": {"status": list(request.expect.status), "contains": request.expect.contains},
        "think": _think(request.think),
    }
    if request.target is not None:
        found["target"] = request.target
    return found


def _think(think: Think | None) -> dict[str, Any] | None:
    if think is None:
        return None
    if isinstance(think, UniformThink):
        return {"uniform_us": [_us(think.uniform[0]), _us(think.uniform[1])]}
    if isinstance(think, ExponentialThink):
        return {"exponential_us": _us(think.exponential)}
    return {"constant_us": _us(think)}


def _target(target: Target) -> dict[str, Any]:
    return {
        "instances": [{"name": instance.name, "url": instance.url} for instance in target.instances],
        "headers": dict(target.headers),
    }


def _sensitive(name: str) -> bool:
    return name.lower() in _SENSITIVE_HEADERS


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
