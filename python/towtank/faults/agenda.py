"""Carrying out the faults of one run: a thread that begins and undoes each at its time, and keeps what happened.

Whatever happens to the load, `close` undoes all that is still on. When Towtank itself is killed, the guard ends what it
runs, and the next `towtank run` or `clean` sweeps the rest: a fault never outlives the deployment that it hits.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from towtank.errors import PlatformError, TowtankError
from towtank.faults import registry
from towtank.faults.base import Action, Order
from towtank.faults.edges import edge_of
from towtank.faults.model import ALL, ONE, RANDOM, Fault
from towtank.platforms.base import (
    Deployment,
    FaultMissed,
    HasDataFolder,
    HasVictims,
    HasWholeEdges,
    SystemEvent,
    Undo,
)
from towtank.units import format_bytes

BEGAN, UNDONE, FAILED = "fault_began", "fault_undone", "fault_failed"
"""Kinds of the events of a fault."""


@dataclass
class Stroke:
    """One time that a fault comes; times on the run's clock, seconds.

    Parameters
    ----------
    fault : Fault
    target : str
    at_s, until_s : float
        When it shall begin and end; without an end, nothing is undone before the run is over.
    instances : tuple of str
        What was hit.
    began_ns, undone_ns : int, optional
        CLOCK_MONOTONIC when it had been done, and when it had been undone.
    failed : bool
        It could not be done or undone.
    facts : dict
        What really was done.
    """

    fault: Fault
    target: str
    at_s: float
    until_s: float | None
    instances: tuple[str, ...] = ()
    began_ns: int | None = None
    undone_ns: int | None = None
    failed: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    undo: Undo | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Inflicted:
    """What became of the faults of a run.

    Parameters
    ----------
    strokes : sequence of Stroke
        Those that were planned, in order of time; those of kind `none` too.
    events : sequence of SystemEvent
    problems : sequence of str
        What could not be done or undone.
    latest_s : float
        How much later than planned the latest of them began.
    """

    strokes: Sequence[Stroke] = ()
    events: Sequence[SystemEvent] = ()
    problems: Sequence[str] = ()
    latest_s: float = 0.0


class Agenda:
    """The faults of one run.

    Parameters
    ----------
    faults : sequence of Fault
    deployment : Deployment
        What they hit.
    target : str
        Hit where a fault names none.
    seed : int
        Of the run: which instances `random` means.
    """

    def __init__(self, faults: Sequence[Fault], deployment: Deployment, *, target: str, seed: int) -> None:
        self._deployment = deployment
        self._random = random.Random(f"faults {seed}")  # noqa: S311 - reproducible is what it must be
        self._strokes = sorted(
            (
                Stroke(fault, fault.target or target, at_s, until_s)
                for fault in faults
                for at_s, until_s in fault.strokes()
            ),
            key=lambda stroke: stroke.at_s,
        )
        self._actions: dict[str, Action] = {
            fault.kind: registry.create(fault.kind) for fault in faults if fault.is_active
        }
        self._events: list[SystemEvent] = []
        self._problems: list[str] = []
        self._latest_s = 0.0
        self._zero_ns = 0
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, zero_ns: int) -> None:
        """Begin to keep the agenda of a load whose zero lies there on CLOCK_MONOTONIC."""
        if not self._actions:
            return
        self._zero_ns = zero_ns
        self._thread = threading.Thread(target=self._keep, name="faults", daemon=True)
        self._thread.start()

    def close(self) -> Inflicted:
        """Undo all that is still on, and say what happened; repeated calls say it again."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for stroke in reversed(self._strokes):
            self._end(stroke, "at the end of the load")
            self._note_missing(stroke)
        return Inflicted(
            tuple(self._strokes), tuple(self._events), tuple(self._problems), self._latest_s
        )  # fmt: skip

    def _keep(self) -> None:
        """Do what is due, in the order of time, until the load is over."""
        moments = [(s.at_s, 1, n, s) for n, s in enumerate(self._strokes) if s.fault.is_active]
        moments += [(s.until_s, 0, n, s) for _, _, n, s in moments if s.until_s is not None]
        for at_s, begins, _, stroke in sorted(moments, key=lambda moment: moment[:3]):
            due_ns = self._zero_ns + round(at_s * 1e9)
            if self._ending.wait(max(0.0, (due_ns - time.monotonic_ns()) / 1e9)):
                return
            if begins:
                self._latest_s = max(self._latest_s, (time.monotonic_ns() - due_ns) / 1e9)
                self._begin(stroke)
            else:
                self._end(stroke, "as planned")

    def _begin(self, stroke: Stroke) -> None:
        fault, target = stroke.fault, stroke.target
        try:
            stroke.instances = self._victims(fault, target)
            options = registry.config_model(fault.kind).model_validate(fault.options)
            order = Order(fault.kind, target, stroke.instances, options, fault.lasts, stroke.facts)
            # Taken before: what is hit reacts at once.
            begun_ns = time.monotonic_ns()
            stroke.undo = self._actions[fault.kind].begin(self._deployment, order)
        except Exception as error:  # noqa: BLE001 - a kind may be a plug-in's; the faults after it are to come all the same
            self._fail(stroke, f"{fault.kind} could not be done: {_why(error)}")
            return
        stroke.began_ns = begun_ns
        self._say(stroke, begun_ns, BEGAN, f"{fault.kind} of {_of(stroke)}{_shown(stroke.facts)}")

    def _end(self, stroke: Stroke, why: str) -> None:
        """Undo a stroke that is on."""
        undo, stroke.undo = stroke.undo, None
        if undo is None:
            return
        missed = ""
        try:
            undo()
        except FaultMissed as error:
            missed = error.message
        except Exception as error:  # noqa: BLE001 - as above; what else is on must be undone
            self._fail(stroke, f"{stroke.fault.kind} could not be undone: {_why(error)}")
            return
        if stroke.until_s is None:
            return  # what was killed for good stays dead
        stroke.undone_ns = time.monotonic_ns()
        self._say(stroke, stroke.undone_ns, UNDONE, f"{stroke.fault.kind} of {_of(stroke)} undone {why}")
        if missed:
            self._fail(stroke, f"{stroke.fault.kind} met nothing: {missed}")

    def _note_missing(self, stroke: Stroke) -> None:
        """A load that was over early leaves a run without its treatment."""
        if self._zero_ns and stroke.fault.is_active and stroke.began_ns is None and not stroke.failed:
            self._fail(
                stroke, f"{stroke.fault.kind} was due at {stroke.at_s:g} s, and the load was over before"
            )

    def _victims(self, fault: Fault, target: str) -> tuple[str, ...]:
        """Names of what a stroke hits.

        Raises
        ------
        PlatformError
            There is nothing to hit, or nothing of that name.
        """
        if registry.kind(fault.kind).hits == "deployment" and isinstance(self._deployment, HasDataFolder):
            return ()  # it is hit as a whole
        if isinstance(self._deployment, HasWholeEdges) and edge_of(fault, target) is not None:
            return ()
        known = list(self._deployment.victims(target)) if isinstance(self._deployment, HasVictims) else []
        if fault.instance == ALL and known:
            return tuple(known)
        if fault.instance == ONE and known:
            return (known[0],)
        if fault.instance == RANDOM and known:
            return (self._random.choice(sorted(known)),)
        if fault.instance in known:
            return (fault.instance,)
        raise PlatformError(
            f"{target} has no instance {fault.instance!r} that runs; it has {', '.join(known) or 'none'}"
        )

    def _fail(self, stroke: Stroke, message: str) -> None:
        stroke.failed = True
        self._problems.append(message)
        self._say(stroke, time.monotonic_ns(), FAILED, message)

    def _say(self, stroke: Stroke, t_ns: int, kind: str, message: str) -> None:
        fault = stroke.fault
        detail = {
            "kind": fault.kind, "target": stroke.target, "instances": list(stroke.instances),
            "planned_us": round(stroke.at_s * 1e6), "options": dict(fault.options),
            "facts": dict(stroke.facts),
        }  # fmt: skip
        instance = stroke.instances[0] if len(stroke.instances) == 1 else ""
        self._events.append(SystemEvent(t_ns, kind, instance, message, detail))


def _why(error: Exception) -> str:
    return error.message if isinstance(error, TowtankError) else repr(error)


def _shown(facts: Mapping[str, Any]) -> str:
    """What was done, for people; empty where nothing is to be said."""
    words = [
        f"{key.removesuffix('_bytes')} {format_bytes(value)}" if key.endswith("_bytes") else f"{key} {value}"
        for key, value in facts.items()
    ]
    return f" ({', '.join(words)})" if words else ""


def _of(stroke: Stroke) -> str:
    return ", ".join(stroke.instances) or stroke.target
