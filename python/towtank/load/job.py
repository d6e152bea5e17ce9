"""From a treatment and the addresses of its deployment to the engine's job (docs/formats.md §1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from towtank.design.load_shape import Piece, pieces
from towtank.design.model import (
    Choose,
    ClosedLoad,
    ExponentialThink,
    Generator,
    Journey,
    OpenLoad,
    Request,
    Step,
    Think,
    UniformThink,
    Workload,
)
from towtank.platforms.base import Target
from towtank.sensitive import MASK, is_sensitive

VERSION = 1
LIMITS = {"max_body_bytes": 64 * 2**20, "max_header_bytes": 64 * 2**10, "max_connections": 10_000}


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
                key: MASK if is_sensitive(key) and isinstance(inner, str) else inside(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [inside(inner) for inner in value]
        return value

    return cast("dict[str, Any]", inside(dict(job)))


def stages(load: OpenLoad | ClosedLoad) -> tuple[Stage, ...]:
    """Stages on the run clock, for figures; ramp and hold of one stage are one stretch."""
    found: dict[int, Stage] = {}
    start = 0.0
    for piece in pieces(load):
        end = start + piece.duration_s
        begun_us = found[piece.stage].start_us if piece.stage in found else _us(start)
        found[piece.stage] = Stage(piece.name, begun_us, _us(end))
        start = end
    return tuple(found.values())


def _load(load: OpenLoad | ClosedLoad) -> dict[str, Any]:
    resolved = pieces(load)
    if isinstance(load, OpenLoad):
        return {
            "model": "open",
            "arrivals": load.arrivals,
            "stages": [_stage(piece, "per_s", piece.start, piece.end) for piece in resolved],
            "max_in_flight": load.max_in_flight,
            "when_full": load.when_full,
            "max_arrivals": load.max_arrivals,
        }
    return {
        "model": "closed",
        "stages": [_stage(piece, "users", round(piece.start), round(piece.end)) for piece in resolved],
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


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
