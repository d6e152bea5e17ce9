"""One fault held by a disturber: the connection is its life, so whatever ends it ends the fault."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from towtank.errors import EngineError, PlatformError
from towtank.load.workers import frames, handshake
from towtank.platforms.base import Cancelled
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.control import Control, Reached

_BEGIN_WITHIN_S = 20.0
_UNDO_WITHIN_S = 20.0
MARGIN_S = 3.0
"""So long after a fault should have been undone a disturber undoes it by itself."""
LONGEST_S = 3600.0
"""One that has no end of its own is undone by itself after this."""


class Grip:
    """A connection to a disturber that was let in.

    Parameters
    ----------
    reached : Reached
        Its connection is closed when it is of no use.
    token : str
    who : str
        For people.

    Raises
    ------
    EngineError
        It does not let us in, or does not know the token itself.
    """

    def __init__(self, reached: Reached, token: str, who: str) -> None:
        self._connection = reached.connection
        self.own_address = reached.own_address
        self._who = who
        self._until = 0.0
        self._alone = False
        try:
            handshake.greet(self._connection, token)
        except BaseException:
            self._connection.close()
            raise

    def begin(
        self, fault: Mapping[str, Any], lasts_s: float | None, *, alone: bool = False
    ) -> dict[str, Any]:
        """Have a fault made; what the disturber says of it. A failure ends the connection.

        Parameters
        ----------
        fault : mapping
        lasts_s : float, optional
        alone : bool
            The fault cuts this very connection: the disturber undoes it at its end, and then is heard again.

        Raises
        ------
        PlatformError
        """
        self._alone = alone
        lasts_s = LONGEST_S if lasts_s is None else lasts_s + (0.0 if alone else MARGIN_S)
        self._until = time.monotonic() + lasts_s
        order = {"do": "begin", "fault": dict(fault), "lasts_ms": round(lasts_s * 1000)}
        try:
            facts = self._ask(order, "began", _BEGIN_WITHIN_S).get("facts")
        except BaseException:
            self.close()
            raise
        return facts if isinstance(facts, dict) else {}

    def undo(self) -> None:
        """Have it undone, and wait for that.

        Raises
        ------
        PlatformError
            It was not, or nobody can say so.
        """
        within_s = _UNDO_WITHIN_S + (max(0.0, self._until - time.monotonic()) if self._alone else 0.0)
        try:
            self._ask(None if self._alone else {"do": "undo"}, "undone", within_s)
        finally:
            self.close()

    def close(self) -> None:
        """End the connection, and with it the fault."""
        with contextlib.suppress(OSError):
            self._connection.close()

    def _ask(self, order: Mapping[str, Any] | None, expected: str, within_s: float) -> dict[str, Any]:
        try:
            self._connection.settimeout(within_s)
            if order is not None:
                frames.send_message(self._connection, order)
            event = handshake.message(self._connection)
        except EngineError as error:
            raise PlatformError(
                f"{self._who}: {error.message}",
                hint="it undoes by itself what is on; whether it has cannot be said",
            ) from error
        if event.get("event") != expected:
            raise PlatformError(f"{self._who}: {event.get('message') or event}")
        return event


def take(control: Control, pod: Json, token: str, who: str) -> Grip:
    """Connect to the disturber in a pod.

    Raises
    ------
    EngineError
        It does not listen, or does not let us in.
    PlatformError
        We are not allowed to.
    """
    return Grip(control.connect(pod), token, who)


def reach(control: Control, pod: Json, token: str, who: str, cancelled: Cancelled) -> Grip:
    """As `take`, for one that may just begin to listen.

    Raises
    ------
    PlatformError
        It cannot be reached.
    """
    try:
        return control.reach(pod, cancelled, lambda reached: Grip(reached, token, who))
    except EngineError as error:
        raise PlatformError(f"{who} cannot be reached: {error.message}", hint=error.hint) from error
