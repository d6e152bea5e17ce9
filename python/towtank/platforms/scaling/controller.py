"""Carries out what a policy wants: starts instances, lets the ingress drain them, ends them, and writes it down.

It has a thread of its own, to which the ingress and the guard only hand what they hear: they never wait for it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from towtank.errors import PlatformError
from towtank.platforms.guard_messages import Exited
from towtank.platforms.scaling.journal import Journal
from towtank.platforms.scaling.lives import Life, to_end
from towtank.platforms.scaling.policy import Policy, Seen, Shortage, Wanted
from towtank.platforms.scaling.seam import NS_PER_S, Stats

FIRST_BACKOFF_S, LONGEST_BACKOFF_S, FORGIVEN_S = 10.0, 300.0, 600.0
"""After an instance that ended by itself: none the first time, then these, as kubelets do (CrashLoopBackOff)."""
DRAIN_TIMEOUT_S = 300.0
"""Longest time for requests of an instance that is to go, as Knative's default timeout of a revision."""
_POLL_S = 0.5


@dataclass(frozen=True)
class Made:
    """An instance that was started."""

    address: str
    pid: int
    started_ns: int


class Maker(Protocol):
    """Starts and ends the processes."""

    def name_of(self, number: int) -> str:
        """Name of the n-th instance."""

    def make(self, number: int) -> Made:
        """Start it.

        Raises
        ------
        PlatformError
        """

    def end(self, name: str) -> None:
        """Ask it to end; the guard says when it has."""


class Tells(Protocol):
    """The ingress, as far as it is told things."""

    def send(self, **command: Any) -> None:  # noqa: ANN401 - of any field
        """One command."""


