"""How much load the engine can drive on this machine: its ceiling, what sets it, and what would raise it.

The engine runs with one thread, pinned to one core, against its own small server on another. First a closed load
says how many requests a second pass through both; then a search finds the highest open rate that is driven on time.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from towtank.errors import EngineError
from towtank.load.binary import EngineBuild
from towtank.load.echo import EchoServer
from towtank.load.engine import EngineProcess, flush_timeout_s
from towtank.load.events import Done
from towtank.load.summary import OUTCOME_WORDS
from towtank.platforms.base import Cancelled
from towtank.units import format_ratio

Limit = Literal["engine", "server", "machine"]

USERS = 64
CLOSED_S = 2.0
PROBE_S = 1.5
BUDGET_S = 24.0
"""No probe begins later than this, so that all ends within half a minute."""
LAG_P99_US = 1000
FIRST_SHARE = 0.9
"""Of the closed load's rate: where the search begins."""
LOWEST_SHARE = 0.05
STEP_DOWN = 0.7
PRECISION = 1.05
"""The search ends when the lowest rate that failed is this close to the highest that held."""
BUSY_CORES = 0.9
WAITING_RATIO = 0.05
TIME_WAIT_S = 60
"""How long Linux keeps a local port after its connection was closed."""
DESCRIPTORS_BESIDE = 64
"""Descriptors that the engine needs besides its connections, generously."""


@dataclass(frozen=True)
class Probe:
    """One short open load."""

    rate_per_s: int
    on_time: bool
    lag_p99_us: float
    lag_p999_us: float
    not_sent: int
    cpu_cores: float
    waited_ratio: float
    """Time that the load thread was ready to run but had no CPU ÷ time."""


@dataclass(frozen=True)
class Ceiling:
    """What the engine reaches here with one thread."""

    engine: str
    backend: str
    engine_core: int
    server_core: int
    closed_per_s: int
    cpu_us_per_request: float
    engine_cores: float
    server_cores: float
    waited_ratio: float
    open_per_s: int | None
    """Highest open rate on time; None when no rate was."""
    open_lag_p99_us: float | None
    records_per_s: int
    """Records that compaction after a run takes in a second."""
    record_cpu_us: float
    limited_by: Limit
    why: str
    max_connections: int
    fresh_connections_per_s: int
    probes: tuple[Probe, ...]
    findings: tuple[str, ...] = ()
    advice: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return asdict(self)


def measure_ceiling(
    build: EngineBuild, *, cancelled: Cancelled, tell: Callable[[str], None] | None = None
) -> Ceiling:
    """Measure, in less than half a minute.

    Parameters
    ----------
    build : EngineBuild
        Which engine; the caller has made sure that it is a release build.
    cancelled : callable
        Raises when somebody wants it to end.
    tell : callable, optional
        Gets a line for each step.
    """
    say = tell or (lambda _words: None)
    deadline = time.monotonic() + BUDGET_S
    cores = sorted(os.sched_getaffinity(0))
    token = f"tt-{secrets.token_hex(8)}"
    with (
        tempfile.TemporaryDirectory(prefix="towtank-doctor-") as folder,
        EchoServer(build.path, core=cores[0], token=token) as server,
    ):
        bench = _Bench(
            build, Path(folder), port=server.port, core=cores[-1], token=token, cancelled=cancelled
        )
        say(f"closed load, {USERS} users, {CLOSED_S:.0f} s")
        before_s = server.cpu_s()
        closed = bench.run(_closed(USERS, CLOSED_S), CLOSED_S)
        server_cores = (server.cpu_s() - before_s) / CLOSED_S
        rate = _answered(closed.done) / CLOSED_S
        if rate < 1:
            raise _unanswered(closed.done, server.port)
        probes: list[Probe] = []
        for asked in _search(rate, probes):
            if time.monotonic() > deadline:
                break
            probes.append(bench.probe(asked))
            say(_probe_words(probes[-1]))
    return _concluded(build, closed, probes, cores=(cores[-1], cores[0]), server_cores=server_cores)


def _search(closed_per_s: float, probes: list[Probe]) -> Iterator[int]:
    """Down from the closed load's rate until one holds twice, then halve the gap to the lowest that failed."""
    rate = closed_per_s * FIRST_SHARE
    while rate > closed_per_s * LOWEST_SHARE:
        yield _rounded(rate)
        if probes[-1].on_time:
            break
        rate *= STEP_DOWN
    while held := highest(probes):
        failed = min(
            (p.rate_per_s for p in probes if p.rate_per_s > held.rate_per_s),
            default=_rounded(closed_per_s * 1.1),
        )
        if failed / held.rate_per_s <= PRECISION:
            return
        yield _rounded((failed * held.rate_per_s) ** 0.5)


