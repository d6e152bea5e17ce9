"""Telemetry around a run: started before the load, put on the run's clock when that is known."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towtank.clock import RunClock
from towtank.design.model import Observe, TreatmentSpec
from towtank.platforms.base import Target
from towtank.telemetry import registry
from towtank.telemetry.base import (
    Event,
    Helpers,
    KeepsSpans,
    LooksAhead,
    LooksAtDeployments,
    ObserveContext,
    Outlook,
    Sample,
    Source,
    Span,
    TracedRequest,
)

if TYPE_CHECKING:
    from towtank.telemetry.sampler import Sampler

MOST_GAPS = 100
"""Gaps listed in run.json; all of them are counted."""


@dataclass(frozen=True)
class Observed:
    """What telemetry saw, on the run's clock; samples from before the load have negative times."""

    samples: Iterable[Sample] = ()
    events: Sequence[Event] = ()
    gaps_us: Sequence[tuple[str, int, int]] = ()
    """Source, from, to."""
    failed: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    spans: Sequence[Span] | None = None
    """None where no source keeps any."""

    def gaps_within(self, start_us: int, end_us: int) -> dict[str, int]:
        """Unobserved time per source inside a window, µs."""
        found: dict[str, int] = {}
        for source, begun, ended in self.gaps_us:
            overlap = min(ended, end_us) - max(begun, start_us)
            if overlap > 0:
                found[source] = found.get(source, 0) + overlap
        return found


class Observing:
    """Telemetry sources at work.

    Parameters
    ----------
    observe : sequence of Observe
        Which sources, as the experiment says.
    targets : mapping
        Whose instances are looked at.
    own_pids : tuple of int
        Towtank's own processes.
    root : Path
        Folder of the experiment file.
    deployment : object, optional
        What the targets belong to, for sources that ask it.
    helpers : Helpers, optional
        For sources that start something of their own.
    """

    def __init__(
        self,
        observe: Sequence[Observe],
        targets: Mapping[str, Target],
        *,
        own_pids: tuple[int, ...],
        root: Path,
        deployment: object | None = None,
        helpers: Helpers | None = None,
    ) -> None:
        self._observe = observe
        self._clock = RunClock(time.monotonic_ns())  # provisional: the load has not been ordered yet
        self._instances = [instance for target in targets.values() for instance in target.instances]
        self._own_pids = own_pids
        self._root = root
        self._deployment = deployment
        self._helpers = helpers
        self._sources: list[Source] = []
        self._sampler: Sampler | None = None

    @property
    def keeps_spans(self) -> bool:
        """Whether a source is at work that wants to know which requests carried a trace id."""
        return any(isinstance(source, KeepsSpans) for source in self._sources)

    def start(self) -> None:
        """Start all sources.

        Raises
        ------
        TelemetryError
            A source cannot be read.
        """
        if not self._observe:
            return
        from towtank.telemetry.sampler import Sampler  # noqa: PLC0415

        sources = [registry.create(item.source) for item in self._observe]
        contexts = [self._context(item) for item in self._observe]
        self._sampler = Sampler(list(zip(sources, contexts, strict=True)))
        self._sampler.start()
        self._sources = sources

    def stop(
        self,
        clock: RunClock,
        *,
        traced: Callable[[], Mapping[str, TracedRequest]] | None = None,
        mask: Callable[[str], str] = str,
    ) -> Observed:
        """Stop all sources and put what they saw on the run's clock; harmless when nothing was started.

        Parameters
        ----------
        clock : RunClock
        traced : callable, optional
            The run's requests that carried a trace id, on its clock; None where no load was carried out. Asked only
            where a source keeps spans, which then may wait for theirs.
        mask : callable
            Takes secrets out of texts.
        """
        if self._sampler is None:
            return Observed()
        shift_us = (self._clock.zero_ns - clock.zero_ns) // 1000
        keepers = [source for source in self._sources if isinstance(source, KeepsSpans)]
        if keepers and traced is not None:
            requests = {
                trace: found._replace(
                    started_us=found.started_us - shift_us, ended_us=found.ended_us - shift_us
                )
                for trace, found in traced().items()
            }
            for keeper in keepers:
                keeper.expect(requests)
        seen = self._sampler.stop().shifted(shift_us)
        self._sampler = None
        spans = [_kept(span, shift_us, mask) for keeper in keepers for span in keeper.spans()]
        return Observed(
            samples=seen.samples,
            events=seen.events,
            gaps_us=[(gap.source, gap.from_us, gap.to_us) for gap in seen.gaps],
            failed=sorted({event.source for event in seen.events if event.kind == "source_failed"}),
            facts={
                "sources": [
                    {
                        "source": item.source,
                        "interval_s": item.interval,
                        "readings": seen.readings.get(item.source),
                        **seen.facts.get(item.source, {}),
                    }
                    for item in self._observe
                ],
                "samples": len(seen.samples),
                "gaps": [asdict(gap) for gap in seen.gaps[:MOST_GAPS]],
                "gap_count": len(seen.gaps),
                "cost_s": round(seen.cost_s, 4),
            },
            spans=spans if keepers else None,
        )

    def _context(self, item: Observe) -> ObserveContext:
        return ObserveContext(
            clock=self._clock,
            interval_s=item.interval,
            instances=self._instances,
            own_pids=self._own_pids,
            options=item.options,
            root=self._root,
            deployment=self._deployment,
            helpers=self._helpers,
        )


def _kept(span: Span, shift_us: int, mask: Callable[[str], str]) -> Span:
    return span._replace(
        start_us=span.start_us + shift_us, name=mask(span.name), attributes=mask(span.attributes)
    )


def look_ahead(observe: Sequence[Observe], root: Path) -> Outlook:
    """What sources can say before the first run; each problem and remark begins with the source's name."""
    problems: list[str] = []
    remarks: list[str] = []
    for item in observe:
        source = registry.create(item.source)
        if isinstance(source, LooksAhead):
            seen = source.look_ahead(item.options, root, item.interval)
            problems += [f"observe {item.source}: {problem}" for problem in seen.problems]
            remarks += [f"observe {item.source}: {remark}" for remark in seen.remarks]
    return Outlook(tuple(problems), tuple(remarks))


def unseen_deployments(observed: Iterable[TreatmentSpec], root: Path) -> list[str]:
    """Why sources would not see the deployments that they are to look at; each begins with the source's name.

    Parameters
    ----------
    observed : iterable of TreatmentSpec
        Those that have runs to come.
    root : Path
        Folder of the experiment file.
    """
    asked: dict[tuple[str, str], tuple[Mapping[str, Any], list[Any]]] = {}
    for spec in observed:
        for item in spec.observe:
            key = item.source, json.dumps(item.options, sort_keys=True)
            _, deployments = asked.setdefault(key, (item.options, []))
            if spec.deployment not in deployments:
                deployments.append(spec.deployment)
    found: dict[str, None] = {}
    for (name, _), (options, deployments) in asked.items():
        source = registry.create(name)
        if isinstance(source, LooksAtDeployments):
            problems = source.look_ahead_at(options, deployments, root)
            found |= dict.fromkeys(f"observe {name}: {one}" for one in problems)
    return list(found)
