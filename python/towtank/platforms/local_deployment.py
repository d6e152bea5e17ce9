"""A deployment of local processes: waited for, watched, described and removed."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms import edge_proxy, output
from towtank.platforms import guard as guards
from towtank.platforms import local_facts as facts
from towtank.platforms.base import (
    LOAD,
    Cancelled,
    DeployContext,
    Edge,
    EdgeTrouble,
    Instance,
    LogFile,
    SystemEvent,
    Target,
    Undo,
)
from towtank.platforms.cpu_quota import CpuQuota
from towtank.platforms.edge_proxy import EdgeProxy
from towtank.platforms.guard import Guard
from towtank.platforms.guard_messages import Exited, GuardReady, Spawned
from towtank.platforms.ingress import find_ingress
from towtank.platforms.launch import (
    INHERITED_VARIABLES,
    Launch,
    Planned,
    plan_instances,
    prepare,
    release,
    spawn,
)
from towtank.platforms.local_config import LocalConfig
from towtank.platforms.local_scaled import ScaledComponent
from towtank.platforms.masking import Secrets
from towtank.platforms.probe import Prober, Waiting, wait_until_ready
from towtank.platforms.scaling.ingress import COLD_HEADER, INSTANCE_HEADER
from towtank.platforms.scaling.journal import Journal
from towtank.units import format_duration

PORT_ATTEMPTS = 4
"""How often a deployment is started on other ports when somebody else was faster to a free one."""
_STOP_MARGIN_S = 10.0


class _PortTakenError(Exception):
    """Somebody else got a free port between its release and the instance's bind."""