def highest(probes: list[Probe]) -> Probe | None:
    """The fastest probe that was on time and is below every one that was not."""
    failed = min((p.rate_per_s for p in probes if not p.on_time), default=None)
    held = [p for p in probes if p.on_time and (failed is None or p.rate_per_s < failed)]
    return max(held, key=lambda p: p.rate_per_s, default=None)


def _rounded(rate: float) -> int:
    return max(10, round(rate, -2 if rate > 1000 else -1).__int__())


@dataclass(frozen=True)
class _Ended:
    """A load that was carried out."""

    done: Done
    backend: str
    findings: tuple[str, ...]


class _Bench:
    """Runs jobs of the engine against the server."""

    def __init__(
        self, build: EngineBuild, folder: Path, *, port: int, core: int, token: str, cancelled: Cancelled
    ) -> None:
        self._build = build
        self._folder = folder
        self._port = port
        self._core = core
        self._token = token
        self._cancelled = cancelled
        self._count = 0

    def run(self, load: dict[str, Any], seconds: float) -> _Ended:
        """Carry out one load."""
        self._count += 1
        here = self._folder / str(self._count)
        here.mkdir()
        path = here / "job.json"
        path.write_text(json.dumps(_job(here, self._port, self._core, load)), encoding="utf-8")
        with EngineProcess(self._build.path, path, log_path=here / "engine.log", token=self._token) as engine:
            ready = engine.wait_ready(cancelled=self._cancelled)
            engine.start_at(None)
            engine.wait_started(cancelled=self._cancelled)
            done = engine.wait_done(
                timeout_s=seconds + flush_timeout_s(ready.due or 0), cancelled=self._cancelled
            )
            findings = tuple(str(finding.get("message")) for finding in engine.findings)
        return _Ended(done, ready.backend, findings)

    def probe(self, rate_per_s: int) -> Probe:
        """One short open load."""
        done = self.run(_open(rate_per_s, PROBE_S), PROBE_S).done
        own = done.self_
        lag_p99_us = float(own["lag_p99_us"] or 0.0)
        not_sent = int(done.counts["due"]) - _answered(done)
        return Probe(
            rate_per_s=rate_per_s,
            on_time=lag_p99_us < LAG_P99_US and not_sent == 0,
            lag_p99_us=lag_p99_us,
            lag_p999_us=float(own["lag_p999_us"] or 0.0),
            not_sent=not_sent,
            cpu_cores=float(own["cpu_cores_mean"]),
            waited_ratio=float(own["run_queue_wait_ratio"]),
        )


def _answered(done: Done) -> int:
    return int(done.counts["by_outcome"].get("answered", 0))


def _unanswered(done: Done, port: int) -> EngineError:
    """Say what became of the requests instead; the most frequent end first."""
    ends = sorted(done.counts["by_outcome"].items(), key=lambda pair: -pair[1])
    said = ", ".join(f"{count:,} × {OUTCOME_WORDS.get(outcome, outcome)}" for outcome, count in ends)
    return EngineError(
        f"the engine got fewer than one answer a second from its own server on 127.0.0.1:{port} in a load of "
        f"{CLOSED_S:g} s, so there is no ceiling to tell: {said or 'nothing was sent'}",
        hint="let traffic on loopback pass (a firewall?), free a core, and measure again; `towtank doctor` looks",
    )


def _job(folder: Path, port: int, core: int, load: dict[str, Any]) -> dict[str, Any]:
    journey = {"steps": [{"request": {"name": "get", "path": "/"}}]}
    workload = {
        "name": "doctor", "warmup_us": 0, "timeout_us": 1_000_000, "load": load, "journey": journey
    }  # fmt: skip
    return {
        "version": 1, "run_id": "doctor", "seed": 1, "output": str(folder / "requests"), "threads": 1,
        "cpus": [core], "workloads": [workload],
        "targets": {"server": {"instances": [{"name": "server", "url": f"http://127.0.0.1:{port}"}]}},
    }  # fmt: skip


def _closed(users: int, seconds: float) -> dict[str, Any]:
    stage = {"name": "hold", "from_users": users, "to_users": users, "duration_us": round(seconds * 1e6)}
    return {"model": "closed", "stages": [stage]}


def _open(rate_per_s: int, seconds: float) -> dict[str, Any]:
    stage = {
        "name": "hold", "from_per_s": rate_per_s, "to_per_s": rate_per_s, "duration_us": round(seconds * 1e6)
    }  # fmt: skip
    return {
        "model": "open",
        "arrivals": "uniform",
        "stages": [stage],
        "max_in_flight": 512,
        "when_full": "queue",
    }


