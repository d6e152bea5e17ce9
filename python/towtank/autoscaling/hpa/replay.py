"""What Kubernetes' HPA would have wanted, from what it was observed to see: one decision at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from towtank.autoscaling.hpa.controller import CPU, Hpa, Outcome
from towtank.autoscaling.hpa.metrics import Pod, Sample
from towtank.autoscaling.hpa.settings import HpaSettings

_REQUEST_MILLI = 100_000
"""What an instance is taken to request: utilisation is relative to it, and so is not changed by it."""
_MILLI = 1000
_LONG_AGO_S = -1e9


@dataclass(frozen=True)
class Measured:
    """A metric: its mean, and over how many ready instances; others had no measurement yet.

    CPU is in percent of the request.
    """

    mean: float
    instances: int


@dataclass(frozen=True)
class Look:
    """What the HPA had before it at a decision.

    Parameters
    ----------
    t_s : float
    current : int
        Instances that were asked for last.
    ready, starting : int
        Instances that count, and those that do not yet.
    seen : mapping
        `CPU`, `CONCURRENCY` or `RPS` → what was measured.
    """

    t_s: float
    current: int
    ready: int
    starting: int
    seen: Mapping[str, Measured]


def replay(settings: HpaSettings, looks: Sequence[Look]) -> list[Outcome]:
    """Decide anew at each look, every time from what was really asked for before.

    Of measurements only means are known; the algorithm goes by sums, so that no more is needed.
    """
    hpa = Hpa(settings)
    return [
        hpa.decide(look.t_s, current=look.current, pods=_pods(look), metrics=_metrics(look)) for look in looks
    ]


def _pods(look: Look) -> list[Pod]:
    ready = [
        Pod(
            f"ready-{number}",
            started_s=_LONG_AGO_S,
            ready=True,
            ready_changed_s=_LONG_AGO_S,
            request_milli=_REQUEST_MILLI,
        )
        for number in range(look.ready)
    ]
    starting = [
        Pod(f"starting-{number}", phase="Pending", request_milli=_REQUEST_MILLI)
        for number in range(look.starting)
    ]
    return [*ready, *starting]


def _metrics(look: Look) -> dict[str, dict[str, Sample]]:
    found = {}
    for name, measured in look.seen.items():
        scale = _REQUEST_MILLI / 100 if name == CPU else _MILLI
        sample = Sample(round(measured.mean * scale), look.t_s)
        found[name] = {f"ready-{number}": sample for number in range(min(measured.instances, look.ready))}
    return found
