"""One component of a local deployment that is scaled: its ingress, its controller, and the processes it starts."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms import local_facts as facts
from towtank.platforms import output
from towtank.platforms.base import Cancelled, DeployContext, Instance
from towtank.platforms.guard import Guard
from towtank.platforms.guard_messages import Exited, Spawned
from towtank.platforms.launch import Launch, Planned, prepare, spawn
from towtank.platforms.local_config import MAX_REPLICAS, Component
from towtank.platforms.masking import Secrets
from towtank.platforms.ports import LOOPBACK, reserve_free
from towtank.platforms.readiness import DEFAULT_INTERVAL_S
from towtank.platforms.scaling.config import Scaling
from towtank.platforms.scaling.controller import Controller, Made
from towtank.platforms.scaling.hpa import HpaPolicy
from towtank.platforms.scaling.ingress import Ingress
from towtank.platforms.scaling.journal import Journal
from towtank.platforms.scaling.kpa import KpaPolicy
from towtank.platforms.scaling.openwhisk import OpenWhiskPolicy
from towtank.platforms.scaling.policy import Policy
from towtank.units import format_duration

PROBE_EVERY_MS = 25
"""How often a new instance is asked, where `ready.interval` says nothing: as Knative's queue-proxy does."""
_PROBE_TIMEOUT_MS = 1000
_NAP_S = 0.02
_GIVE_UP_S = 5.0
"""The ingress gives an instance up when its time is over, and says what it saw: that is waited for."""


