"""From a treatment and the addresses of its deployment to the engine's job (docs/job.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from towtank.design.load_shape import AnyLoad, Piece, pieces
from towtank.design.model import ClosedLoad, Generator, OpenLoad, Workload
from towtank.design.workload_parts import Cold, Connections, Feed
from towtank.load.journey_job import Resolve, given, journey_job, think_job, us, us_or_none
from towtank.platforms.base import Target
from towtank.platforms.transport import PLAIN, Tls, Transport
from towtank.sensitive import MASK, is_sensitive

VERSION = 1
LIMITS = {"max_body_bytes": 64 * 2**20, "max_header_bytes": 64 * 2**10}


@dataclass(frozen=True)
class JobRequest:
    """What a job is made from.

    Parameters
    ----------
    run_id : str
    seed : int
    output : Path
        Base name of the records: ``<output>/thread-N.log`` while running, then ``<output>.parquet``.
    workloads : mapping
        Name → workload; several are driven at the same time.
    targets : mapping
        Name → target, as the deployment says.
    generator : Generator
    limits : mapping, optional
        Overrides of `LIMITS`, and of the generator's bound on connections.
    files : tuple of Path, optional
        Folders in which the files are that workloads and targets name; the first that has a file is taken.
    """

    run_id: str
    seed: int
    output: Path
    workloads: Mapping[str, Workload]
    targets: Mapping[str, Target]
    generator: Generator
    limits: Mapping[str, int] = field(default_factory=dict)
    files: tuple[Path, ...] = ()

    def resolve(self, name: str) -> str:
        """Where the engine finds a file that an experiment names."""
        places = [folder / name for folder in self.files]
        return str(next((place for place in places if place.exists()), places[0] if places else name))


@dataclass(frozen=True)
class Stage:
    """A declared stage on the run clock, µs."""

    name: str
    start_us: int
    end_us: int


def build_job(request: JobRequest) -> dict[str, Any]:
    """Make the job as a JSON-serialisable dictionary; it may contain secrets (see `masked`)."""
    generator = request.generator
    feeds = {
        name: _feed(feed, request.resolve)
        for workload in request.workloads.values()
        for name, feed in workload.feeds.items()
    }
    return {
        "version": VERSION,
        "run_id": request.run_id,
        "seed": request.seed,
        "output": str(request.output),
        "threads": generator.threads,
        "nice": generator.nice,
        "cpus": list(generator.cpus) if generator.cpus is not None else None,
        "spread": generator.spread,
        "instance_header": generator.instance_header or _header(request.targets, "instance_header"),
        **given(traceparent=generator.traceparent or None, dns=_dns(generator), feeds=feeds),
        "targets": {name: _target(target, request.resolve) for name, target in request.targets.items()},
        "workloads": [
            _workload(name, workload, request.resolve, cold=_header(request.targets, "cold_header"))
            for name, workload in request.workloads.items()
        ],
        "limits": {**LIMITS, "max_connections": generator.max_connections, **request.limits},
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


def stages(load: AnyLoad) -> tuple[Stage, ...]:
    """Stages on the run clock, for figures; ramp and hold of one stage are one stretch."""
    found: dict[int, Stage] = {}
    start = 0.0
    for piece in pieces(load):
        end = start + piece.duration_s
        begun_us = found[piece.stage].start_us if piece.stage in found else us(start)
        found[piece.stage] = Stage(piece.name, begun_us, us(end))
        start = end
    return tuple(found.values())


def _load(load: OpenLoad | ClosedLoad, resolve: Resolve) -> dict[str, Any]:
    resolved = pieces(load)
    if isinstance(load, OpenLoad):
        return {
            "model": "open",
            **_arrivals(load, resolved, resolve),
            "max_in_flight": load.max_in_flight,
            "when_full": load.when_full,
            "max_arrivals": load.max_arrivals,
        }
    return {
        "model": "closed",
        "stages": [_stage(piece, "users", round(piece.start), round(piece.end)) for piece in resolved],
        "graceful_us": us(load.graceful),
        **given(start_spread_us=us(load.start_spread) or None, catch_up=load.catch_up or None),
        "session": load.session,
        "max_rate_per_user_per_s": load.max_rate_per_user,
        "pacing_us": think_job(load.pacing),
        "iterations": load.iterations,
        "iterations_per_user": load.iterations_per_user,
    }


def _arrivals(load: OpenLoad, resolved: tuple[Piece, ...], resolve: Resolve) -> dict[str, Any]:
    trace = load.trace
    if trace is None or trace.format != "timestamps":
        return {"arrivals": load.falls, "stages": [_rate_stage(piece) for piece in resolved]}
    times = {"file": resolve(trace.file), "unit": trace.unit or "s"}
    return {"times": times | ({} if load.duration is None else {"duration_us": us(load.duration)})}


def _rate_stage(piece: Piece) -> dict[str, Any]:
    wave = piece.wave
    if wave is None:
        return _stage(piece, "per_s", piece.start, piece.end)
    return {
        "name": piece.name,
        "mean_per_s": wave.mean,
        "amplitude_per_s": wave.amplitude,
        "period_us": us(wave.period),
        "phase": wave.phase,
        "duration_us": us(piece.duration_s),
    }


def _stage(piece: Piece, unit: str, start: float, end: float) -> dict[str, Any]:
    return {
        "name": piece.name,
        f"from_{unit}": start,
        f"to_{unit}": end,
        "duration_us": us(piece.duration_s),
    }


def _header(targets: Mapping[str, Target], name: str) -> str | None:
    """A header of answers that the deployment itself knows of; the file's own word goes before."""
    return next((found for target in targets.values() if (found := getattr(target, name)) is not None), None)