class LocalDeployment:
    """Instances under one guard.

    Parameters
    ----------
    binary : Path
        The engine, which is also the guard.
    config : LocalConfig
    context : DeployContext
    secrets : Secrets
    """

    def __init__(self, binary: Path, config: LocalConfig, context: DeployContext, secrets: Secrets) -> None:
        self._binary = binary
        self._config = config
        self._context = context
        self._secrets = secrets
        self._guard = Guard(binary, context.token, on_exit=self._on_exit)
        self._guard_ready: GuardReady | None = None
        self._launches: list[Launch] = []
        self._scaled: dict[str, ScaledComponent] = {}
        self._journal = Journal()
        self._spawned: dict[str, Spawned] = {}
        self._log_start: dict[str, int] = {}
        self._ignored_exits = 0
        self._oom_events: dict[str, SystemEvent] = {}
        self._port_attempts = 0
        self._edges: EdgeProxy | None = None
        self._addresses: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        self._removing = threading.Lock()
        self._ending = threading.Event()
        self._removed: tuple[LogFile, ...] | None = None

    # --- coming up -------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Start the guard and every instance.

        Raises
        ------
        PlatformError
            Something could not be started; what had been is gone again.
        """
        try:
            self._context.log_dir.mkdir(parents=True, exist_ok=True)
            self._context.data_dir.mkdir(parents=True, exist_ok=True)
            self._start()
        except BaseException as error:
            with contextlib.suppress(PlatformError):  # the first error is the one to tell
                self.remove()
            if isinstance(error, OSError):
                raise PlatformError(f"deployment {self._context.name!r}: {error}") from error
            raise

    def _start(self) -> None:
        """Take ports, and start the guard, the proxy of the edges where there are any, and all instances."""
        planned = plan_instances(self._config.resolved())
        ways = edge_proxy.plan_ways(self._context.edges, planned)
        try:
            self._addresses = edge_proxy.addresses(ways)
            fixed = [item for item in planned if item.component.scaling is None]
            launches = prepare(fixed, self._context, self._secrets, self._addresses, everyone=planned)
            if self._guard_ready is None:
                self._guard_ready = self._guard.start()
            if self._edges is not None:
                self._edges.close()
            if ways:
                self._edges = EdgeProxy(self._guard, ways, self._context)
                self._edges.start()
            self._spawn(launches)
            self._scale(planned)
        finally:
            release(planned)
            for way in ways:
                way.listen.release()

    def _scale(self, planned: Sequence[Planned]) -> None:
        """Start an ingress and its first instances for every component that is scaled."""
        self._stop_scaling()
        for entrance in planned:
            if entrance.component.scaling is None:
                continue
            scaled = ScaledComponent(
                entrance, planned, guard=self._guard, ingress=find_ingress(), context=self._context,
                secrets=self._secrets, ways=self._addresses, journal=self._journal,
            )  # fmt: skip
            with self._lock:
                self._scaled[scaled.name] = scaled
            scaled.start()

    def _stop_scaling(self) -> None:
        for scaled in self._scaled.values():
            scaled.stop_scaling()

    def _on_exit(self, ended: Exited) -> None:
        """From the guard's reader: an instance is gone."""
        for scaled in list(self._scaled.values()):
            if ended.id in scaled.launches():
                scaled.exited(ended)

    def _everyone(self) -> list[Launch]:
        """Every instance that was started, those that have come and gone too."""
        with self._lock:
            launches, scaled = list(self._launches), list(self._scaled.values())
        return [*launches, *(launch for one in scaled for launch in one.launches().values())]

    def _spawn(self, launches: Sequence[Launch]) -> None:
        self._port_attempts += 1
        for launch in launches:
            launch.planned.reservation.release()
            log = launch.request.log
            self._log_start[launch.request.id] = log.stat().st_size if log.exists() else 0
            spawned = spawn(launch, self._guard, self._context, self._secrets)
            with self._lock:
                self._spawned[launch.request.id] = spawned
        with self._lock:
            self._launches = list(launches)

    def wait_ready(self, *, cancelled: Cancelled) -> None:
        """Block until every instance answers its probe; see `Deployment.wait_ready`.

        When an instance lost its free port to somebody else, all are started anew on other ports: `targets` is
        to be read afterwards.
        """
        while True:
            try:
                self._wait_ready(cancelled)
            except _PortTakenError:
                self._start_on_other_ports(cancelled)
            else:
                return

    def _wait_ready(self, cancelled: Cancelled) -> None:
        targets = self.targets
        waiting = [
            Waiting(self._instance(one), one.planned.component.ready, targets[one.planned.component_name])
            for one in self._launches
        ]
        with Prober(self._context.root) as prober:
            wait_until_ready(
                waiting,
                prober=prober,
                cancelled=cancelled,
                watch=self._raise_if_one_died,
                give_up=self._not_ready,
            )
        for scaled in self._scaled.values():
            scaled.wait_ready(cancelled=cancelled)

    def _raise_if_one_died(self) -> None:
        fixed = {launch.request.id for launch in self._launches}
        exits = [ended for ended in self._exits() if ended.id in fixed]
        if exits:
            died = exits[0]
            launch = self._launch(died.id)
            if self._lost_its_port(launch):
                raise _PortTakenError
            log = self._secrets.mask(output.quoted(launch.request.log, after=self._log_start[died.id]))
            raise PlatformError(
                f"deployment {self._context.name!r}: instance {died.id} ended before it was ready: "
                f"{facts.how(died, launch)}{log}",
                hint=f"its command is {list(launch.shown_command)}, its whole log {launch.request.log}",
            )
        if not self._guard.alive:
            raise self._guard.death()

    def _not_ready(self, item: Waiting) -> ReadinessTimeout:
        launch = self._launch(item.instance.name)
        log = self._secrets.mask(output.quoted(launch.request.log, after=self._log_start[item.instance.name]))
        return ReadinessTimeout(
            f"deployment {self._context.name!r}: instance {item.instance.name} was not ready within "
            f"{format_duration(item.ready.timeout)}; {item.ready.probe} at {item.instance.url} "
            f"saw last: {item.seen}{log}",
            hint="does it listen on {port} of 127.0.0.1? else give it more time with `ready.timeout`",
        )

    def _lost_its_port(self, launch: Launch) -> bool:
        if launch.planned.component.port is not None or self._port_attempts >= PORT_ATTEMPTS:
            return False
        return output.says_port_taken(launch.request.log, after=self._log_start[launch.request.id])

    def _start_on_other_ports(self, cancelled: Cancelled) -> None:
        self._stop_scaling()  # else it would replace what is ended here
        for name in self._guard.running():
            self._guard.stop(name, signal="KILL", grace_s=0)
        if not self._guard.wait_ended(_STOP_MARGIN_S):
            raise PlatformError(
                f"deployment {self._context.name!r}: instances could not be ended to start them on other ports"
            )
        cancelled()
        with self._lock:
            self._ignored_exits = len(self._guard.exits())
        self._start()

    # --- being looked at -------------------------------------------------------------------------------------

    @property
    def targets(self) -> Mapping[str, Target]:
        """Each component is a target with its instances; of one that is scaled, with its ingress."""
        with self._lock:
            launches, scaled = list(self._launches), dict(self._scaled)
        known = {launch.planned.component_name for launch in launches} | set(scaled)
        return {
            name: Target(
                name,
                (scaled[name].entrance(self._addresses.get((LOAD, name))),)
                if name in scaled
                else tuple(self._instance(item) for item in launches if item.planned.component_name == name),
                transport=component.filled(self._secrets.placeholders),
                instance_header=INSTANCE_HEADER if name in scaled else None,
                cold_header=COLD_HEADER if name in scaled else None,
            )
            for name, component in self._config.resolved().items()
            if name in known
        }

    def instances_now(self) -> Sequence[Instance]:
        """Every instance that runs at this moment; see `base.HasChangingInstances`."""
        with self._lock:
            launches, scaled = list(self._launches), list(self._scaled.values())
        return [*map(self._instance, launches), *(one for of in scaled for one in of.instances())]

    def scaling_journal(self) -> Journal | None:
        """What scaled components went through; see `scaling.journal.SeenScaling`."""
        return self._journal if self._scaled else None

    def unsettled(self, *, cpu_below: float | None, replicas: bool) -> str:
        """What keeps scaled components from where they began; see `base.KnowsBaseline`."""
        del cpu_below  # of this machine, which is looked at anyhow
        found = [one.unsettled() for one in self._scaled.values()] if replicas else []
        return "; ".join(words for words in found if words)

    def above_zero(self) -> str:
        """Which scaled components still have instances; see `base.ScalesToZero`."""
        if not self._scaled:
            return "`replicas: zero` is for components with `scaling`; this deployment has none"
        return "; ".join(words for one in self._scaled.values() if (words := one.above_zero()))

    @property
    def guard_pid(self) -> int | None:
        """One of Towtank's own processes, for telling its load from the system's."""
        return self._guard.pid

    def mask(self, text: str) -> str:
        """Replace every secret value in a text that is about to be written somewhere."""
        return self._secrets.mask(text)

    def events(self) -> Sequence[SystemEvent]:
        """Instances that ended or lost a process to the kernel's out-of-memory killer.

        Raises
        ------
        PlatformError
            The guard is gone though nobody removed the deployment.
        """
        if self._guard_ready is not None and not self._ending.is_set():
            self._note_oom_kills()
            # In this order: a guard that we end ourselves is not alive either, but then we say so before.
            if not self._guard.alive and not self._ending.is_set():
                raise self._guard.death()
            if self._edges is not None and edge_proxy.INSTANCE not in self._guard.running():
                raise PlatformError(
                    f"the proxy of the edges has ended; its words are in {edge_proxy.INSTANCE}.log"
                )
            lost = [one for one in self._scaled.values() if not one.ingress_alive]
            if lost and not self._ending.is_set():
                raise lost[0].ingress_lost()
        return self._happened()

    def _happened(self) -> Sequence[SystemEvent]:
        launches = {launch.request.id: launch for launch in self._everyone()}
        with self._lock:
            noted = dict(self._oom_events)
        found = list(noted.values())
        for ended in self._exits():
            launch = launches[ended.id]
            if not ended.expected:
                event = facts.exit_event(ended, launch, noted=ended.id in noted)
                scaled = self._scaled.get(launch.planned.component_name)
                of = {} if scaled is None else {"of": scaled.beside(ended.id)}
                found.append(replace(event, detail={**event.detail, **of}))
            elif ended.oom_killed and ended.id not in noted:
                found.append(facts.oom_event(ended.id, ended.t_ns, launch, "it was noticed at the end"))
        return sorted(found, key=lambda event: event.t_ns)

    def _note_oom_kills(self) -> None:
        """Notice processes that the kernel killed while their instance went on."""
        launches = self._everyone()
        if not any(item.request.memory_bytes for item in launches) or not self._guard.running():
            return
        try:
            status = self._guard.status()
        except PlatformError:
            return  # the next look says that the guard is gone
        for launch in launches:
            name = launch.request.id
            now = status.get(name, {})
            with self._lock:
                if now.get("oom_kills") and now.get("running") and name not in self._oom_events:
                    self._oom_events[name] = facts.oom_event(
                        name, time.monotonic_ns(), launch, "the instance goes on"
                    )

    def describe(self) -> dict[str, Any]:
        """Facts for run.json; secrets are masked."""
        with self._lock:
            launches, spawned = list(self._launches), dict(self._spawned)
        ready = self._guard_ready
        return {
            "platform": "local",
            "instances": [facts.describe(item, spawned.get(item.request.id)) for item in launches],
            **(
                {"scaling": {name: of.describe() for name, of in self._scaled.items()}}
                if self._scaled
                else {}
            ),
            "guard": vars(ready) if ready else None,
            "starts_for_ports": self._port_attempts,
            "inherited_variables": list(INHERITED_VARIABLES),
            "python": sys.version.split()[0],
        }

    def _instance(self, launch: Launch) -> Instance:
        spawned = self._spawned[launch.request.id]
        url = self._addresses.get((LOAD, launch.request.id), launch.planned.url)
        return Instance(launch.request.id, url, spawned.pid, spawned.start_ticks, spawned.cgroup)

    def _exits(self) -> list[Exited]:
        with self._lock:
            ignored = self._ignored_exits
        return [ended for ended in self._guard.exits()[ignored:] if ended.id != edge_proxy.INSTANCE]

    def logs(self) -> Sequence[LogFile]:
        """Output of all instances up to now; see `base.WritesLogs`."""
        requests = [item.request for item in self._everyone()]
        return facts.log_files(requests, self._guard.exits(), self._guard.status())

    # --- being disturbed -------------------------------------------------------------------------------------

    @property
    def data_folder(self) -> Path:
        """`{data}`."""
        return self._context.data_dir

    def victims(self, target: str) -> Sequence[str]:
        """Instances of a component that run; see `base.HasVictims`."""
        running, scaled = self._guard.running(), self._scaled.get(target)
        there = self.targets[target].instances if scaled is None else scaled.instances()
        return [instance.name for instance in there if instance.name in running]

    def kill_instance(self, name: str, *, grace_s: float) -> None:
        """End an instance with all its processes; the guard counts it as expected, so it is no crash."""
        self._guard.stop(name, signal="TERM" if grace_s > 0 else "KILL", grace_s=grace_s)

    def restart_instance(self, name: str) -> None:
        """Start an instance again with the command, the port and the log that it had; a scaled one was replaced."""
        launch = self._launch(name)
        if launch.planned.component_name in self._scaled:
            return
        if not self._guard.wait_gone(name, launch.request.grace_ms / 1000 + _STOP_MARGIN_S):
            raise PlatformError(f"instance {name} has not ended yet, so it cannot be started again")
        spawned = self._guard.spawn(launch.request)
        with self._lock:
            self._spawned[name] = spawned

    def stop_instance(self, name: str, *, lasts_s: float | None = None) -> Undo:
        """Stop every process of an instance; see `base.StopsInstances`. The guard ends it when Towtank does."""
        del lasts_s
        self._guard.signal(name, "STOP")
        return lambda: self._guard.signal(name, "CONT")

    def limit_cpu(self, name: str, cores: float, *, lasts_s: float | None = None) -> Undo:
        """Lower the CPU limit of an instance's control group; see `base.LimitsCpu`."""
        del lasts_s
        found = next((one for one in self.instances_now() if one.name == name), None)
        return CpuQuota.of(found.cgroup if found is not None else ()).lower(cores)

    def disturb_edge(self, edge: Edge, instance: str, trouble: EdgeTrouble) -> Undo:
        """Disturb calls over an edge to one instance; see `base.HasEdges`."""
        if self._edges is None:
            raise PlatformError(f"no call from {edge.source} to {instance} goes through a proxy")
        return self._edges.disturb(edge, instance, trouble)

    def _launch(self, name: str) -> Launch:
        return next(launch for launch in self._everyone() if launch.request.id == name)

    # --- going -----------------------------------------------------------------------------------------------

    def remove(self) -> Sequence[LogFile]:
        """End every process, children included; repeated calls give the same answer."""
        self._ending.set()
        with self._removing:
            if self._removed is None:
                self._end()
                requests = [launch.request for launch in self._everyone()]
                for request in requests:
                    with contextlib.suppress(OSError):
                        self._secrets.mask_file(request.log)
                self._removed = tuple(facts.log_files(requests, self._guard.exits()))
            return self._removed

    def _end(self) -> None:
        grace_s = max((c.stop.grace for c in self._config.resolved().values()), default=0.0)
        if self._edges is not None:
            self._edges.close()
        self._stop_scaling()
        stops = {item.request.id: item.planned.component.stop for item in self._everyone()}
        with contextlib.suppress(PlatformError):  # a guard that is gone has nothing to stop; swept below
            self._note_oom_kills()
            for name in sorted(self._guard.running()):
                stop = stops.get(name)
                self._guard.stop(
                    name, signal=stop.signal if stop else "KILL", grace_s=stop.grace if stop else 0.0
                )
            self._guard.wait_ended(grace_s + _STOP_MARGIN_S)
        if not self._guard.close(grace_s=grace_s):
            guards.sweep(self._binary, self._context.token)
