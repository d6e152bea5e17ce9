"""Following the log of one container through all its lives, over however many streams that takes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from towtank.errors import PlatformError
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json, Lines
from towtank.platforms.kubernetes.kinds import POD
from towtank.platforms.kubernetes.log_file import ContainerLog
from towtank.platforms.kubernetes.log_stream import NS_PER_S, LineReader, Resume
from towtank.platforms.kubernetes.node_clocks import NodeClock
from towtank.platforms.kubernetes.pods import containers

SILENT_S = 3600.0
"""A container may have nothing to say; a connection that is dead is found out by the watch on the same server."""
BEHIND_NS = 8 * NS_PER_S
"""A kubelet looks every 10 s whether a log is to be rotated; who reads later than that may miss a whole file."""
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 3.0
_CLOCK_WITHIN_S = 6.0
_LEAST_FLOOD_BYTES = 1 << 20
"""A log that was never larger is not rotated: what comes late was held up, and is all there."""
_MOST_TRIALS_S = 20.0
"""An API server that is restarted is away for seconds; a log that is refused for longer stays as it is."""
_NOT_TO_ITS_END = "it was gone before it was read to its end"
_WAITING, _DENIED, _GONE = (400,), (401, 403), (404,)


@dataclass(frozen=True)
class Life:
    """How a container is: how often it was started again, whether it runs now, whether it ever did."""

    restarts: int
    running: bool
    begun: bool

    @classmethod
    def of(cls, pod: Json, container: str) -> Life:
        """What a pod says of one of its containers."""
        for one in containers(pod):
            if one.get("name") == container:
                state = one.get("state") or {}
                ended = state.get("terminated") or (one.get("lastState") or {}).get("terminated")
                running = bool(state.get("running"))
                return cls(int(one.get("restartCount") or 0), running, begun=running or bool(ended))
        return cls(0, running=False, begun=False)


class Budget:
    """How much all streams together may read: a flood must not take the CPU from the load.

    What is not read waits in files of the node; nobody who writes is held up.

    Parameters
    ----------
    bytes_per_s : float
    """

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._lock = threading.Lock()
        self._free_at = 0.0

    def spend(self, count: int, ending: threading.Event) -> None:
        """Account for what was read, and wait until more may be."""
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - 1) + count / self._bytes_per_s
            wait_s = self._free_at - now
        if wait_s > 0:
            ending.wait(min(wait_s, 1.0))


class Follower:
    """Follows one container in a thread of its own.

    A stream ends with its container, or breaks; either way the next one goes on after the last line that was seen. When
    the container was started again meanwhile, what its earlier life still had to say is read first.

    Parameters
    ----------
    api : ApiClient
    pod : dict
    container : str
    log : ContainerLog
    clock : NodeClock
    budget : Budget
    resume : Resume
        Where to begin.
    """

    def __init__(
        self,
        api: ApiClient,
        pod: Json,
        container: str,
        *,
        log: ContainerLog,
        clock: NodeClock,
        budget: Budget,
        resume: Resume,
    ) -> None:
        self._api = api
        self._path = POD.path(str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])) + "/log"
        self._container = container
        self.log = log
        self.clock = clock
        self._budget = budget
        self._resume = resume
        self._life = Life.of(pod, container)
        self._read_restarts = max(0, self._life.restarts - 1)
        self._whole = True
        self._read_life: int | None = None
        """Restarts before the life whose stream was the last that opened and ended in order."""
        self._changed = threading.Condition()
        self._gone = False
        self._ending = threading.Event()
        self._stream: Lines | None = None
        self._received_ns = time.monotonic_ns()
        self.streams = 0
        """How many streams it took."""
        self._incomplete = ""
        self._missed_ns = 0
        self._ended_ns = 0
        self._thread = threading.Thread(target=self._run, name=f"towtank-log {self._path}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether there is nothing more to come."""
        return not self._thread.is_alive()

    @property
    def incomplete(self) -> str:
        """Why lines may be missing, and bytes are at least those that were counted; empty when none are."""
        return self._incomplete

    @incomplete.setter
    def incomplete(self, why: str) -> None:
        self._incomplete, self._missed_ns = why, time.monotonic_ns()

    @property
    def missed_ns(self) -> int | None:
        """When lines were last found to be missing; until now, where a pod that lives is read no more."""
        if not self.incomplete:
            return None
        return time.monotonic_ns() if self.done and not self._gone else self._missed_ns

    @property
    def ended_ns(self) -> int | None:
        """When the end was read of a pod that is gone."""
        return self._ended_ns if self.done and self._gone else None

    @property
    def quiet_s(self) -> float:
        """How long nothing has come."""
        return (time.monotonic_ns() - self._received_ns) / NS_PER_S

    @property
    def read_to_ns(self) -> int:
        """When the newest line was written, CLOCK_MONOTONIC; 0 before the first."""
        newest_ns = self._resume.last_ns
        return self.clock.here_ns(newest_ns) if newest_ns else 0

    def changed(self, pod: Json, *, gone: bool) -> None:
        """The pod is another one now, or gone."""
        with self._changed:
            self._life = Life.of(pod, self._container)
            self._gone = self._gone or gone
            self._changed.notify_all()

    def give_way(self) -> Resume:
        """Another pod has taken the name: read no more, since it would be that one's; what was seen lately."""
        self._ending.set()
        stream = self._stream
        if stream is not None:
            stream.end()
        with self._changed:
            self._changed.notify_all()
        return self._resume

    def close(self, wait_s: float) -> None:
        """Read no more, after having waited a moment for what is still on its way."""
        with self._changed:
            self._gone = True
            self._changed.notify_all()
        self._thread.join(wait_s)
        self._ending.set()
        stream = self._stream
        if stream is not None:
            stream.end()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self.incomplete = self.incomplete or "it was not read to its end when it was let go of"
            self._thread.join(2.0)
        try:
            self.log.close()
        except OSError as error:
            self._unwritten(error)

    def flush(self) -> None:
        """Write out what came; a disk that is full makes the log incomplete, and stops nobody."""
        try:
            self.log.flush()
        except OSError as error:
            self._unwritten(error)

    # --- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._follow()
            with self._changed:
                restarts = self._life.restarts
            if self._read_life != restarts:
                self.incomplete = self.incomplete or _NOT_TO_ITS_END
        except OSError as error:
            self._unwritten(error)
        finally:
            self._ended_ns = time.monotonic_ns()
            try:  # a deployment may see thousands of pods, and a process may have a thousand files open
                self.log.let_go()
            except OSError as error:
                self._unwritten(error)

    def _unwritten(self, error: OSError) -> None:
        self.incomplete = self.incomplete or f"it could not be written here: {error.strerror or error}"

    def _follow(self) -> None:
        self.clock.known.wait(_CLOCK_WITHIN_S)  # what is written meanwhile waits on the node
        self.log.written_on(self.clock.here_ns)
        pause_s, failing_since = _FIRST_PAUSE_S, 0.0
        while not self._ending.is_set():
            with self._changed:
                life, gone = self._life, self._gone
            try:
                if life.restarts > self._read_restarts:
                    self._read_earlier(life.restarts)
                self._read(follow=True)
                self._read_life = life.restarts
                pause_s, failing_since = _FIRST_PAUSE_S, 0.0
                if gone or not self._wait_for_another(life):
                    break
            except ApiError as error:
                if error.code in _GONE or self._ending.is_set():
                    break
                if error.code in _DENIED:
                    self.incomplete = f"the cluster does not allow to read it: {error.said}"
                    break
                if error.code not in _WAITING:
                    failing_since = failing_since or time.monotonic()
                    if gone and time.monotonic() - failing_since > _MOST_TRIALS_S:
                        self.incomplete = f"the API server refused: {error.said}"
                        break
            except PlatformError as error:
                failing_since = failing_since or time.monotonic()
                if gone and time.monotonic() - failing_since > _MOST_TRIALS_S:
                    self.incomplete = error.message
                    break
            self._pause(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _pause(self, seconds: float) -> None:
        """Leave the server alone for a while; news of the pod end that, and what is gone does not wait for long."""
        with self._changed:
            self._changed.wait(min(seconds, _FIRST_PAUSE_S) if self._gone else seconds)

    def _wait_for_another(self, life: Life) -> bool:
        """A stream ended in order: whether another one will have more to say."""
        if life.running:  # it broke off, or the container has just ended: another one is cheap and tells
            return True
        with self._changed:
            while not self._gone and not self._ending.is_set() and self._life == life:
                self._changed.wait(1.0)
            return not self._ending.is_set() and (self._life != life)

    def _read_earlier(self, restarts: int) -> None:
        """What the last life had to say and was not read; of lives before that one nothing is known any more."""
        if restarts > self._read_restarts + 1:
            self.incomplete = (
                "it was started again twice between two looks: of the life between its lines are lost"
            )
        try:
            self._read(follow=False, previous="true")
        except ApiError as error:
            if error.code not in _WAITING:
                raise
            if not self._whole:  # its stream had broken, and the node has let go of its lines
                self.incomplete = (
                    self.incomplete or f"its last lines before it was started again: {error.said}"
                )
        self._read_restarts = restarts
        self.log.end_life()

    def _read(self, *, follow: bool, **more: str) -> None:
        """Take one stream to its end."""
        params = {"container": self._container, "timestamps": "true", **more}
        if follow:
            params["follow"] = "true"
        if since := self._resume.since:
            params["sinceTime"] = since
        self.streams += 1
        self._whole = False
        reader = LineReader(self._resume)
        try:
            with self._api.stream(self._path, params, read_timeout_s=SILENT_S) as stream:
                self._stream = stream
                self._read_life = None
                for piece in stream.pieces():
                    self._take(reader, piece)
                    if self._ending.is_set():
                        return
                for line in reader.rest():
                    self.log.take(line)
                self._whole = True
        finally:
            self._stream = None
            self.log.flush()

    def _take(self, reader: LineReader, piece: bytes) -> None:
        self._received_ns = received_ns = time.monotonic_ns()
        for line in reader.counted(piece) if self.log.full else reader.lines(piece):
            self.log.take(line)
        newest_ns = self._resume.last_ns
        if newest_ns and not self._resume.repeating:
            self.clock.came(newest_ns, received_ns)
            behind_ns = received_ns - self.clock.here_ns(newest_ns)
            flooded = self.log.written >= _LEAST_FLOOD_BYTES and reader.age_s > BEHIND_NS / NS_PER_S
            if behind_ns > BEHIND_NS and flooded:
                self.incomplete = (
                    f"its lines were read {behind_ns / NS_PER_S:.0f} s after they were written, so that the node may "
                    "have let go of some unread"
                )
        self._budget.spend(len(piece), self._ending)
