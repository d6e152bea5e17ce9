"""OpenWhisk's limits of a namespace: requests within a minute, and requests at a time."""

from __future__ import annotations

import math

MINUTE_S = 60.0


def too_many_per_minute(count: int, allowed: int) -> str:
    """What OpenWhisk answers with 429 (core/…/http/ErrorResponse.scala: tooManyRequests)."""
    return f"Too many requests in the last minute (count: {count}, allowed: {allowed})."


def too_many_at_a_time(count: int, allowed: int) -> str:
    """As above (tooManyConcurrentRequests)."""
    return f"Too many concurrent requests in flight (count: {count}, allowed: {allowed})."


class Throttle:
    """The two limits of one namespace.

    Parameters
    ----------
    per_minute, at_a_time : int, optional
        None is no limit.

    Notes
    -----
    core/controller/…/entitlement/RateThrottler.scala, ActivationThrottler.scala. A minute is one of the clock, not
    the last 60 s: twice the limit can pass around a full minute. A refused request counts for its minute.
    """

    def __init__(self, per_minute: int | None, at_a_time: int | None) -> None:
        self._per_minute = per_minute
        self._at_a_time = at_a_time
        self._minute: int | None = None
        self._count = 0

    def refused(self, t_s: float, running: int) -> str:
        """Count a request; why it is refused, in OpenWhisk's words, or nothing.

        Parameters
        ----------
        t_s : float
        running : int
            Requests of the namespace that have not ended, this one not counted.
        """
        minute = math.floor(t_s / MINUTE_S)
        self._count = self._count + 1 if minute == self._minute else 1
        self._minute = minute
        if self._per_minute is not None and self._count > self._per_minute:
            return too_many_per_minute(self._count, self._per_minute)
        if self._at_a_time is not None and running >= self._at_a_time:
            return too_many_at_a_time(running, self._at_a_time)
        return ""
