"""A connection to a port of a pod, carried by the API server: for orders and records where pods cannot be reached.

Never for load: every byte passes the API server and one kubelet, so these would be measured instead of the application.
A clock that is asked this way is known less well: its offset is sure to half of a longer way.

This is kubectl's port-forward in its WebSocket form (`v4.channel.k8s.io`). Each message begins with the number of its
channel: 0 carries the connection, 1 says what went wrong. The first message of either only repeats the port.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from contextlib import suppress

import httpcore2
import httpx2
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from towtank.errors import PlatformError
from towtank.platforms.kubernetes.client import ApiClient
from towtank.platforms.kubernetes.kinds import POD

SUBPROTOCOL = "v4.channel.k8s.io"
_DATA, _WRONG = 0, 1
_PORT_BYTES = 2
_PIECE = 32 * 1024
_MOST_WAITING = 1 << 20
"""So much may wait in either direction; whoever sends more has to wait, too."""
_LOOK_EVERY_MS = 500
_LAST_BYTES_WITHIN_S = 5.0
"""After one side has ended, what it said before has this long to get through."""
_MOST_WORDS = 2000
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Forward:
    """One connection to a port of a pod, on a thread of its own.

    `connection` is a socket like any other: when one side ends, the other sees the end. `own_address` is ours on the
    way to the API server.

    Parameters
    ----------
    answer : httpx2.Response
        Of the API server, as `ApiClient.upgrade` gives it.
    what : str
        For people: which port of which pod.
    """

    def __init__(self, answer: httpx2.Response, what: str) -> None:
        self._what = what
        self._answer = answer
        stream = answer.extensions["network_stream"]
        self._outside: socket.socket = stream.get_extra_info("socket")
        self.own_address = str(self._outside.getsockname()[0])
        self._ws = Connection(ConnectionType.CLIENT)
        self._to_pod, self._to_us, self._wrong = bytearray(), bytearray(), bytearray()
        self._channel: int | None = None
        self._still_port = {_DATA: _PORT_BYTES, _WRONG: _PORT_BYTES}
        self._pod_ended = self._we_ended = False
        with suppress(httpcore2.TimeoutException):  # what came together with the answer, if anything did
            self._take(stream.read(_MOST_WAITING, timeout=0.001))
        self.connection, self._inside = socket.socketpair()
        self._inside.settimeout(0)
        self._outside.settimeout(0)
        threading.Thread(target=self._carry, name=f"forward {what}", daemon=True).start()

    @property
    def problem(self) -> str:
        """What the cluster said was wrong; empty while nothing is."""
        said = " ".join(self._wrong.decode("utf-8", "replace").split())
        return f"{self._what}: {said}" if said else ""

    def wait_first_words(self, timeout_s: float) -> None:
        """Wait until the pod has said something, which is left to be read: so that it is known to be there.

        Raises
        ------
        PlatformError
            It ended the connection instead, or said nothing.
        """
        self.connection.settimeout(timeout_s)
        try:
            there = self.connection.recv(1, socket.MSG_PEEK)
        except TimeoutError as error:
            raise PlatformError(f"{self._what} said nothing within {timeout_s:g} s") from error
        finally:
            self.connection.settimeout(None)
        if not there:
            raise PlatformError(self.problem or f"{self._what} ended the connection")

    def _carry(self) -> None:
        """Pass bytes on, both ways, until both have heard all that the other said."""
        until = None
        try:
            while not (self._pod_ended and not self._to_us) and not (self._we_ended and not self._to_pod):
                if self._pod_ended or self._we_ended:
                    until = until or time.monotonic() + _LAST_BYTES_WITHIN_S
                    if time.monotonic() > until:
                        break
                self._turn()
        except (OSError, ValueError, LocalProtocolError, RemoteProtocolError) as error:
            self._wrong += b"" if self._wrong else f"the connection broke: {error}".encode()
        finally:
            self._inside.close()
            with suppress(httpx2.HTTPError, OSError, RuntimeError):
                self._answer.close()

    def _turn(self) -> None:
        """Wait until something can be done, and do it; one thread for both ways, as a TLS connection needs it."""
        poll = select.poll()
        reads_us = not self._we_ended and len(self._to_pod) < _MOST_WAITING
        reads_pod = not self._pod_ended and len(self._to_us) < _MOST_WAITING
        for one, reads, waiting in (
            (self._inside, reads_us, self._to_us),
            (self._outside, reads_pod, self._to_pod),
        ):
            mask = (select.POLLIN if reads else 0) | (select.POLLOUT if waiting else 0)
            if mask:
                poll.register(one, mask)
        held = isinstance(self._outside, ssl.SSLSocket) and self._outside.pending() > 0
        poll.poll(0 if held and reads_pod else _LOOK_EVERY_MS)
        if reads_us:
            self._hear_us()
        if reads_pod:
            self._hear_pod()
        self._send(self._outside, self._to_pod)
        try:
            self._send(self._inside, self._to_us)
        except OSError:  # nobody is there any more to hear it
            self._to_us.clear()
            self._end()

    def _hear_us(self) -> None:
        try:
            said = self._inside.recv(_PIECE)
        except _NOT_NOW:
            return
        except OSError:
            said = b""
        if said:
            self._to_pod += self._ws.send(BytesMessage(bytes([_DATA]) + said))
        else:
            self._end()

    def _end(self) -> None:
        if not self._we_ended:
            self._we_ended = True
            with suppress(LocalProtocolError):  # the other side has ended, too
                self._to_pod += self._ws.send(CloseConnection(1000))

    def _hear_pod(self) -> None:
        try:
            said = self._outside.recv(_PIECE)
        except _NOT_NOW:
            return
        if said:
            self._take(said)
        else:
            self._pod_ended = True

    def _take(self, said: bytes) -> None:
        self._ws.receive_data(said)
        for event in self._ws.events():
            if isinstance(event, BytesMessage):
                self._sort(bytes(event.data), is_last=event.message_finished)
            elif isinstance(event, Ping):
                self._to_pod += self._ws.send(event.response())
            elif isinstance(event, CloseConnection):
                self._pod_ended = True

    def _sort(self, part: bytes, *, is_last: bool) -> None:
        """Part of a message: to whom it goes, its first byte says."""
        if self._channel is None and part:
            self._channel, part = part[0], part[1:]
        channel = self._channel
        if is_last:
            self._channel = None
        if channel not in self._still_port:
            return
        skipped = min(self._still_port[channel], len(part))
        self._still_port[channel] -= skipped
        part = part[skipped:]
        if channel == _DATA:
            self._to_us += part
        elif part:
            self._wrong += part[: max(0, _MOST_WORDS - len(self._wrong))]
            self._pod_ended = True

    @staticmethod
    def _send(to: socket.socket, waiting: bytearray) -> None:
        with suppress(*_NOT_NOW):
            while waiting:
                del waiting[: to.send(bytes(waiting[:_PIECE]))]


def forward(api: ApiClient, namespace: str, pod: str, port: int) -> Forward:
    """Connect to a port of a pod through the API server.

    Whether somebody listens there, the cluster says only afterwards: then the connection ends, and `Forward.problem`
    says why. See `Forward.wait_first_words`.

    Raises
    ------
    ApiError, Unreachable
        The API server does not know the pod, or does not let us, or does not answer.
    """
    answer = api.upgrade(f"{POD.path(namespace, pod)}/portforward", SUBPROTOCOL, ports=str(port))
    return Forward(answer, f"port {port} of pod {pod} through the API server")