class Controller:
    """Keeps as many instances as a policy wants.

    Parameters
    ----------
    component : str
    policy : Policy
    ingress : Tells
    maker : Maker
    journal : Journal
    concurrency : int
        Requests that an instance takes at a time; 0 is no limit.
    probe : mapping
        What the ingress asks a new instance, as in its command `add`.
    most : int
        Instances at once, whatever the policy wants.
    """

    def __init__(
        self,
        component: str,
        policy: Policy,
        ingress: Tells,
        maker: Maker,
        journal: Journal,
        *,
        concurrency: int,
        probe: Mapping[str, Any],
        most: int,
    ) -> None:
        self._component = component
        self._policy = policy
        self._ingress = ingress
        self._maker = maker
        self._journal = journal
        self._concurrency = concurrency
        self._probe = dict(probe)
        self._most = most
        self._queue: queue.SimpleQueue[Mapping[str, Any] | Exited | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"scaling {component}", daemon=True)
        self._lock = threading.Lock()
        self._lives: dict[str, Life] = {}
        self._made = 0
        self._replicas = policy.at_start
        self._crashes: list[float] = []
        self._not_before_s = 0.0
        self._closing = False
        self._problem: PlatformError | None = None
        self._never_answered: Life | None = None

    # --- from other threads ----------------------------------------------------------------------------------

    def start(self, limits: Mapping[str, object]) -> None:
        """Tell the ingress its limits, start the first instances, and begin to listen.

        Raises
        ------
        PlatformError
            One of the first instances cannot be started.
        """
        self._ingress.send(cmd="limits", **limits)
        self._apply(Wanted(self._policy.at_start), time.monotonic_ns())
        if self._problem is not None:
            raise self._problem
        self._thread.start()

    def heard(self, event: Mapping[str, Any]) -> None:
        """Take an event of the ingress; never blocks."""
        self._queue.put(event)

    def exited(self, ended: Exited) -> None:
        """Take the end of an instance; never blocks."""
        self._queue.put(ended)

    def close(self) -> None:
        """Start nothing any more; instances are the guard's to end."""
        self._closing = True
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    @property
    def lives(self) -> list[Life]:
        """Instances that are there, in the order of their creation."""
        with self._lock:
            return list(self._lives.values())

    @property
    def problem(self) -> PlatformError | None:
        """Why an instance could not be started, the last time; None when all could."""
        return self._problem

    @property
    def never_answered(self) -> Life | None:
        """The last instance that never answered its probe."""
        return self._never_answered

    def unsettled(self) -> str:
        """What keeps it from where it began, in words; empty when nothing does."""
        lives = self.lives
        ready, at_start = sum(life.is_ready for life in lives), self._policy.at_start
        if ready == at_start == len(lives) == self._replicas:
            return ""
        return (
            f"{self._component} has {ready} of {len(lives)} instances ready, and {self._replicas} are wanted; "
            f"at the start there were {at_start}"
        )

    # --- the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            with contextlib.suppress(queue.Empty):
                item = self._queue.get(timeout=_POLL_S)
                if item is None:
                    return
                if isinstance(item, Exited):
                    self._on_exit(item)
                else:
                    self._on_event(item)
            if self._not_before_s and time.monotonic() >= self._not_before_s:
                self._not_before_s = 0.0
                self._converge(time.monotonic_ns())

    def _on_event(self, event: Mapping[str, Any]) -> None:
        handle: Callable[[Mapping[str, Any]], None] | None = {
            "stats": self._on_stats,
            "wanted": self._on_wanted,
            "instance_ready": self._on_ready,
            "instance_unready": self._on_unready,
            "gave_up": self._on_gave_up,
            "first_request": self._on_first_request,
            "drained": self._on_drained,
        }.get(event.get("event", ""))
        if handle is not None:
            with contextlib.suppress(KeyError, TypeError):  # a newer ingress may say more, not less
                handle(event)

    def _on_stats(self, event: Mapping[str, Any]) -> None:
        stats = Stats.read(event)
        self._journal.numbers(stats.to_ns, self._component, _numbers(stats))
        self._apply(self._policy.look(Seen(stats, self.lives)), stats.to_ns)
        for life in self.lives:
            waited_s = (stats.to_ns - (life.ending_ns or stats.to_ns)) / NS_PER_S
            if waited_s > DRAIN_TIMEOUT_S and not life.stopped:
                self._stop(life)

    def _on_wanted(self, event: Mapping[str, Any]) -> None:
        starting = sum(life.is_wanted and not life.answers for life in self.lives)
        t_ns = int(event["t_ns"])
        wanted = self._policy.short(Shortage(t_ns / NS_PER_S, event["held"], event["ready"], starting))
        if wanted is not None:
            self._apply(wanted, t_ns)

    def _on_ready(self, event: Mapping[str, Any]) -> None:
        life = self._lives.get(event["instance"])
        if life is not None:
            life.answers, life.changed_ns = True, event["t_ns"]
            life.ready_ns = life.ready_ns or event["t_ns"]
            self._step(event["t_ns"], life, "ready", probes=event.get("probes"))
            self._counted(event["t_ns"])

    def _on_unready(self, event: Mapping[str, Any]) -> None:
        life = self._lives.get(event["instance"])
        if life is not None:
            life.answers, life.changed_ns = False, event["t_ns"]
            self._step(event["t_ns"], life, "unready", reason=event.get("reason", ""))
            self._counted(event["t_ns"])

    def _on_gave_up(self, event: Mapping[str, Any]) -> None:
        """An instance that never answered its probe is replaced, as one that has ended."""
        life = self._lives.get(event["instance"])
        if life is not None:
            life.given_up = str(event.get("reason", "it did not answer"))
            self._never_answered = life
            self._step(event["t_ns"], life, "gave_up", reason=life.given_up)
            self._end(life, event["t_ns"])
            self._back_off()

    def _on_first_request(self, event: Mapping[str, Any]) -> None:
        life = self._lives.get(event["instance"])
        if life is not None:
            life.first_request_ns = event["t_ns"]
            self._step(event["t_ns"], life, "first_request", held_ns=event.get("held_ns", 0))

    def _on_drained(self, event: Mapping[str, Any]) -> None:
        life = self._lives.get(event["instance"])
        if life is not None and not life.is_wanted and not life.stopped:
            self._stop(life)

    def _on_exit(self, ended: Exited) -> None:
        with self._lock:
            life = self._lives.pop(ended.id, None)
        if life is None:
            return
        self._ingress.send(cmd="remove", instance=life.name)
        self._step(ended.t_ns, life, "gone", code=ended.code, signal=ended.signal, expected=ended.expected)
        if life.is_wanted:
            self._policy.gone(life.name)
            if not ended.expected:
                self._back_off()
        self._counted(ended.t_ns)
        self._converge(time.monotonic_ns())

    # --- carrying out ----------------------------------------------------------------------------------------

    def _apply(self, wanted: Wanted, t_ns: int) -> None:
        if wanted.limits:
            self._ingress.send(cmd="limits", **wanted.limits)
        if wanted.values:
            self._journal.numbers(t_ns, self._component, wanted.values)
        if wanted.replicas != self._replicas:
            self._journal.step(
                t_ns,
                self._component,
                "",
                "scaled",
                before=self._replicas,
                now=wanted.replicas,
                note=wanted.note,
            )
        self._replicas = wanted.replicas
        for name in wanted.remove:
            life = self._lives.get(name)
            if life is not None and life.is_wanted:
                self._end(life, t_ns)
        self._converge(t_ns)

    def _converge(self, t_ns: int) -> None:
        """As many instances as wanted: those that are missing are started, those too many asked to go."""
        if self._closing:
            return
        there = [life for life in self.lives if life.is_wanted]
        for life in to_end(there, len(there) - self._replicas):
            self._end(life, t_ns)
            self._policy.gone(life.name)
        if time.monotonic() >= self._not_before_s:
            for _ in range(min(self._replicas, self._most) - len(there)):
                if not self._start_one(t_ns):
                    break
        self._counted(t_ns)

    def _start_one(self, t_ns: int) -> bool:
        number, self._made = self._made, self._made + 1
        life = Life(self._maker.name_of(number), number, t_ns)
        self._step(t_ns, life, "created", **self._policy.made(life.name))
        with self._lock:
            self._lives[life.name] = life
        try:
            made = self._maker.make(number)
        except PlatformError as error:
            self._problem = error
            with self._lock:
                del self._lives[life.name]
            self._policy.gone(life.name)
            self._step(time.monotonic_ns(), life, "gone", reason=error.message)
            self._back_off()
            return False
        life.pid, life.started_ns = made.pid, made.started_ns
        self._step(made.started_ns, life, "started", pid=made.pid)
        self._ingress.send(
            cmd="add",
            instance=life.name,
            address=made.address,
            concurrency=self._concurrency,
            probe=self._probe,
        )
        return True

    def _end(self, life: Life, t_ns: int) -> None:
        """Let it finish what it works on; one that takes nothing yet is ended at once."""
        life.ending_ns = t_ns
        self._step(t_ns, life, "terminating")
        self._ingress.send(cmd="drain", instance=life.name)  # also one that may get ready before it is gone
        if not life.answers:
            self._stop(life)

    def _stop(self, life: Life) -> None:
        life.stopped = True
        with contextlib.suppress(PlatformError):  # a guard that is gone has ended it already
            self._maker.end(life.name)

    def _back_off(self) -> None:
        """Wait before the next start, the longer the more often instances have ended by themselves of late."""
        now_s = time.monotonic()
        self._crashes = [at for at in self._crashes if now_s - at < FORGIVEN_S]
        if self._crashes:
            wait_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (len(self._crashes) - 1))
            self._not_before_s = now_s + wait_s
        self._crashes.append(now_s)

    def _step(self, t_ns: int, life: Life, name: str, **detail: object) -> None:
        self._journal.step(t_ns, self._component, life.name, name, **detail)

    def _counted(self, t_ns: int) -> None:
        lives = self.lives
        ready = sum(life.is_ready for life in lives)
        wanted = sum(life.is_wanted for life in lives)
        self._journal.counts(
            t_ns,
            self._component,
            {
                "replicas_desired": self._replicas,
                "replicas_current": wanted,
                "replicas_ready": ready,
                "replicas_pending": wanted - ready,
                "replicas_terminating": len(lives) - wanted,
            },
        )


def _numbers(stats: Stats) -> dict[str, float]:
    """What the ingress counted in a second."""
    per_s = 1 / stats.seconds
    return {
        "ingress_requests_per_s": stats.arrivals * per_s,
        "ingress_held": stats.held,
        "ingress_in_flight": stats.in_flight,
        "ingress_concurrency": stats.concurrency,
        "ingress_held_concurrency": stats.held_concurrency,
        **{f"ingress_made_{reason}": float(count) for reason, count in stats.made.items() if count},
        **{f"instances_answered_{status}": float(count) for status, count in stats.answered.items() if count},
    }
