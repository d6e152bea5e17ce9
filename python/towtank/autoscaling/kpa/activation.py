"""From what was decided to what is applied: bounds, the first instances, and the careful way to zero."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from towtank.autoscaling.kpa.settings import ACTIVATION_MARGIN_S, KpaSettings

UNKNOWN = -1
"""No decision yet, for want of data."""

Phase = Literal["activating", "active", "inactive"]


@dataclass(frozen=True)
class Status:
    """How a revision stands.

    Parameters
    ----------
    phase : {"activating", "active", "inactive"}
    since_s : float
        When the phase began.
    initialised : bool
        Whether the first instances have once been ready.
    proxied_since_s : float, optional
        Since when requests are held in front of the instances (Knative: the activator is in their path).
    """

    phase: Phase
    since_s: float
    initialised: bool = False
    proxied_since_s: float | None = None


@dataclass(frozen=True)
class Applied:
    """What becomes of a decision.

    Parameters
    ----------
    want : int
        What the revision is told; −1 while nothing is known, 0 already while the last instance waits to go.
    replicas : int, optional
        To be applied now; None leaves the number as it is.
    """

    want: int
    replicas: int | None


def apply(settings: KpaSettings, status: Status, desired: int, t_s: float) -> Applied:
    """Put a decision between its bounds, and let the last instance go only when nothing needs it any more.

    Parameters
    ----------
    settings : KpaSettings
    status : Status
    desired : int
        Of the last decision; −1 when there was none.
    t_s : float
        Now.

    Notes
    -----
    pkg/reconciler/autoscaling/kpa/scaler.go. The last instance goes in three steps: active for a stable window at
    least, then inactive with requests held in front of it, then gone after the grace or the retention time.
    """
    if desired < 0 and status.phase != "activating":
        return Applied(desired, None)
    least = settings.min_scale
    if settings.initial_scale > 1 and not status.initialised:
        least = max(least, settings.initial_scale)
    wanted = max(desired, least)
    if settings.max_scale:
        wanted = min(wanted, settings.max_scale)
    return Applied(wanted, wanted) if wanted != 0 else _to_zero(settings, status, t_s)


def _to_zero(settings: KpaSettings, status: Status, t_s: float) -> Applied:
    if not settings.enable_scale_to_zero:
        return Applied(1, 1)
    lasted_s = t_s - status.since_s
    if status.phase == "activating":
        given_up = lasted_s >= settings.progress_deadline + ACTIVATION_MARGIN_S
        return Applied(0, 0) if given_up else Applied(UNKNOWN, None)
    if status.phase == "active":
        return Applied(0, None) if lasted_s >= settings.window else Applied(1, 1)
    return Applied(0, 0 if _may_go(settings, status, lasted_s, t_s) else None)


def _may_go(settings: KpaSettings, status: Status, idle_s: float, t_s: float) -> bool:
    """Whether the last instance of an inactive revision is needed no more."""
    if status.proxied_since_s is None or idle_s < settings.scale_to_zero_pod_retention_period:
        return False
    held_s = t_s - status.proxied_since_s
    return max(idle_s, held_s) >= settings.scale_to_zero_grace_period


def observed(
    settings: KpaSettings, status: Status, *, want: int, ready: int, excess_burst_capacity: int, t_s: float
) -> Status:
    """How the revision stands after what was applied (pkg/reconciler/autoscaling/kpa/kpa.go).

    Parameters
    ----------
    settings : KpaSettings
    status : Status
    want, ready : int
        What the revision is told, and the instances that take requests.
    excess_burst_capacity : int
    t_s : float
    """
    first = settings.initial_scale if not status.initialised else 1
    needed = max(settings.min_scale, first)
    initialised = status.initialised or ready >= needed
    proxied = want <= 0 or excess_burst_capacity < 0
    since = status.proxied_since_s if status.proxied_since_s is not None else t_s
    phase = _phase(status.phase, want=want, enough=ready >= needed, needed=needed)
    return replace(
        status,
        phase=phase,
        since_s=status.since_s if phase == status.phase else t_s,
        initialised=initialised,
        proxied_since_s=since if proxied else None,
    )


def _phase(phase: Phase, *, want: int, enough: bool, needed: int) -> Phase:
    if want == 0 or needed == 0:
        return "inactive"
    if want == UNKNOWN and phase == "inactive":
        return "inactive"
    return "active" if enough else "activating"
