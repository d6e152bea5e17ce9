"""How orders and records travel to helpers in a cluster: to their pods' own addresses, or through the API server.

Load never goes this way. Which way there is, is found out once for each node, and stays: a node that is cut off for a
while has not lost its way for good.
"""

from __future__ import annotations

import http
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from towtank.errors import EngineError, PlatformError
from towtank.fields import ControlWay
from towtank.load.workers.places import CONNECT_TIMEOUT_S, connected
from towtank.platforms.base import Cancelled
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.forwarding import forward
from towtank.platforms.kubernetes.readiness import cancelled_sleep

DIRECT, FORWARDED = "direct", "port_forward"
_LISTENING_WITHIN_S = 20.0
"""From a container that runs to a helper that listens: an engine starts in milliseconds, a busy node takes longer."""
_TRY_EVERY_S = 0.3
T = TypeVar("T")


@dataclass(frozen=True)
class Reached:
    """A connection to a helper, which has not said who it is yet.

    Parameters
    ----------
    connection : socket
    way : str
        ``direct`` or ``port_forward``.
    own_address : str
        Ours on the way there: to the pod, or to the API server.
    """

    connection: socket.socket
    way: str
    own_address: str


class Control:
    """The way to the helpers of one kind, each of which listens at the same port of its pod.

    Parameters
    ----------
    api : ApiClient
    namespace : str
        Theirs.
    port : int
    wanted : str, optional
        The only way to be tried. Without it directly, and through the API server where that does not lead there.
    greets : bool
        It speaks first, so that it is known to be there before anything is asked of it; a server of HTTP does not.
    """

    def __init__(
        self, api: ApiClient, namespace: str, port: int, wanted: ControlWay = None, *, greets: bool = True
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._port = port
        self._wanted = wanted
        self._greets = greets
        self._direct_to: set[str] = set()
        self._no_way: EngineError | None = None

    def connect(self, pod: Json) -> Reached:
        """Connect to the helper in a pod, once.

        Parameters
        ----------
        pod : Json
            As the API has it, with its address and node.

        Raises
        ------
        EngineError
            It cannot be reached now, and may be later.
        PlatformError
            We are not allowed to: waiting will not mend it.
        """
        node = str((pod.get("spec") or {}).get("nodeName"))
        if self._goes_directly(node):
            try:
                return self._directly(pod, node)
            except EngineError as error:
                # One that refuses is there: its helper may not listen yet.
                if isinstance(error.__cause__, ConnectionRefusedError) or node in self._direct_to:
                    raise
                if self._wanted == DIRECT:
                    raise EngineError(
                        f"{error.message}: a pod's own address has to be reachable from here",
                        hint="`control: port_forward` needs no route to pods; or run towtank where there is one",
                    ) from error
                self._no_way = error
        try:
            return self._forwarded(str(pod["metadata"]["name"]))
        except EngineError as error:
            if self._no_way is None:
                raise
            raise EngineError(f"{self._no_way.message}, and {error.message}", hint=error.hint) from error

    def reach(self, pod: Json, cancelled: Cancelled, meet: Callable[[Reached], T]) -> T:
        """Connect to a helper that may just begin to listen.

        Parameters
        ----------
        pod : Json
        cancelled : callable
            Raises when somebody gave up.
        meet : callable
            What is done with the connection; where it raises EngineError, it is tried anew.

        Raises
        ------
        EngineError, PlatformError
            As `connect`, after some time.
        """
        until = time.monotonic() + _LISTENING_WITHIN_S
        while True:
            try:
                return meet(self.connect(pod))
            except EngineError:
                if time.monotonic() >= until:
                    raise
            cancelled_sleep(_TRY_EVERY_S, cancelled)

    def _goes_directly(self, node: str) -> bool:
        """Whether to try; once one node cannot be reached so, no other is tried that never was."""
        return self._wanted == DIRECT or (
            self._wanted is None and (self._no_way is None or node in self._direct_to)
        )

    def _directly(self, pod: Json, node: str) -> Reached:
        connection = connected(str((pod.get("status") or {}).get("podIP")), self._port)
        self._direct_to.add(node)
        return Reached(connection, DIRECT, str(connection.getsockname()[0]))

    def _forwarded(self, pod: str) -> Reached:
        try:
            forwarded = forward(self._api, self._namespace, pod, self._port)
        except ApiError as error:
            if error.code == http.HTTPStatus.FORBIDDEN:
                raise PlatformError(
                    f"a port-forward to pod {pod}: {error.message}", hint=error.hint
                ) from error
            raise EngineError(error.message, hint=error.hint) from error
        except PlatformError as error:  # the API server does not answer
            raise EngineError(error.message, hint=error.hint) from error
        try:
            if self._greets:
                forwarded.wait_first_words(CONNECT_TIMEOUT_S)
        except PlatformError as error:
            forwarded.connection.close()
            raise EngineError(error.message) from error
        return Reached(forwarded.connection, FORWARDED, forwarded.own_address)
