"""What is known about a run so far, and what its record says of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from towtank.campaign import machine
from towtank.campaign.driving import Drove
from towtank.campaign.observing import Observed
from towtank.campaign.settle import Settled
from towtank.campaign.validity import Observation
from towtank.clock import RunClock, boot_id
from towtank.faults.agenda import Inflicted
from towtank.load.binary import EngineBuild
from towtank.load.events import Done, Ready
from towtank.platforms.base import SystemEvent
from towtank.store.run_record import ClockRecord, FaultWindow, Window
from towtank.telemetry.base import Event


@dataclass
class Seen:
    """What is known about a run so far; its steps fill it in."""

    observations: list[Observation] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    timings_s: dict[str, float] = field(default_factory=dict)
    settled: Settled | None = None
    deployment: dict[str, Any] = field(default_factory=dict)
    ready: Ready | None = None
    done: Done | None = None
    drove: Drove | None = None
    findings: Sequence[Mapping[str, Any]] = ()
    generators: Mapping[str, Any] = field(default_factory=dict)
    zero_ns: int | None = None
    during: machine.Interval | None = None
    observed: Observed | None = None
    system_events: Sequence[SystemEvent] = ()
    removal_events: Sequence[SystemEvent] = ()
    inflicted: Inflicted = field(default_factory=Inflicted)
    failure: str | None = None
    logs: list[dict[str, Any]] = field(default_factory=list)

    def window(self) -> Window | None:
        """The measured window, once the load has been."""
        if self.drove is not None:
            return self.drove.window
        return Window.model_validate(dict(self.done.window)) if self.done is not None else None

    def clock(self) -> RunClock | None:
        """The run's clock, once the load has begun."""
        return RunClock(self.zero_ns) if self.zero_ns is not None else None

    def all_events(self) -> list[Event]:
        """Events of all sources on the run clock, oldest first."""
        drove = self.drove.events if self.drove is not None else ()
        events = [*self.events, *drove, *(self.observed.events if self.observed is not None else ())]
        for finding in self.findings:
            detail = {key: value for key, value in finding.items() if key not in ("event", "t_us", "message")}
            events.append(
                Event(int(finding.get("t_us") or 0), "engine", str(finding["name"]), "",
                      str(finding.get("message", "")), json.dumps(detail))
            )  # fmt: skip
        clock = self.clock()
        if clock is not None:
            platform = str(self.deployment.get("platform", "platform"))
            happened = [(platform, e) for e in (*self.system_events, *self.removal_events)]
            happened += [("fault", e) for e in self.inflicted.events]
            events += [
                Event(clock.at_us(e.t_ns), source, e.kind, e.instance, e.message, json.dumps(dict(e.detail)))
                for source, e in happened
            ]
        return sorted(events, key=lambda event: event.t_us)

    def fault_windows(self) -> tuple[FaultWindow, ...]:
        """Faults on the run clock, those of kind `none` too."""
        clock = self.clock()
        if clock is None:
            return ()
        return tuple(
            FaultWindow(
                kind=stroke.fault.kind,
                target=stroke.target,
                instances=stroke.instances,
                planned_us=round(stroke.at_s * 1e6),
                began_us=None if stroke.began_ns is None else clock.at_us(stroke.began_ns),
                undone_us=None if stroke.undone_ns is None else clock.at_us(stroke.undone_ns),
            )
            for stroke in self.inflicted.strokes
        )

    def clock_record(self) -> ClockRecord | None:
        """Where the run's zero lies on this machine's clocks."""
        if self.zero_ns is None:
            return None
        zero = datetime.now(UTC) - timedelta(microseconds=(time.monotonic_ns() - self.zero_ns) / 1000)
        step = self.during.wall_step_us if self.during is not None else 0
        return ClockRecord(
            zero_monotonic_ns=self.zero_ns,
            zero_utc=zero.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            boot_id=boot_id(), wall_step_us=step,
        )  # fmt: skip

    def engine_facts(self, engine: EngineBuild) -> dict[str, Any]:
        """What drove the load, and how the machine fared meanwhile."""
        facts: dict[str, Any] = {"version": engine.version, "profile": engine.profile, **self.generators}
        if self.drove is not None:
            facts |= {"driver": dict(self.drove.facts)}
        if self.ready is not None:
            ready = self.ready
            facts |= {
                "build": dict(ready.build),
                "backend": ready.backend,
                "threads": ready.threads,
                "due": ready.due,
            }
        if self.done is not None:
            done = self.done
            facts |= {"counts": dict(done.counts), "self": dict(done.self_), "stopped_by": done.stopped_by,
                      "files": [dict(file) for file in done.files], "window": dict(done.window)}  # fmt: skip
        if self.during is not None and self.settled is not None:
            facts["machine"] = {
                "busy_ratio": self.during.busy_ratio,
                "own_ratio": self.during.own_ratio,
                "deployment_ratio": self.during.deployment_ratio,
                "foreign_ratio": self.during.foreign_ratio,
                "steal_ratio": self.during.steal_ratio,
                "baseline_foreign_ratio": self.settled.baseline.foreign_ratio,
            }
        return facts