class ScaledComponent:
    """Instances that come and go behind one address.

    Parameters
    ----------
    entrance : Planned
        Its ingress: name, component and port.
    everyone : sequence of Planned
        Whose addresses its instances may be given.
    guard : Guard
        Runs its instances.
    ingress : Path
        The program.
    context : DeployContext
    secrets : Secrets
    ways : mapping
        As in `launch.prepare`.
    journal : Journal
    """

    def __init__(
        self,
        entrance: Planned,
        everyone: Sequence[Planned],
        *,
        guard: Guard,
        ingress: Path,
        context: DeployContext,
        secrets: Secrets,
        ways: Mapping[tuple[str, str], str],
        journal: Journal,
    ) -> None:
        self._entrance = entrance
        self._everyone = everyone
        self._guard = guard
        self._context = context
        self._secrets = secrets
        self._ways = ways
        self._lock = threading.Lock()
        self._launches: dict[str, Launch] = {}
        self._spawned: dict[str, Spawned] = {}
        self._of: dict[str, int] = {}
        self._ingress = Ingress(
            ingress,
            entrance.name,
            token=context.token,
            log=context.log_dir.absolute() / f"{entrance.name}-ingress.log",
            heard=self._heard,
        )
        component, scaling = entrance.component, _scaling(entrance.component)
        self._controller = Controller(
            entrance.component_name,
            policy_of(entrance.component_name, component, scaling),
            self._ingress,
            self,
            journal,
            concurrency=scaling.concurrency,
            probe=_probe(component),
            most=MAX_REPLICAS,
        )

    @property
    def name(self) -> str:
        """Of the component."""
        return self._entrance.component_name

    def start(self) -> None:
        """Start the ingress and the first instances.

        Raises
        ------
        PlatformError
        """
        component = self._entrance.component
        self._entrance.reservation.release()
        self._ingress.start(self._entrance.port, grace_s=component.stop.grace)
        self._controller.start(_scaling(component).limits())

    def wait_ready(self, *, cancelled: Cancelled) -> None:
        """Block until the first instances take requests; see `Deployment.wait_ready`."""
        ready = self._entrance.component.ready
        until_s = time.monotonic() + ready.timeout + _GIVE_UP_S
        while self._controller.unsettled():
            cancelled()
            self._raise_if_one_failed()
            if time.monotonic() > until_s:
                raise ReadinessTimeout(
                    f"deployment {self._context.name!r}: {self._controller.unsettled()}, within "
                    f"{format_duration(ready.timeout)}",
                    hint="give it more time with `ready.timeout`, or look at the logs of its instances",
                )
            time.sleep(_NAP_S)

    def _raise_if_one_failed(self) -> None:
        """An instance that ended, or never answered its probe, before anything was asked of it."""
        if self._controller.problem is not None:
            raise self._controller.problem
        if not self._ingress.alive:
            raise self.ingress_lost()
        for ended in self._guard.exits():
            launch = self.launches().get(ended.id)
            if launch is not None and not ended.expected:
                raise PlatformError(
                    f"deployment {self._context.name!r}: instance {ended.id} ended before it was ready: "
                    f"{facts.how(ended, launch)}{self._last_words(launch)}",
                    hint=f"its command is {list(launch.shown_command)}, its whole log {launch.request.log}",
                )
        life = self._controller.never_answered
        if life is not None:
            launch, ready = self.launches()[life.name], self._entrance.component.ready
            raise ReadinessTimeout(
                f"deployment {self._context.name!r}: instance {life.name} was not ready within "
                f"{format_duration(ready.timeout)}; {ready.probe} at {launch.planned.url} saw last: "
                f"{life.given_up}{self._last_words(launch)}",
                hint="does it listen on {port} of 127.0.0.1? else give it more time with `ready.timeout`",
            )

    def _last_words(self, launch: Launch) -> str:
        return self._secrets.mask(output.quoted(launch.request.log))

    def ingress_lost(self) -> PlatformError:
        """Say that the ingress is gone, which nothing of the load can have caused."""
        return PlatformError(
            f"the ingress of {self.name} has ended; its words are in {self.name}-ingress.log"
        )

    # --- being looked at -------------------------------------------------------------------------------------

    @property
    def ingress_alive(self) -> bool:
        """Whether it runs."""
        return self._ingress.alive

    def entrance(self, url: str | None) -> Instance:
        """The address that requests go to, as the one instance that the load knows."""
        pid, start_ticks = self._ingress.identity or (None, None)
        return Instance(self.name, url or self._entrance.url, pid, start_ticks)

    def instances(self) -> list[Instance]:
        """Instances that are there now, each with its own address."""
        with self._lock:
            spawned, launches = dict(self._spawned), dict(self._launches)
        return [
            Instance(name, launches[name].planned.url, one.pid, one.start_ticks, one.cgroup)
            for life in self._controller.lives
            if (name := life.name) in launches and (one := spawned.get(name)) is not None
        ]

    def launches(self) -> dict[str, Launch]:
        """Every instance that was ever started, by name."""
        with self._lock:
            return dict(self._launches)

    def beside(self, name: str) -> int:
        """How many instances there were when one ended by itself, itself included; at least 1."""
        return max(1, self._of.get(name, 1))

    def unsettled(self) -> str:
        """What keeps it from where it began; empty when nothing does."""
        return self._controller.unsettled()

    def above_zero(self) -> str:
        """How many instances there are, in words; empty when there is none."""
        count = len(self._controller.lives)
        return f"{self.name} has {count} {'instance' if count == 1 else 'instances'}" if count else ""

    def describe(self) -> dict[str, Any]:
        """Facts for run.json."""
        scaling = _scaling(self._entrance.component)
        return {
            "emulates": scaling.emulated,
            "settings": scaling.model_dump(mode="json", exclude_none=True),
            "ingress": self._ingress.facts(),
            "instances_made": len(self.launches()),
        }

    # --- starting and ending ---------------------------------------------------------------------------------

    def name_of(self, number: int) -> str:
        """Name of the n-th instance; none is used twice."""
        return f"{self.name}-{number}"

    def make(self, number: int) -> Made:
        """Start one; see `Maker.make`."""
        name, component = self.name_of(number), self._entrance.component
        planned = Planned(name, self.name, component, number, reserve_free())
        try:
            (launch,) = prepare([planned], self._context, self._secrets, self._ways, everyone=self._everyone)
        finally:
            planned.reservation.release()
        with self._lock:
            self._launches[name] = launch
        spawned = spawn(launch, self._guard, self._context, self._secrets)
        with self._lock:
            self._spawned[name] = spawned
        return Made(f"{LOOPBACK}:{planned.port}", spawned.pid, time.monotonic_ns())

    def end(self, name: str) -> None:
        """Ask one to end."""
        stop = self._entrance.component.stop
        self._guard.stop(name, signal=stop.signal, grace_s=stop.grace)

    def exited(self, ended: Exited) -> None:
        """Hear from the guard that an instance is gone; never blocks."""
        if not ended.expected:
            self._of[ended.id] = len(self._controller.lives)
        self._controller.exited(ended)

    def stop_scaling(self) -> None:
        """Start nothing any more, and take no new requests."""
        self._controller.close()
        self._ingress.close(grace_s=self._entrance.component.stop.grace)

    def _heard(self, event: Mapping[str, Any]) -> None:
        self._controller.heard(event)


def policy_of(name: str, component: Component, scaling: Scaling) -> Policy:
    """The policy of a component's `scaling`."""
    now_s = time.monotonic()
    if scaling.kpa is not None:
        return KpaPolicy(scaling.kpa, now_s)
    if scaling.hpa is not None:
        request = scaling.hpa.cpu_request or component.limits.cpu
        return HpaPolicy(scaling.hpa, cpu_request=request, t_s=now_s)
    if scaling.openwhisk is not None:
        return OpenWhiskPolicy(scaling.openwhisk, name)
    return Policy(scaling.fixed or 1)


def _scaling(component: Component) -> Scaling:
    if component.scaling is None:
        raise AssertionError("only components with `scaling` are scaled")
    return component.scaling


def _probe(component: Component) -> dict[str, Any]:
    """What the ingress asks each new instance."""
    ready = component.ready
    every = PROBE_EVERY_MS if ready.interval == DEFAULT_INTERVAL_S else max(1, round(ready.interval * 1000))
    found: dict[str, Any] = {
        "every_ms": every,
        "timeout_ms": _PROBE_TIMEOUT_MS,
        "give_up_ms": round(ready.timeout * 1000),
    }
    return found if ready.http is None else {"path": ready.http, **found}
