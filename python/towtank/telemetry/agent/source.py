"""The `agent` source: starts agents, fetches what they saw, and puts it on the run's clock at the end."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from towtank.errors import EngineError, PlatformError, TelemetryError
from towtank.platforms.kubernetes import rights
from towtank.platforms.kubernetes.connection import Connection
from towtank.platforms.kubernetes.control import FORWARDED
from towtank.platforms.kubernetes.view import ClusterView
from towtank.telemetry import cluster
from towtank.telemetry.agent.connection import ANSWER_WITHIN_S, Agent, Taken
from towtank.telemetry.agent.containers import Containers, Seen
from towtank.telemetry.agent.daemon_set import DaemonSet
from towtank.telemetry.agent.elsewhere import Here, OverSsh, Place
from towtank.telemetry.agent.options import AgentOptions
from towtank.telemetry.agent.readings import Readings, in_order, instance_of, together
from towtank.telemetry.base import Event, Gap, ObserveContext, Sample
from towtank.telemetry.options import read_options

AT_ONCE = 8
"""Agents that are asked side by side."""
_TRY_EVERY_S = 0.3
_LOST = (
    "What this machine did meanwhile is missing, but for what its agent still has when it is reached again."
)
_MISSED = "Instants of containers around then are those at which they were noticed."
_LEFT = "`towtank clean` tries again."
_NO_IMAGE = "it needs the engine's image: `agent: {image: …}` (docs/workers.md says how to make one)"


class AgentSource:
    """Samples processors, memory, disks, network, pressure and mounts of machines; tells starts of containers."""

    name = "agent"
    patience_s = 2 * ANSWER_WITHIN_S + 200.0
    """Agents that answer no more, and the removal of what was created."""

    def __init__(self) -> None:
        self._context: ObserveContext | None = None
        self._view: ClusterView | None = None
        self._place: Place | None = None
        self._agents: dict[str, Agent] = {}
        self._readings: dict[str, Readings] = {}
        self._untold: Collection[Readings] = ()
        self._since_ns: dict[str, int] = {}
        self._gone: set[str] = set()
        self._lost: set[str] = set()
        self._containers: Containers | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._events: list[Event] = []
        self._gaps: list[Gap] | None = None
        self._facts: dict[str, Any] = {}

    def look_ahead_at(
        self, options: Mapping[str, Any], deployments: Sequence[Any], root: Path
    ) -> Sequence[str]:
        """Whether agents could be started in the clusters of these deployments."""
        read = read_options(self.name, AgentOptions, options)
        if read.hosts is not None:
            return []

        def ask(connection: Connection, namespace: str | None) -> list[str]:
            del namespace  # theirs is their own
            if read.image is None:
                return [_NO_IMAGE]
            wanted = rights.of_source(self.name, read.namespace)
            if read.control == FORWARDED:
                wanted += rights.of_forwarding(read.namespace, optional=False)
            lacking = rights.missing(connection.api, wanted, optional=True)
            return rights.told(lacking, "; docs/kubernetes.md grants it")

        return cluster.ask_clusters(deployments, root, ask)

    def start(self, context: ObserveContext) -> None:
        """Start all agents, and wait until each answers."""
        options = read_options(self.name, AgentOptions, context.options)
        self.close()
        self._context, self._view = context, cluster.view_of(context)
        self._agents, self._readings, self._since_ns, self._gone = {}, {}, {}, set()
        self._lost, self._events, self._gaps, self._facts = set(), [], None, {}
        self._containers = Containers(context.clock, self.name)
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="towtank-agent")
        until_s = time.monotonic() + options.start_timeout
        try:
            self._place = self._placed(options, context)
            self._place.start(until_s)
            self._meet_all(until_s)
        except BaseException as error:
            told: BaseException = error
            if isinstance(error, EngineError | PlatformError):
                told = TelemetryError(f"telemetry source {self.name!r}: {error.message}", hint=error.hint)
            if (left := self._shut()) is not None:  # the first error is the one that matters
                told.add_note(f"while removing the agents: {left}")
            if told is error:
                raise
            raise told from error

    def _placed(self, options: AgentOptions, context: ObserveContext) -> Place:
        if context.helpers is None:
            raise TelemetryError("telemetry source 'agent' cannot start anything here")
        if options.hosts is not None:
            return OverSsh(options.hosts, options, context.helpers.declare("agents"), context.interval_s)
        if self._view is None:
            return Here(options, context.helpers.declare("agents"), context.interval_s)
        if options.image is None:
            raise TelemetryError(f"telemetry source 'agent': in a cluster {_NO_IMAGE}")
        helper = context.helpers.declare("agents", platform="kubernetes")
        return DaemonSet(self._view, options, helper, context.interval_s)

    def _meet_all(self, until_s: float) -> None:
        """Reach every agent once."""
        while True:
            self._find()
            asked = self._ask_all()
            for name, taken, _ in asked:
                if taken is not None:
                    self._keep(name, taken, 0)
            failed = [
                error for name, _, error in asked if error is not None and not self._readings[name].is_away
            ]
            if not failed:
                now_ns = time.monotonic_ns()
                for name, readings in self._readings.items():
                    readings.delays_ns.clear()  # what was read before anybody asked had to wait for that
                    self._since_ns[name] = now_ns  # nor is it missing what was not read while it came up
                return
            hopeless = [error for error in failed if isinstance(error, PlatformError)]
            if hopeless or time.monotonic() >= until_s:
                raise (hopeless or failed)[0]
            time.sleep(_TRY_EVERY_S)

    def _find(self) -> None:
        """Agents of machines that came, and of those that are gone."""
        place, context, now_ns = self._place, self._context, time.monotonic_ns()
        if place is None or context is None:
            return
        for name in place.names():
            if name not in self._agents:
                self._agents[name] = Agent(name, lambda name=name: place.reach(name))  # type: ignore[misc]
                self._readings[name] = Readings(name, context.interval_s)
                self._since_ns[name] = now_ns
            state = place.state(name)
            self._readings[name].note_away(now_ns, away=state != "ready")
            if state != "gone":
                self._gone.discard(name)
            elif name not in self._gone:
                self._gone.add(name)
                self._agents[name].drop()

    def sample(self, t_us: int) -> Iterable[Sample]:
        """Fetch what agents have seen; it is yielded by `close`, with its own times.

        Raises
        ------
        TelemetryError
            No agent answers.
        """
        if self._pool is None:
            return []
        try:
            self._find()
        except PlatformError as error:  # who else there is, is asked again at the next reading
            self._facts["nodes_unknown"] = error.message
        failed: list[EngineError | PlatformError] = []
        asked = self._ask_all()
        for name, taken, problem in asked:
            if problem is not None:
                failed.append(problem)
                self._lose(name, problem, t_us)
            elif taken is not None:
                self._keep(name, taken, t_us)
        if self._containers is not None:
            self._events += self._containers.events(self._view.pods if self._view is not None else ())
        away = all(self._readings[name].is_away for name, _, _ in asked)
        if failed and len(failed) == len(asked) and not away:
            raise TelemetryError(failed[0].message)
        return []

    def _ask_all(self) -> list[tuple[str, Taken | None, EngineError | PlatformError | None]]:
        pool = self._pool
        if pool is None:
            return []
        asked = [
            (name, pool.submit(agent.take)) for name, agent in self._agents.items() if name not in self._gone
        ]
        found: list[tuple[str, Taken | None, EngineError | PlatformError | None]] = []
        for name, answer in asked:
            try:
                found.append((name, answer.result(), None))
            except (EngineError, PlatformError) as error:
                found.append((name, None, error))
        return found

    def _lose(self, name: str, error: EngineError | PlatformError, t_us: int) -> None:
        readings = self._readings[name]
        readings.trouble(time.monotonic_ns(), error.message)
        if name not in self._lost:
            self._lost.add(name)
            event = Event(t_us, self.name, "agent_lost", instance_of(name, ""), error.message)
            # The silence of a node that is not Ready is what the run did to it: nobody has to do anything.
            self._events.append(event if readings.is_away else cluster.advised(event, _LOST))

    def _keep(self, name: str, taken: Taken, t_us: int) -> None:
        now_ns, readings = time.monotonic_ns(), self._readings[name]
        if taken.lost:
            readings.trouble(now_ns, taken.lost)
        if name in self._lost:
            self._lost.discard(name)
            self._events.append(
                Event(t_us, self.name, "agent_back", instance_of(name, ""), "its agent answers again")
            )
        for item in taken.items:
            try:
                if "values" in item:
                    readings.add(item, taken.clock, now_ns)
                else:
                    self._note_container(name, item, taken, t_us)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                readings.trouble(now_ns, f"its agent told something that makes no sense: {error!r}")

    def _note_container(self, name: str, item: Mapping[str, Any], taken: Taken, t_us: int) -> None:
        relation = taken.clock.relation
        t_ns = relation.here_ns(int(item["t_ns"]))
        if item["container"] == "missed":
            words = "more happened to containers at once than the kernel keeps, or some cannot be watched"
            event = Event(t_us, self.name, "containers_missed", instance_of(name, ""), words)
            self._events.append(cluster.advised(event, _MISSED))
        elif self._containers is not None:
            seen = Seen(t_ns, relation.uncertainty_ns, name, item["container"], item["pod"], item["id"])
            self._containers.saw(seen)

    def events(self) -> Iterable[Event]:
        """What was noticed since the last call."""
        events, self._events = self._events, []
        return events

    def gaps(self) -> Sequence[Gap] | None:
        """Times in which some machine was not seen."""
        return self._gaps

    def facts(self) -> Mapping[str, Any]:
        """Where agents stood, how well their clocks are known, and how long a reading took to be here."""
        return self._facts

    def close(self) -> Iterable[Sample]:
        """Fetch the last readings, end all agents, and yield everything.

        What could not be removed is an event, never lost readings; another call tries again.
        """
        context = self._context
        if context is None:
            return ()
        left: Exception | None = None
        try:
            if self._pool is not None:
                self._end(context)
        finally:
            left = self._shut()
        if left is not None:
            words = f"the agents could not be removed: {left}"
            event = Event(context.clock.now_us(), self.name, "agents_left", "", words)
            self._events.append(cluster.advised(event, _LEFT))
        readings, self._untold = self._untold, ()
        return in_order(readings, context.clock, self.name)

    def _end(self, context: ObserveContext) -> None:
        """What is known at the end, before anything is removed."""
        self._untold = self._readings.values()
        for agent in self._agents.values():
            agent.hurry()
        ended_ns = (
            time.monotonic_ns()
        )  # what is read while the last is fetched stays there, and is not missing
        with contextlib.suppress(TelemetryError):  # they were lost before, and that was said
            self.sample(context.clock.now_us())
        for agent in self._agents.values():
            agent.finish()
        self._gaps = together(
            gap
            for name, one in self._readings.items()
            for gap in one.gaps(context, self.name, self._since_ns[name], ended_ns)
        )
        self._facts |= self._told()

    def _told(self) -> dict[str, Any]:
        delays_s = sorted(ns / 1e9 for one in self._readings.values() for ns in one.delays_ns)
        facts: dict[str, Any] = {"agents": [agent.facts() for agent in self._agents.values()]}
        if len(delays_s) > 1:
            parts = statistics.quantiles(delays_s, n=20, method="inclusive")
            facts["delay_s"] = {
                "p50": round(parts[9], 4),
                "p95": round(parts[18], 4),
                "max": round(delays_s[-1], 4),
            }
        return facts

    def _shut(self) -> Exception | None:
        """End everything; why something is left, if so. Its place is kept, so that it can be tried again."""
        for agent in self._agents.values():
            agent.drop()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self._pool, self._view = None, None
        try:
            if self._place is not None:
                self._place.close()
        except (EngineError, PlatformError, OSError) as error:
            return error
        self._place = None
        return None