def _concluded(
    build: EngineBuild, closed: _Ended, probes: list[Probe], *, cores: tuple[int, int], server_cores: float
) -> Ceiling:
    own = closed.done.self_
    rows = max(1, int(closed.done.counts["rows"]))
    cpu_s = float(own["cpu_user_s"]) + float(own["cpu_system_s"])
    held = highest(probes)
    limited_by, why = bottleneck(
        engine_cores=float(own["cpu_cores_mean"]), server_cores=server_cores,
        waited_ratio=float(own["run_queue_wait_ratio"]), one_core=cores[0] == cores[1],
    )  # fmt: skip
    connections, fresh = connection_bounds()
    return Ceiling(
        engine=build.line,
        backend=closed.backend,
        engine_core=cores[0],
        server_core=cores[1],
        closed_per_s=round(_answered(closed.done) / CLOSED_S),
        cpu_us_per_request=round(cpu_s / rows * 1e6, 2),
        engine_cores=round(float(own["cpu_cores_mean"]), 2),
        server_cores=round(server_cores, 2),
        waited_ratio=round(float(own["run_queue_wait_ratio"]), 3),
        open_per_s=held.rate_per_s if held else None,
        open_lag_p99_us=held.lag_p99_us if held else None,
        records_per_s=round(rows / max(float(own["compact_s"]), 1e-6)),
        record_cpu_us=round(float(own["compact_cpu_s"]) / rows * 1e6, 3),
        limited_by=limited_by,
        why=why,
        max_connections=connections,
        fresh_connections_per_s=fresh,
        probes=tuple(probes),
        findings=closed.findings,
        advice=tuple(
            advice(limited_by, cores=len(os.sched_getaffinity(0)), held=held, connections=connections)
        ),
    )


def bottleneck(
    *, engine_cores: float, server_cores: float, waited_ratio: float, one_core: bool
) -> tuple[Limit, str]:
    """Say what keeps a closed load from being faster.

    Parameters
    ----------
    engine_cores, server_cores : float
        CPU that each used, in cores.
    waited_ratio : float
        Time that the engine's thread was ready but had no CPU ÷ time.
    one_core : bool
        Both had to share one.
    """
    if one_core:
        return "machine", "the engine and the server had to share the only core that may be used"
    if waited_ratio > WAITING_RATIO:
        return "machine", (
            f"for {format_ratio(waited_ratio)} of the time the engine's thread was ready to run "
            "but something else had its core"
        )
    if engine_cores >= BUSY_CORES and engine_cores >= server_cores:
        return "engine", "the engine used all of its core: this is its own ceiling with one thread"
    if server_cores >= BUSY_CORES:
        return "server", "the server used all of its core: the engine could drive more than this"
    return "machine", (
        f"neither was busy all of the time (engine {engine_cores:.2f}, server {server_cores:.2f} of a core): "
        "other programs or the hypervisor had the cores meanwhile"
    )


def connection_bounds() -> tuple[int, int]:
    """Most connections to one address at a time, and most fresh ones a second for as long as one likes."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
        first, last = map(int, text.split())
    except (OSError, ValueError):
        first, last = 32768, 60999
    ports = last - first + 1
    # the engine raises its soft limit to the hard one by itself
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = ports if hard == resource.RLIM_INFINITY else max(0, hard - DESCRIPTORS_BESIDE)
    return min(ports, descriptors), ports // TIME_WAIT_S


def advice(limited_by: Limit, *, cores: int, held: Probe | None, connections: int) -> Iterator[str]:
    """What would raise the ceiling, or has to be known about it."""
    if held is None:
        yield (
            "no rate was driven on time: end other programs, or measure on another machine; "
            "open loads on this one would be invalid (engine_late)"
        )
    else:
        yield f"keep open loads below {round(held.rate_per_s * 0.8, -2):,.0f}/s a thread: a fifth of room for bursts"
    if limited_by == "machine":
        yield (
            "generator: {nice: -10} puts the engine before what else runs here "
            "(needs the right to; see `towtank doctor`)"
        )
    if cores > 2:
        yield (
            f"each further thread with a core of its own adds about as much: generator: {{threads: 2}}, "
            f"up to {cores - 1} here if the system under test runs elsewhere"
        )
    else:
        yield (
            f"with {cores} usable core{'s' if cores > 1 else ''} a second thread would take the CPU of the "
            "system under test: drive from another machine for more"
        )
    if cores > 1:
        yield "generator: {cpus: […]} keeps the engine on cores that the system under test does not use"
    yield (
        f"more than {connections:,} connections to one address need a higher `ulimit -Hn` or a wider "
        "net.ipv4.ip_local_port_range"
    )


def _probe_words(probe: Probe) -> str:
    verdict = (
        "on time" if probe.on_time else "late" if not probe.not_sent else f"{probe.not_sent:,} not answered"
    )
    return f"open load, {probe.rate_per_s:,}/s: lag p99 {probe.lag_p99_us:,.0f} µs, {verdict}"
