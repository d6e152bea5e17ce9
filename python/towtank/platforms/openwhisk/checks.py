"""What can be known before anything is created: reach, key, namespace, and the limits that this OpenWhisk has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from towtank.platforms.openwhisk.api import Api
from towtank.platforms.openwhisk.config import MIB, Action, OpenWhiskConfig
from towtank.units import format_bytes, format_duration

Json = dict[str, Any]


@dataclass(frozen=True)
class Bounds:
    """What an action may have: the least and the most, None where the host does not say.

    `per_minute` and `at_a_time` are the namespace's: what is beyond is answered 429.
    """

    memory_bytes: tuple[int | None, int | None] = (None, None)
    timeout_ms: tuple[int | None, int | None] = (None, None)
    concurrency: tuple[int | None, int | None] = (None, None)
    per_minute: int | None = None
    at_a_time: int | None = None
    sequence_length: int | None = None
    kinds: tuple[str, ...] = ()


def bounds(api: Api) -> Bounds:
    """Limits of the host, and those of the namespace where it says so (`/namespaces/_/limits`).

    Raises
    ------
    PlatformError
    """
    host, own = api.host(), api.limits()
    shown = host.get("limits") if isinstance(host.get("limits"), dict) else {}
    return Bounds(
        (
            _either(_mib(_named(own, "ActionMemory", "Min")), _whole(shown, "min_action_memory")),
            _either(_mib(_named(own, "ActionMemory", "Max")), _whole(shown, "max_action_memory")),
        ),
        (
            _either(_timeout(own, "Min"), _whole(shown, "min_action_duration")),
            _either(_timeout(own, "Max"), _whole(shown, "max_action_duration")),
        ),
        (_named(own, "ActionConcurrency", "Min"), _named(own, "ActionConcurrency", "Max")),
        _either(_whole(own, "invocationsPerMinute"), _whole(shown, "actions_per_minute")),
        _either(_whole(own, "concurrentInvocations"), _whole(shown, "concurrent_actions")),
        _whole(shown, "sequence_length"),
        tuple(_kinds(host)),
    )


def problems(config: OpenWhiskConfig, found: Bounds) -> Iterator[str]:
    """What this OpenWhisk would refuse of a deployment."""
    for name, action in config.actions.items():
        yield from (f"actions.{name}.{words}" for words in _of_action(action, found))


def _of_action(action: Action, found: Bounds) -> Iterator[str]:
    if action.memory is not None and not _within(action.memory, found.memory_bytes):
        yield f"memory is {format_bytes(action.memory)}; {_allowed(found.memory_bytes, format_bytes)}"
    if action.timeout is not None and not _within(round(action.timeout * 1000), found.timeout_ms):
        yield (
            f"timeout is {format_duration(action.timeout)}; "
            f"{_allowed(found.timeout_ms, lambda ms: format_duration(ms / 1000))}"
        )
    if action.concurrency is not None and not _within(action.concurrency, found.concurrency):
        yield f"concurrency is {action.concurrency}; {_allowed(found.concurrency, str)}"
    kind = action.exec_kind or ""
    if found.kinds and kind not in ("sequence", "blackbox") and not _is_known(kind, found.kinds):
        yield f"kind is {kind!r}; this OpenWhisk has {', '.join(found.kinds)}"
    if action.sequence is not None and not _within(len(action.sequence), (None, found.sequence_length)):
        yield f"sequence has {len(action.sequence)} actions; allowed are {found.sequence_length} at most"


def _is_known(kind: str, kinds: tuple[str, ...]) -> bool:
    family, _, version = kind.partition(":")
    return kind in kinds or (
        version in ("", "default") and any(one.startswith(f"{family}:") for one in kinds)
    )


def _within(value: int, allowed: tuple[int | None, int | None]) -> bool:
    least, most = allowed
    return (least is None or value >= least) and (most is None or value <= most)


def _allowed(allowed: tuple[int | None, int | None], shown: Any) -> str:  # noqa: ANN401 - a function of a number
    words = [
        f"{side} {shown(one)}"
        for side, one in zip(("from", "up to"), allowed, strict=True)
        if one is not None
    ]
    return f"this OpenWhisk allows it {' '.join(words)}"


def _named(own: Json, what: str, side: str) -> int | None:
    """A limit of the namespace under either of its published names: maxActionMemory, before actionMemoryMax."""
    return _either(_whole(own, side.lower() + what), _whole(own, what[0].lower() + what[1:] + side))


def _timeout(own: Json, side: str) -> int | None:
    return _either(_named(own, "ActionTimeout", side), _named(own, "ActionDuration", side))


def _whole(found: object, key: str) -> int | None:
    value = found.get(key) if isinstance(found, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _either(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _mib(value: int | None) -> int | None:
    return None if value is None else value * MIB


def _kinds(host: Json) -> Iterator[str]:
    runtimes = host.get("runtimes")
    for family in runtimes.values() if isinstance(runtimes, dict) else ():
        for one in family if isinstance(family, list) else ():
            if isinstance(one, dict) and isinstance(one.get("kind"), str) and not one.get("deprecated"):
                yield one["kind"]
