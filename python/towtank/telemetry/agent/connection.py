"""One agent: a connection that is made anew when it breaks, what it has told, and how its clock relates to ours."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towtank.clock_relation import NS_PER_S, OffsetBounds
from towtank.errors import EngineError, PlatformError, TelemetryError
from towtank.load.workers import frames, handshake
from towtank.load.workers.places import Link
from towtank.telemetry.http.clock import KeptRelation

ANSWER_WITHIN_S = 4.0
QUESTIONS = 8
"""Of so many questions for the time, all answers bound the offset together."""
_MOST_ANSWERS = 64
"""In one look: more than an agent keeps."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
"""Between attempts to reach one that is lost; the first is made at once, for most have only lost a connection."""
_METHOD = "exchanges of four timestamps"


@dataclass(frozen=True)
class Taken:
    """What an agent has told since the last look.

    Parameters
    ----------
    items : sequence of mapping
        As docs/formats.md describes them.
    lost : str
        Why some of what came before them is missing, or empty.
    clock : KeptRelation
        The clock that their times are of.
    """

    items: Sequence[Mapping[str, Any]]
    lost: str
    clock: KeptRelation


class Agent:
    """One agent; its methods are called from one thread at a time.

    Parameters
    ----------
    name : str
        Of the machine.
    reach : callable
        Connects to it, wherever it is now.
    """

    def __init__(self, name: str, reach: Callable[[], Link]) -> None:
        self.name = name
        self._reach = reach
        self._link: Link | None = None
        self._after = 0
        self._life = ""
        self._untold = ""
        self._pause_s = 0.0
        self._not_before_s = 0.0
        self._since_s = 0.0
        self._problem: EngineError | PlatformError | None = None
        self.welcome: Mapping[str, Any] = {}
        self.standing: Mapping[str, Any] = {}
        self.clocks: list[KeptRelation] = []

    def connect(self) -> None:
        """Connect if there is no connection; harmless when there is one.

        Raises
        ------
        EngineError
            It is not there, or is none of ours.
        PlatformError
            We are not allowed to reach it.
        """
        if self._link is not None:
            return
        if self._problem is not None and time.monotonic() < self._not_before_s:
            raise EngineError(self._problem.message, hint=self._problem.hint)
        try:
            self._greet(self._reach())
        except (EngineError, PlatformError) as error:
            self._wait_after(error)
            raise

    def _wait_after(self, problem: EngineError | PlatformError) -> None:
        """Reach it again later, and later each time: to start one anew costs its machine something."""
        self._problem = problem
        self._not_before_s = time.monotonic() + self._pause_s
        self._pause_s = min(max(_FIRST_PAUSE_S, 2 * self._pause_s), _LONGEST_PAUSE_S)

    def hurry(self) -> None:
        """Reach it at once, whatever was before."""
        self._not_before_s = 0.0

    def _greet(self, link: Link) -> None:
        try:
            self.welcome = handshake.greet(link.connection, link.token)
        except EngineError as error:
            link.connection.close()
            words = link.words()
            raise EngineError(
                f"the agent of {self.name}: {error.message}{f': {words}' if words else ''}", hint=error.hint
            ) from error
        link.connection.settimeout(ANSWER_WITHIN_S)
        self._link, self._since_s = link, time.monotonic()
        self.standing = {"kind": link.standing.kind, "where": link.standing.where, **link.standing.facts}

    def take(self) -> Taken:
        """What came since the last look; related clocks anew when it is time.

        Raises
        ------
        EngineError
            It is lost for now; the next look connects anew, and goes on where this one was.
        PlatformError
            As `connect`.
        """
        self.connect()
        self._meet()
        clock = self.clocks[-1]
        items: list[Mapping[str, Any]] = []
        try:
            clock.renew()
            for _ in range(_MOST_ANSWERS):
                answer = self._ask({"do": "take", "after": self._after}, "taken")
                first, found = int(answer["first"]), answer["items"]
                if self._after and first > self._after + 1:
                    overrun = first - self._after - 1
                    self._untold = (
                        self._untold or f"{overrun} of its items were overrun before they were fetched"
                    )
                items += found
                self._after = first + len(found) - 1
                if not found or self._after >= int(answer["newest"]):
                    break
        except (TelemetryError, KeyError, TypeError, ValueError) as error:
            self.drop()
            said = (
                error.message
                if isinstance(error, TelemetryError)
                else f"an answer that makes no sense: {error!r}"
            )
            problem = EngineError(f"the agent of {self.name} is lost: {said}")
            self._wait_after(problem)
            if not items:  # what came before it was lost is good; the next look says that it is
                raise problem from error
        else:
            if (
                time.monotonic() - self._since_s > _LONGEST_PAUSE_S
            ):  # one that comes and goes waits longer each time
                self._pause_s = 0.0
        lost, self._untold = self._untold, ""
        return Taken(items, lost, clock)

    def _meet(self) -> None:
        """Notice an agent that was started anew: its numbers begin anew, and maybe its clock."""
        life = str(self.welcome.get("life"))
        if life == self._life:
            return
        if self._life:
            self._untold = "it was started anew; what the one before had not told is lost"
        self._life, self._after = life, 0
        self.clocks.append(KeptRelation(_METHOD, self._measure))

    def finish(self) -> None:
        """Relate clocks a last time, and let it go."""
        if self._link is not None and self.clocks:
            with contextlib.suppress(TelemetryError):
                self.clocks[-1].finish()
                self._ask({"do": "finish"}, "bye")
        self.drop()

    def drop(self) -> None:
        """End the connection."""
        if self._link is not None:
            self._link.connection.close()
            self._link = None

    def _measure(self, known: OffsetBounds | None) -> OffsetBounds:
        """Several questions in a row: the offset lies within the bounds of each."""
        del known  # a clock that was set meanwhile must not be hidden by what was known before
        bounds = self._exchange()
        for _ in range(QUESTIONS - 1):
            bounds = bounds.narrowed(self._exchange())
        return bounds

    def _exchange(self) -> OffsetBounds:
        sent_ns = time.monotonic_ns()
        answer = self._ask({"do": "clock", "sent_ns": sent_ns}, "clock")
        back_ns = time.monotonic_ns()
        try:
            received_ns, answered_ns = int(answer["received_ns"]), int(answer["answered_ns"])
            return OffsetBounds.of_exchange(sent_ns, received_ns, answered_ns, back_ns)
        except (KeyError, TypeError, ValueError) as error:
            raise TelemetryError(f"an answer that makes no sense: {error!r}") from error

    def _ask(self, question: Mapping[str, Any], expected: str) -> Mapping[str, Any]:
        """One question and its answer.

        Raises
        ------
        TelemetryError
        """
        link = self._link
        if link is None:
            raise TelemetryError("there is no connection to it")
        try:
            frames.send_message(link.connection, question)
            is_message, content = frames.receive(link.connection)
            answer = json.loads(content) if is_message else None
        except EngineError as error:
            words = link.words()
            raise TelemetryError(f"{error.message}{f': {words}' if words else ''}") from error
        except ValueError as error:
            raise TelemetryError(f"it answered something that is no message: {error}") from error
        if not isinstance(answer, dict) or answer.get("event") != expected:
            raise TelemetryError(f"it answered {content[:200]!r} where `{expected}` was expected")
        return answer

    def facts(self) -> dict[str, Any]:
        """For run.json: where it stood, and how well its clock is known."""
        facts: dict[str, Any] = {
            **self.standing,
            "name": self.name,
            "containers": self.welcome.get("containers"),
        }
        if self.clocks and (last := self.clocks[-1].relation.last) is not None:
            known = self.clocks[-1].relation.facts()
            del known["ahead_s"]  # its clock tells no time of day
            facts["clock"] = {"offset_s": round(last.middle_ns / NS_PER_S, 6), **known}
        return facts
