"""The two axes of validity, and how a run is judged by what was observed about it.

The *instrument* axis says whether Towtank and this machine measured properly; only it excludes a run and
repeats it. The *system* axis says what the load did to the deployment; that is the treatment's result.
The reasons and their thresholds are one table, `reasons.REASONS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from towtank.campaign.reasons import REASONS, Axis, ReasonKind, Severity, show_value
from towtank.store.run_record import Reason, Verdicts

INSTRUMENT_WORDS = ("valid", "suspect", "invalid")
SYSTEM_WORDS = ("intact", "degraded", "collapsed")


@dataclass(frozen=True)
class Observation:
    """A value seen in a run, to be judged by the reason of that name.

    Parameters
    ----------
    name : str
        Key of `REASONS`.
    value : float
        In the reason's unit; 1 for a flag.
    detail : str
        What was seen in particular; appended to the reason's message.
    """

    name: str
    value: float = 1.0
    detail: str = ""


def judge(observations: Iterable[Observation]) -> Verdicts:
    """Judge a run by everything that was observed about it.

    An axis is as bad as its worst reason. Observations within their thresholds leave no trace here, nor does what
    a reason for invalidity hides.

    Raises
    ------
    KeyError
        An observation names a reason that does not exist: a fault of the program.
    """
    worst: dict[Axis, Severity] = {"instrument": 0, "system": 0}
    found: dict[Axis, list[tuple[Severity, Reason]]] = {"instrument": [], "system": []}
    seen = [(observation, REASONS[observation.name]) for observation in observations]
    hidden = {name for one, kind in seen if kind.judge(one.value)[0] == 2 for name in kind.hides}
    for observation, kind in seen:
        severity, threshold = kind.judge(observation.value)
        if severity == 0 or kind.name in hidden:
            continue
        worst[kind.axis] = max(worst[kind.axis], severity)
        found[kind.axis].append((severity, _reason(kind, observation, threshold, severe=severity == 2)))
    for reasons in found.values():
        reasons.sort(key=lambda pair: -pair[0])
    return Verdicts.model_validate(
        {
            "instrument": INSTRUMENT_WORDS[worst["instrument"]],
            "instrument_reasons": [reason for _, reason in found["instrument"]],
            "system": SYSTEM_WORDS[worst["system"]],
            "system_reasons": [reason for _, reason in found["system"]],
        }
    )


def _reason(kind: ReasonKind, observation: Observation, threshold: float | None, *, severe: bool) -> Reason:
    message = kind.message.replace("{value}", show_value(kind, observation.value))
    message = message.replace("{threshold}", show_value(kind, threshold))
    if observation.detail:
        message = f"{message}: {observation.detail}"
    return Reason(
        name=kind.name,
        value=observation.value,
        threshold=threshold,
        message=message,
        advice=kind.advice,
        severe=severe,
    )
