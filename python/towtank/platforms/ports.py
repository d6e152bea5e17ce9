"""Ports for local instances: free ones that stay free until they are needed, and who holds one that is taken."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Self

import psutil

from towtank.errors import PlatformError

LOOPBACK = "127.0.0.1"
FIRST_FREE_PORT = 10240
"""Below are the ports that people and distributions give to services."""
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_EPHEMERAL = (32768, 60999)
_TRIES = 200
_LEAST_RANGE = 1000


class Reservation:
    """A port that is bound, so that nobody else gets it, until the instance that needs it is started.

    Between `release` and the instance's own bind the port is open to others for some milliseconds. Free ports
    are therefore taken outside the range from which the kernel serves outgoing connections.
    """

    def __init__(self, held: socket.socket) -> None:
        self._socket = held
        self.port: int = held.getsockname()[1]

    def release(self) -> None:
        """Let go of the port; harmless when repeated."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def reserve_free(rng: random.Random | None = None) -> Reservation:
    """Take a port that nobody uses on any address of this machine.

    Raises
    ------
    PlatformError
        None was found.
    """
    rng = rng or random.Random()  # noqa: S311 - not for secrecy: two Towtanks must not try the same ports
    first, last = free_range()
    for _ in range(_TRIES):
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # All addresses, and without SO_REUSEADDR: not even a connection in TIME_WAIT may be left on it.
            held.bind(("", rng.randint(first, last)))
        except OSError:
            held.close()
            continue
        return Reservation(held)
    raise PlatformError(
        f"no free port was found in {_TRIES} tries between {first} and {last}",
        hint="see with `ss -ltn` what listens on this machine",
    )


def reserve_fixed(port: int) -> Reservation:
    """Take a port that the experiment file names.

    Raises
    ------
    PlatformError
        It is in use; names the process that holds it when that can be known.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As servers do: what is left of closed connections is no obstacle, a listener is.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((LOOPBACK, port))
    except OSError as error:
        held.close()
        raise PlatformError(problem(port, error), hint=_FIXED_HINT) from error
    return Reservation(held)


def fixed_port_problem(port: int) -> str | None:
    """Say why a port that the experiment file names cannot be had now; nothing is kept."""
    try:
        reserve_fixed(port).release()
    except PlatformError as error:
        return error.message
    return None


_FIXED_HINT = "end that process, choose another `port`, or leave `port` out to get free ones"


def problem(port: int, error: OSError | None = None) -> str:
    """Say why a port cannot be had."""
    if isinstance(error, PermissionError):
        return f"port {port} cannot be bound without more rights: {error.strerror}"
    holder = find_holder(port)
    return f"port {port} is in use by {holder}" if holder else f"port {port} is in use"


def find_holder(port: int) -> str | None:
    """Name the process that listens on a port; None when that cannot be known."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for connection in connections:
        if connection.status != psutil.CONN_LISTEN or connection.pid is None or not connection.laddr:
            continue
        if connection.laddr.port == port:
            with contextlib.suppress(psutil.Error):
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return None


def free_range() -> tuple[int, int]:
    """Ports outside the range from which the kernel serves outgoing connections: first and last."""
    try:
        low, high = map(int, _EPHEMERAL_RANGE.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        low, high = _DEFAULT_EPHEMERAL
    if low - FIRST_FREE_PORT >= _LEAST_RANGE:
        return FIRST_FREE_PORT, low - 1
    if 65535 - high >= _LEAST_RANGE:
        return high + 1, 65535
    return FIRST_FREE_PORT, 65535
