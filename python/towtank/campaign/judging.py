"""From the traces of a run to what they say about its validity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from towtank.campaign import evidence, workers
from towtank.campaign.seen import Seen
from towtank.campaign.validity import Observation
from towtank.design.model import TreatmentSpec
from towtank.platforms.base import Target


def judged(
    seen: Seen, spec: TreatmentSpec, targets: Mapping[str, Target], requests: Path
) -> list[Observation]:
    """Everything that a run's traces say about its validity, on both axes.

    Parameters
    ----------
    seen : Seen
    spec : TreatmentSpec
    targets : mapping
        What the load went to.
    requests : Path
        Its requests; there may be none.
    """
    window = seen.window()
    found: list[Observation] = []
    outcomes = evidence.Outcomes()
    if seen.done is not None and seen.ready is not None:
        found += evidence.of_engine(seen.done, seen.findings, seen.ready)
        driven = spec.driven.values()
        found += evidence.of_arrivals(seen.done, driven, requests)
        found += workers.observations(seen.generators)
    if seen.during is not None and seen.settled is not None:
        found += evidence.of_machine(seen.settled.baseline, seen.during, targets.values())
    if window is not None and seen.observed is not None:
        gaps = seen.observed.gaps_within(window.start_us, window.end_us)
        found += evidence.of_telemetry(gaps, seen.observed.failed, window)
    if window is not None:
        if requests.exists():
            outcomes = evidence.read_outcomes(requests, window)
        found += evidence.of_window(outcomes)
    found += evidence.of_system(seen.system_events, targets, outcomes)
    found += evidence.of_faults(seen.inflicted)
    return found
