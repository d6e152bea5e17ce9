"""Logs of a deployment's pods: whoever comes is followed, up to so many containers at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from towtank.platforms.base import LogFile
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.log_file import ContainerLog
from towtank.platforms.kubernetes.log_following import Budget, Follower, Life
from towtank.platforms.kubernetes.log_stream import NS_PER_S, Resume
from towtank.platforms.kubernetes.node_clocks import NodeClocks
from towtank.platforms.kubernetes.pods import containers
from towtank.platforms.kubernetes.watching import Change
from towtank.platforms.masking import Secrets

MOST_STREAMS = 64
"""Containers that are followed at once: each takes a connection here, and one from the API server to a kubelet."""
MOST_READ_BYTES_PER_S = 8 * 2**20
"""Of all streams together."""
MOST_KEPT_BYTES = 1 << 30
"""Of all containers of a deployment together."""
FLUSH_EVERY_S = 0.5
_QUIET_S = 0.4
_CATCH_UP_S = 3.0
_END_S = 3.0


class PodLogs:
    """Follows the containers of pods that a watch tells of. Safe to use from several threads.

    Parameters
    ----------
    api : ApiClient
        For this alone, since every stream occupies one of its connections; closed at the end.
    folder : Path
        Where logs go: ``<pod>.<container>.log``. A pod that comes back under its name goes on in them.
    labels : mapping
        Of the pods that are followed; empty for all.
    limit : int
        Bytes that are kept of each container.
    secrets : Secrets
    """

    def __init__(
        self, api: ApiClient, folder: Path, labels: Mapping[str, str], limit: int, secrets: Secrets
    ) -> None:
        self._api = api
        self._folder = folder
        self._labels = dict(labels)
        self._limit = limit
        self._secrets = secrets
        self._lock = threading.Lock()
        self._followers: dict[tuple[str, str], Follower] = {}
        self._waiting: dict[tuple[str, str], Json] = {}
        self._waited: set[tuple[str, str]] = set()
        self._names: dict[tuple[str, str], tuple[str, str]] = {}
        self._logs: dict[Path, ContainerLog] = {}
        self._of_path: dict[Path, Follower] = {}
        self._unkept: dict[tuple[str, str], str] = {}
        self._gone_ns: dict[tuple[str, str], int] = {}
        self._budget = Budget(MOST_READ_BYTES_PER_S)
        self._clocks = NodeClocks(api)
        self._ended: tuple[LogFile, ...] | None = None
        self._ending = threading.Event()
        self._keeper = threading.Thread(target=self._keep_up, name="towtank-pod-logs", daemon=True)
        self._keeper.start()

    def on_pod(self, change: Change, pod: Json, _before: Json | None, _t_ns: int) -> None:
        """A watch tells of a pod."""
        labels = pod["metadata"].get("labels") or {}
        if any(labels.get(key) != value for key, value in self._labels.items()):
            return
        uid, gone = str(pod["metadata"]["uid"]), change == "DELETED"
        with self._lock:
            for key, follower in self._followers.items():
                if key[0] == uid:
                    follower.changed(pod, gone=gone)
            for name in _begun(pod):
                key = uid, name
                if key in self._unkept and gone:
                    self._gone_ns[key] = time.monotonic_ns()
                if key in self._followers or key in self._unkept or self._ending.is_set():
                    continue
                self._names[key] = str(pod["metadata"]["name"]), name
                if gone:
                    self._gone_ns[key] = time.monotonic_ns()
                    self._waiting.pop(key, None)
                    self._unkept[key] = "it was gone before it was followed"
                else:
                    self._waiting[key] = pod
            self._fill()

    def up_to_now(self) -> Sequence[LogFile]:
        """Logs with what was written up to now: waits until nothing more comes, for a moment at most."""
        if self._ended is not None:
            return self._ended
        asked_ns = time.monotonic_ns()
        while time.monotonic_ns() - asked_ns < _CATCH_UP_S * NS_PER_S:
            with self._lock:
                followers = list(self._followers.values())
            if all(one.done or one.quiet_s > _QUIET_S or one.read_to_ns > asked_ns for one in followers):
                break
            time.sleep(0.05)
        with self._lock:
            for one in self._followers.values():
                if not one.done:
                    one.flush()
            return self._files()

    def close(self) -> Sequence[LogFile]:
        """End all streams, what is on its way still read; repeated calls give the same answer."""
        if self._ended is not None:
            return self._ended
        self._ending.set()
        with self._lock:
            followers = list(self._followers.values())
        until = time.monotonic() + _END_S
        for follower in followers:
            follower.close(max(0.0, until - time.monotonic()))
        self._keeper.join(2.0)
        self._clocks.close()
        self._api.close()
        with self._lock:
            with contextlib.suppress(OSError):  # that they were not followed is said all the same
                for key in self._waiting:
                    self._folder.mkdir(parents=True, exist_ok=True)
                    self._path(key).touch()
            self._ended = tuple(self._files())
        return self._ended

    def facts(self) -> dict[str, Any]:
        """For run.json."""
        with self._lock:
            followers = list(self._followers.values())
            waited = len(self._waited)
        return {
            "containers": len(followers),
            "streams": sum(one.streams for one in followers),
            "waited": waited,
            "most_streams": MOST_STREAMS,
            "clocks": self._clocks.facts(),
        }

    # --- with the lock held --------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Begin to follow as many as may be; the others wait until somebody has ended."""
        if self._ending.is_set() or not self._waiting:
            return
        room = MOST_STREAMS - sum(not one.done for one in self._followers.values())
        for key, pod in list(self._waiting.items()):
            earlier = self._of_path.get(self._path(key))
            if earlier is not None and not earlier.done:
                earlier.give_way()  # the API knows pods by name: two would read the same
                continue
            if room <= 0:
                self._waited |= self._waiting.keys()
                return
            del self._waiting[key]
            room -= 1
            self._follow(key, pod, Resume() if earlier is None else Resume.after(earlier.give_way()))

    def _follow(self, key: tuple[str, str], pod: Json, resume: Resume) -> None:
        path = self._path(key)
        try:
            if path not in self._logs:
                self._logs[path] = ContainerLog(path, min(self._limit, self._room()), self._secrets)
        except OSError as error:  # told at the end; pods are watched on
            self._unkept[key] = f"it could not be written here: {error.strerror or error}"
            return
        clock = self._clocks.of(str((pod.get("spec") or {}).get("nodeName") or ""))
        follower = Follower(
            self._api, pod, key[1], log=self._logs[path], clock=clock, budget=self._budget, resume=resume
        )
        self._followers[key] = self._of_path[path] = follower
        follower.start()

    def _room(self) -> int:
        """What another log may keep: those that go on may fill theirs."""
        on = {one.log.path for one in self._followers.values() if not one.done}
        taken = sum(self._limit if path in on else log.kept for path, log in self._logs.items())
        return max(0, MOST_KEPT_BYTES - taken)

    def _path(self, key: tuple[str, str]) -> Path:
        pod, container = self._names[key]
        return self._folder / f"{pod}.{container}.log"

    def _files(self) -> list[LogFile]:
        """One for each file: a pod that came back under its name had several followers."""
        why: dict[Path, tuple[int, str]] = {}
        ended: dict[Path, int | None] = {}
        facts: dict[Path, dict[str, str]] = {}
        for key in [*self._followers, *self._waiting, *self._unkept]:
            path = self._path(key)
            why[path] = max(why.get(path, (0, "")), self._missed(key))
            ended[path] = _later(ended.get(path, 0), self._ended_ns(key))
            facts[path] = dict(zip(("pod", "container"), self._names[key], strict=True))
        found = []
        for path, (missed_ns, incomplete) in why.items():
            log = self._logs.get(path)
            written, kept = (log.written, log.kept) if log is not None else (0, 0)
            found.append(
                LogFile(
                    path.stem,
                    path,
                    written,
                    kept,
                    incomplete=incomplete,
                    facts=facts[path],
                    missed_ns=missed_ns or None,
                    ended_ns=ended[path],
                )
            )
        return found

    def _missed(self, key: tuple[str, str]) -> tuple[int, str]:
        """When lines were last found to be missing, and why; who is never followed misses them until now."""
        if key in self._unkept:
            return self._gone_ns.get(key) or time.monotonic_ns(), self._unkept[key]
        if key in self._waiting:
            why = f"it was never followed: {MOST_STREAMS} others were, which is the most at once"
            return time.monotonic_ns(), why
        one = self._followers[key]
        return one.missed_ns or 0, one.incomplete

    def _ended_ns(self, key: tuple[str, str]) -> int | None:
        return self._followers[key].ended_ns if key in self._followers else self._gone_ns.get(key)

    # --- the thread ----------------------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        """Write out what came, and let those begin that wait."""
        while not self._ending.wait(FLUSH_EVERY_S):
            with self._lock:
                for one in self._followers.values():
                    if not one.done:
                        one.flush()
                self._fill()


def _later(one: int | None, other: int | None) -> int | None:
    """The later of two ends; None as long as one is to come."""
    return None if one is None or other is None else max(one, other)


def _begun(pod: Json) -> Iterator[str]:
    """Containers of a pod that have something to say, perhaps."""
    for one in containers(pod):
        name = str(one.get("name"))
        if Life.of(pod, name).begun:
            yield name
