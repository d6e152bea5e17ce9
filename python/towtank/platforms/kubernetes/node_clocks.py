"""The clocks of nodes: lines of a log bear the time of day of the node that wrote them.

A node of this machine has our own clock. Of another one the kubelet's Date header is asked, through the API server's
node proxy (± a few ms); where that is not allowed, the fastest line says how the clocks stand: times are then never
too early, and too late by as much as that line took to come.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

from towtank.clock import boot_id
from towtank.clock_relation import NS_PER_S, ClockRelation, OffsetBounds, search_edge
from towtank.errors import PlatformError
from towtank.platforms.kubernetes.client import ApiClient
from towtank.platforms.kubernetes.kinds import NODE

RENEWED_EVERY_S = 30.0
_ANSWER_WITHIN_S = 2.0
_MOST_AHEAD_NS = 5_000_000
"""A line that seems to have come before it was written, by more than this beyond the uncertainty, contradicts."""
OWN, DATE, FASTEST = (
    "the node is this machine", "edge search on the kubelet's Date header", "the fastest line of its logs"
)  # fmt: skip


class NodeClock:
    """How one node's time of day relates to CLOCK_MONOTONIC of this machine. Safe to use from several threads."""

    def __init__(self) -> None:
        self.method = FASTEST
        self.known = threading.Event()
        """Set when it was found out, or cannot be."""
        self._lock = threading.Lock()
        self._relation = ClockRelation(FASTEST)
        self._least_ns: int | None = None
        self._ahead_ns = 0
        self._reason = ""

    def add(self, bounds: OffsetBounds, method: str) -> None:
        """Take in what was found out in this way."""
        with self._lock:
            if self._relation.last is None:
                self.method, self._relation = method, ClockRelation(method)
            self._relation.add(bounds)
        self.known.set()

    def unknown(self, reason: str) -> None:
        """It cannot be found out; what was known before is still good."""
        with self._lock:
            self._reason = reason
        self.known.set()

    @property
    def last(self) -> OffsetBounds | None:
        """What was found out last."""
        with self._lock:
            return self._relation.last

    def came(self, there_ns: int, received_ns: int) -> None:
        """A line with this stamp came at this instant: it was written before."""
        with self._lock:
            least_ns = there_ns - received_ns
            self._least_ns = least_ns if self._least_ns is None else max(self._least_ns, least_ns)
            if self._relation.last is not None:
                self._ahead_ns = max(self._ahead_ns, self._relation.here_ns(there_ns) - received_ns)

    def here_ns(self, there_ns: int) -> int:
        """Our instant of a stamp."""
        with self._lock:
            if self._relation.last is not None:
                return self._relation.here_ns(there_ns)
            return there_ns - (self._least_ns or 0)

    def facts(self) -> dict[str, Any]:
        """For run.json; an uncertainty of None means: too late by as much as the fastest line took to come."""
        with self._lock:
            if self._relation.last is None:
                return {"method": self.method, "uncertainty_s": None, "reason": self._reason}
            found = self._relation.facts()
            limit_ns = self._relation.uncertainty_ns + _MOST_AHEAD_NS
            if self._ahead_ns > limit_ns:  # it was set between two looks
                found["contradicted_by_s"] = round(self._ahead_ns / NS_PER_S, 6)
            return found


def own_offset() -> OffsetBounds:
    """Our own time of day against CLOCK_MONOTONIC; the best of five."""

    def once() -> OffsetBounds:
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        return OffsetBounds.of_exchange(before_ns, wall_ns, wall_ns, time.monotonic_ns())

    return min((once() for _ in range(5)), key=lambda one: one.uncertainty_ns)


class NodeClocks:
    """Clocks of all nodes with pods that are listened to; kept up in a thread of its own.

    Parameters
    ----------
    api : ApiClient
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._clocks: dict[str, NodeClock] = {}
        self._changed = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep_up, name="towtank-node-clocks", daemon=True)
        self._thread.start()

    def of(self, node: str) -> NodeClock:
        """The clock of a node; `known` is set when it was asked, within seconds."""
        with self._lock:
            clock = self._clocks.get(node)
            if clock is None:
                clock = self._clocks[node] = NodeClock()
                self._changed.set()
            return clock

    def close(self) -> None:
        """Ask no more."""
        self._ending.set()
        self._changed.set()
        self._thread.join(_ANSWER_WITHIN_S + 1)

    def facts(self) -> dict[str, Any]:
        """Node → how its clock was related to ours."""
        with self._lock:
            clocks = dict(self._clocks)
        return {node: clock.facts() for node, clock in sorted(clocks.items())}

    def _is_here(self, node: str) -> bool:
        try:
            found = self._api.find(NODE.path(name=node)) or {}
        except PlatformError:  # nodes may not be seen
            return False
        return str(((found.get("status") or {}).get("nodeInfo") or {}).get("bootID")) == boot_id()

    def _keep_up(self) -> None:
        while not self._ending.is_set():
            with self._lock:
                self._changed.clear()
                clocks = dict(self._clocks)
            for node, clock in clocks.items():
                if self._ending.is_set():
                    return
                self._renew(node, clock)
            self._changed.wait(RENEWED_EVERY_S / 3)

    def _renew(self, node: str, clock: NodeClock) -> None:
        last = clock.last
        if last is not None and time.monotonic_ns() - last.at_ns < RENEWED_EVERY_S * NS_PER_S:
            return
        if clock.method == OWN or (last is None and self._is_here(node)):
            clock.add(own_offset(), OWN)
            return
        if last is None and clock.known.is_set():  # it could not be asked before
            return
        try:
            clock.add(search_edge(self._asking(node), known=last), DATE)
        except PlatformError as error:
            clock.unknown(error.message)

    def _asking(self, node: str) -> Callable[[], OffsetBounds]:
        path = NODE.path(name=node) + "/proxy/healthz"

        def ask() -> OffsetBounds:
            sent_ns = time.monotonic_ns()
            said = self._api.date(path, timeout_s=_ANSWER_WITHIN_S)
            received_ns = time.monotonic_ns()
            try:
                there_ns = round(parsedate_to_datetime(said).timestamp()) * NS_PER_S
            except ValueError as error:
                raise PlatformError(
                    f"{path} is answered without a Date that can be read: {said!r}"
                ) from error
            return OffsetBounds.of_exchange(sent_ns, there_ns, there_ns, received_ns, resolution_ns=NS_PER_S)

        return ask
