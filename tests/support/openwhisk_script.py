"""What a fake OpenWhisk has and does: keys, limits, what actions come to, and the records of that."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from towtank.autoscaling.openwhisk.throttle import Throttle

KEY = "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"
"""The published key of the namespace guest (ansible/files/auth.guest)."""
FOREIGN = (
    "789c46b1-71f6-4ed5-8c54-816aa4f8c502:abczO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"
)
MIB = 1 << 20
Json = dict[str, Any]


@dataclass
class Ran:
    """What a run of an action came to: its result, and how long it took."""

    result: Any = None
    seconds: float = 0.0
    status: str = "success"


@dataclass
class Script:
    """What there is, and how it behaves."""

    keys: dict[str, str] = field(default_factory=lambda: {KEY: "guest", FOREIGN: "other"})
    runs: dict[str, Callable[[Json], Ran]] = field(default_factory=dict)
    """Simple name of an action → what a run of it does."""
    init_s: float = 0.02
    record_delay_s: float = 0.0
    """How long after its end a record can be read."""
    blocking_wait_s: float = 60.0
    per_minute: int | None = None
    at_a_time: int | None = None
    memory_mib: tuple[int, int] = (128, 512)
    timeout_ms: tuple[int, int] = (100, 300_000)
    concurrency: tuple[int, int] = (1, 1)
    code_bytes: int = 48 * MIB
    kinds: tuple[str, ...] = ("nodejs:20", "python:3.11")
    ahead_s: float = 0.0
    later: int = 0
    """Requests that are answered 429 by what stands in front, before any other."""
    broken: set[str] = field(default_factory=set)
    """"METHOD collection" that are answered 500."""
    own_limits: Json = field(default_factory=dict)
    """What `/limits` says of the namespace besides rates."""
    tells_itself: bool = True
    entities: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    """Namespace, collection, name → entity."""
    activations: list[Json] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    warm: dict[str, int] = field(default_factory=dict)
    running: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    throttle: Throttle | None = None

    def left(self) -> list[str]:
        """Names of everything that there is."""
        return sorted(f"{collection}/{name}" for _, collection, name in self.entities)


def record_of(path: str, ran: Ran, *, start_ms: int, duration_ms: int, marks: Json) -> Json:
    """A record of an activation of `NAMESPACE/[PACKAGE/]ACTION` (docs/reference.md)."""
    namespace, name = path.partition("/")[0], path.rpartition("/")[2]
    marks = {"path": path, **marks}
    return {
        "namespace": namespace, "name": name, "version": "0.0.1", "subject": namespace, "logs": [],
        "activationId": uuid.uuid4().hex, "start": start_ms, "end": start_ms + duration_ms, "duration": duration_ms,
        "response": {"status": ran.status, "success": ran.status == "success", "result": ran.result},
        "annotations": [{"key": key, "value": value} for key, value in marks.items()],
    }  # fmt: skip


def answers(parameters: Json) -> Ran:
    """An application with one path that it has not."""
    if parameters.get("__ow_path") == "/nowhere":
        return Ran({"statusCode": 404, "body": "no such path"})
    return Ran({"statusCode": 200, "body": "hello"})


def fails(parameters: Json) -> Ran:
    """Code that cannot be started."""
    del parameters
    return Ran(
        {"error": "The action failed during initialization: SyntaxError"}, 0.0, "action developer error"
    )
