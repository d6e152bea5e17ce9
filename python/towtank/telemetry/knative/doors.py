"""Metrics endpoints of pods: reached at the pod's own address, or through the API server where no route leads there."""

from __future__ import annotations

import http.client
from contextlib import closing

from towtank.errors import EngineError, TelemetryError
from towtank.fields import ControlWay
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.control import Control

MOST_BYTES = 64 << 20
"""Of one answer; an Envoy with thousands of clusters says less."""


class Doors:
    """The endpoints at one port of the pods of a namespace.

    Parameters
    ----------
    api : ApiClient
    namespace : str
    port : int
    path : str
    wanted : str, optional
        As `Control` has it.
    timeout_s : float
        For one answer.
    """

    def __init__(
        self,
        api: ApiClient,
        namespace: str,
        *,
        port: int,
        path: str,
        wanted: ControlWay,
        timeout_s: float,
    ) -> None:
        self._control = Control(api, namespace, port, wanted, greets=False)
        self._port = port
        self._path = path
        self._timeout_s = timeout_s
        self.ways: set[str] = set()

    def read(self, pod: Json) -> str:
        """Ask one pod.

        Raises
        ------
        TelemetryError
            It cannot be reached, or answers something else.
        PlatformError
            It may not be reached.
        """
        what = f"pod {pod['metadata']['name']}, port {self._port}{self._path}"
        try:
            reached = self._control.connect(pod)
        except EngineError as error:
            raise TelemetryError(f"{what}: {error.message}", hint=error.hint) from error
        self.ways.add(reached.way)
        reached.connection.settimeout(self._timeout_s)
        with closing(http.client.HTTPConnection("metrics", self._port)) as connection:
            connection.sock = reached.connection
            try:
                connection.request("GET", self._path, headers={"Accept": "text/plain", "Connection": "close"})
                answer = connection.getresponse()
                body = answer.read(MOST_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise TelemetryError(f"{what} did not answer: {error or type(error).__name__}") from error
        if answer.status != http.client.OK:
            raise TelemetryError(f"{what} answered {answer.status} {answer.reason}")
        return body.decode("utf-8", errors="replace")
