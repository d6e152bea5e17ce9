"""Agents outside of a cluster: on this machine, or on machines that ssh reaches; each talks over its own connection."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from typing import Literal, Protocol
from urllib.parse import urlsplit

from towtank.errors import EngineError
from towtank.load.engine import TOKEN_VARIABLE
from towtank.load.workers.places import Link, Standing, how_ended, last_words
from towtank.load.workers.ssh import Ssh
from towtank.telemetry.agent.options import AgentOptions
from towtank.telemetry.base import Helper

_END_WITHIN_S = 3.0
State = Literal["ready", "unready", "gone"]
"""What is known of a machine by others than its agent."""


class Place(Protocol):
    """Where agents stand."""

    def start(self, until_s: float) -> None:
        """Start them, so that each can be reached, by this moment of the monotonic clock."""

    def names(self) -> Sequence[str]:
        """Machines that have one."""

    def state(self, name: str) -> State:
        """Whether a machine can be expected to answer; of one that is gone nobody asks anything."""

    def reach(self, name: str) -> Link:
        """Connect to the agent of a machine, anew if need be.

        Raises
        ------
        EngineError
        """

    def close(self) -> None:
        """End them; nothing is left. Idempotent."""


def agent_words(options: AgentOptions, interval_s: float) -> list[str]:
    """What an engine is told, to be an agent over its own stdin and stdout."""
    sockets = [] if options.ceph_sockets is None else ["--ceph-sockets", options.ceph_sockets]
    return ["agent", "--stdio", "--interval-ms", str(round(interval_s * 1000)), *sockets]


class Here:
    """This machine: a process of its own.

    Parameters
    ----------
    options : AgentOptions
    helper : Helper
    interval_s : float
    """

    def __init__(self, options: AgentOptions, helper: Helper, interval_s: float) -> None:
        self._helper = helper
        self._command = [str(helper.engine), *agent_words(options, interval_s)]
        self._log = helper.context.log_dir / "agent.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def start(self, until_s: float) -> None:
        """Nothing yet: it is started when it is reached."""

    def names(self) -> Sequence[str]:
        """This machine."""
        return [socket.gethostname()]

    def state(self, name: str) -> State:
        """It is there."""
        del name
        return "ready"

    def reach(self, name: str) -> Link:
        """Start it; one that was there has lost its connection, and has ended."""
        self._end()
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=log,
                    env={**os.environ, TOKEN_VARIABLE: self._helper.context.token}, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            ours.close()
            raise EngineError(f"the engine {self._command[0]} cannot be started: {error}") from error
        process = self._process
        standing = Standing("local", name, {"pid": process.pid})
        return Link(ours, None, standing, lambda: f"{how_ended(process)}{last_words(self._log)}")

    def close(self) -> None:
        """End it."""
        self._end()
        if not self._closed:
            self._closed = True
            self._helper.over()

    def _end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_END_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


class OverSsh:
    """Machines that the plain ssh client reaches.

    Parameters
    ----------
    hosts : sequence of str
        ``ssh://[user@]host[:port]``
    options : AgentOptions
    helper : Helper
    interval_s : float
    """

    def __init__(
        self, hosts: Sequence[str], options: AgentOptions, helper: Helper, interval_s: float
    ) -> None:
        self._helper = helper
        self._names = _short_names(hosts)
        self._ssh = Ssh(
            hosts, helper.engine, remote_engine=options.engine, logs=helper.context.log_dir,
            mark=helper.context.token, words=agent_words(options, interval_s), role="agent",
        )  # fmt: skip
        self._closed = False

    def start(self, until_s: float) -> None:
        """Nothing yet: each is started when it is reached."""

    def names(self) -> Sequence[str]:
        """The machines, by their names; by name and port where two have one name."""
        return self._names

    def state(self, name: str) -> State:
        """Nobody else says anything of them."""
        del name
        return "ready"

    def reach(self, name: str) -> Link:
        """Start it anew; with its connection its predecessor has ended."""
        return self._ssh.start_one(self._names.index(name), cancelled=lambda: None)

    def close(self) -> None:
        """End all clients; their agents end with them."""
        self._ssh.close()
        if not self._closed:
            self._closed = True
            self._helper.over()


def _short_names(hosts: Sequence[str]) -> list[str]:
    parts = [urlsplit(host) for host in hosts]
    names = [part.hostname or "" for part in parts]
    return [name if names.count(name) == 1 else part.netloc for name, part in zip(names, parts, strict=True)]