def _workload(name: str, workload: Workload, resolve: Resolve, *, cold: str | None) -> dict[str, Any]:
    known = None if cold is None else {"header": {"name": cold, "equals": "true"}}
    return {
        "name": name,
        "warmup_us": us(workload.load.warmup),
        "timeout_us": us(workload.timeout),
        "load": _load(workload.load, resolve),
        **given(
            connections=_connections(workload.connections),
            rotate=list(workload.rotate or ()),
            cold=known if workload.cold is None else _cold(workload.cold),
        ),
        "journey": journey_job(workload.journey, resolve),
    }


def _connections(asked: Connections) -> dict[str, Any]:
    return given(policy=asked.policy, max_age_us=us_or_none(asked.max_age), max_requests=asked.max_requests)


def _cold(cold: Cold) -> dict[str, Any]:
    return given(
        header=None if cold.header is None else cold.header.model_dump(),
        json=None if cold.json_ is None else cold.json_.model_dump(),
        above_us=us_or_none(cold.above),
    )


def _feed(feed: Feed, resolve: Resolve) -> dict[str, Any]:
    made: dict[str, Any] = {"file": resolve(feed.file), "format": feed.kind, "order": feed.order}
    return {**made, "delimiter": feed.delimiter} if feed.kind == "csv" else made


def _dns(generator: Generator) -> dict[str, Any] | None:
    asked = generator.dns.model_dump(exclude_unset=True)
    if not asked:
        return None
    made = given(servers=list(generator.dns.servers or ()), cache=generator.dns.cache)
    return {**made, "timeout_us": us(generator.dns.timeout)}


def _target(target: Target, resolve: Resolve) -> dict[str, Any]:
    return {
        "instances": [{"name": instance.name, "url": instance.url} for instance in target.instances],
        "headers": dict(target.headers),
        **_transport(target.transport, resolve),
    }


def _transport(transport: Transport, resolve: Resolve) -> dict[str, Any]:
    tls, proxy = transport.tls, transport.proxy
    return given(
        protocol=None if transport.protocol == PLAIN.protocol else transport.protocol,
        host=transport.host,
        tls=None if tls is None else _tls(tls, resolve),
        proxy=None if proxy is None else {"url": proxy.url, **given(headers=dict(proxy.headers))},
        source_addresses=list(transport.source_addresses or ()),
        max_streams=transport.max_streams,
    )


def _tls(tls: Tls, resolve: Resolve) -> dict[str, Any]:
    files = {"ca_file": tls.ca, "cert_file": tls.cert, "key_file": tls.key}
    return {
        **{key: resolve(name) for key, name in files.items() if name is not None},
        **given(
            server_name=tls.server_name, insecure=tls.insecure or None, min_version=tls.min_version,
            max_version=tls.max_version,
        ),
        "resumption": tls.resumption,
    }  # fmt: skip
