"""Watching collections of objects: what changes is told with the instant at which the message came.

A watch that breaks off goes on where it was. When the server no longer knows that place (410), the collection is read
again, and what differs is told as if it had just happened; the time in between is noted as a gap.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from towtank.errors import PlatformError
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json, Lines, parse_event
from towtank.platforms.kubernetes.kept import Shape, kept

Change = Literal["ADDED", "MODIFIED", "DELETED"]
OnChange = Callable[[Change, Json, Json | None, int], None]
"""What happened, the object, what it was before, and CLOCK_MONOTONIC in ns when that was received."""
SERVER_TIMEOUT_S = 300
"""The server ends a watch after this; bookmarks let the next one begin close to now."""
_READ_MARGIN_S = 30.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_STOP_WAIT_S = 2.0
_GONE = 410
_DENIED = (401, 403, 404)


@dataclass(frozen=True)
class Gap:
    """A time in which nothing could be seen, CLOCK_MONOTONIC in ns; of it only the outcome is known."""

    from_ns: int
    to_ns: int


class Watcher:
    """Watches one collection in a thread of its own.

    Parameters
    ----------
    api : ApiClient
    path : str
        Of the collection.
    on_change : callable
        Called from the thread, in order.
    params : mapping
        Selectors.
    shape : Shape, optional
        What of the objects is told and kept; all of it by default.
    keep : bool
        Keep the objects, for `things`; without it only what is needed to tell news from repetition.
    """

    def __init__(
        self,
        api: ApiClient,
        path: str,
        on_change: OnChange,
        params: Mapping[str, str] | None = None,
        *,
        shape: Shape | None = None,
        keep: bool = True,
    ) -> None:
        self._api = api
        self._path = path
        self._on_change = on_change
        self._params = dict(params or {})
        self._shape = shape
        self._keep = keep
        self._lock = threading.Lock()
        self._things: dict[str, Json] = {}
        self._gaps: list[Gap] = []
        self._lines: Lines | None = None
        self._version = ""
        self._begun = False
        self._connected = threading.Event()
        self._ending = threading.Event()
        self._last_seen_ns = time.monotonic_ns()
        self._thread = threading.Thread(target=self._run, name=f"towtank-watch {path}", daemon=True)
        self.denied = ""
        """Why this may not be watched; empty while it may."""

    def start(self, *, wait_s: float = 10.0) -> None:
        """Begin, and wait until the collection was read once, or may not be."""
        self._thread.start()
        self._connected.wait(wait_s)

    def close(self) -> None:
        """End the watch."""
        self._ending.set()
        with self._lock:
            lines = self._lines
        if lines is not None:
            lines.end()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_STOP_WAIT_S)

    @property
    def things(self) -> list[Json]:
        """Everything that is in the collection now, as far as is known."""
        with self._lock:
            return list(self._things.values())

    @property
    def gaps(self) -> list[Gap]:
        """Times in which nothing could be seen."""
        with self._lock:
            return list(self._gaps)

    def connected(self, wait_s: float = 0.0) -> bool:
        """Whether the server is heard, perhaps after a while; also when it has said that this may not be watched."""
        return self._connected.wait(wait_s) if wait_s else self._connected.is_set()

    # --- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._ending.is_set():
            begun = time.monotonic()
            try:
                if not self._version:
                    self._version = self._read()
                self._follow()
            except ApiError as error:
                if error.code in _DENIED:
                    self.denied = error.message
                    self._connected.set()
                    return
                if error.code == _GONE:
                    self._version, pause_s = "", _FIRST_PAUSE_S / 2
                self._connected.clear()
            except PlatformError:
                self._connected.clear()
            pause_s = (
                _FIRST_PAUSE_S
                if time.monotonic() - begun > _LONGEST_PAUSE_S
                else min(pause_s * 2, _LONGEST_PAUSE_S)
            )
            self._ending.wait(pause_s if not self._connected.is_set() else 0.0)

    def _heard(self) -> None:
        """The server is heard again: what lies between is a gap."""
        now = time.monotonic_ns()
        if not self._connected.is_set():
            with self._lock:
                if self._begun:
                    self._gaps.append(Gap(self._last_seen_ns, now))
            self._begun = True
            self._connected.set()
        self._last_seen_ns = now

    def _read(self) -> str:
        """Read the whole collection and tell what differs from what was known."""
        found: list[Json] = []
        version = ""
        for page, at in self._api.pages(self._path, **self._params):
            found += map(self._reduced, page)  # of thousands of objects, one page is there as a whole
            version = at
        now_ns = time.monotonic_ns()
        current = {str(thing["metadata"]["uid"]): thing for thing in found}
        with self._lock:
            gone = [thing for uid, thing in self._things.items() if uid not in current]
        for thing in gone:
            self._tell("DELETED", thing, now_ns)
        for thing in found:
            self._tell("MODIFIED", thing, now_ns)
        self._heard()
        return version

    def _follow(self) -> None:
        """Follow the collection from the version that is known until the server ends that."""
        params = {
            **self._params, "watch": "true", "allowWatchBookmarks": "true",
            "resourceVersion": self._version, "timeoutSeconds": str(SERVER_TIMEOUT_S),
        }  # fmt: skip
        timeout_s = SERVER_TIMEOUT_S + _READ_MARGIN_S
        try:
            with self._api.stream(self._path, params, read_timeout_s=timeout_s) as lines:
                with self._lock:
                    self._lines = lines
                self._heard()
                for line in lines:
                    now_ns = time.monotonic_ns()
                    if self._ending.is_set():
                        break
                    if not line.strip():
                        continue
                    kind, thing = parse_event(line)
                    self._version = str(thing["metadata"].get("resourceVersion") or self._version)
                    if kind in ("ADDED", "MODIFIED", "DELETED"):
                        self._tell(kind, self._reduced(thing), now_ns)  # type: ignore[arg-type]  # just checked
                    self._heard()
        finally:
            with self._lock:
                self._lines = None

    def _reduced(self, thing: Json) -> Json:
        if self._shape is not None:
            return kept(thing, self._shape)
        thing["metadata"].pop("managedFields", None)  # half of an object, and of no use here
        return thing

    def _tell(self, kind: Change, thing: Json, now_ns: int) -> None:
        uid = str(thing["metadata"]["uid"])
        with self._lock:
            before = self._things.get(uid)
            if before is not None and kind != "DELETED":
                if before["metadata"].get("resourceVersion") == thing["metadata"].get("resourceVersion"):
                    return
                kind = "MODIFIED"
            elif before is None and kind == "MODIFIED":
                kind = "ADDED"
            if kind == "DELETED":
                self._things.pop(uid, None)
            else:
                self._things[uid] = thing if self._keep else {"metadata": _essence(thing["metadata"])}
        self._on_change(kind, thing, before, now_ns)


def _essence(metadata: Json) -> Json:
    """What tells an object, and a version of it, from others."""
    return {key: metadata.get(key) for key in ("uid", "name", "resourceVersion")}
