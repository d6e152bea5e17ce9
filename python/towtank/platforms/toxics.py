"""The words of Toxiproxy: what is wrong with an edge (its toxics), and what its log says of calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from towtank.platforms.base import EdgeTrouble

_ACCEPTED = "Accepted client"


def of(trouble: EdgeTrouble) -> list[dict[str, Any]]:
    """Toxics that make a trouble, without names. Downstream is what comes back from the instance."""
    return _WORDS[trouble.kind](trouble)


def saw_calls(log: str, ways: Collection[str]) -> bool | None:
    """Whether a log tells of a connection over some of the ways; None where it does not tell of these ways at all.

    Parameters
    ----------
    log : str
        JSON lines, as Toxiproxy writes them.
    ways : collection of str
        As Toxiproxy calls them.
    """
    found: bool | None = None
    for line in log.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue  # the end of what was read may be in the middle of a line
        if isinstance(said, dict) and said.get("name") in ways:
            if said.get("message") == _ACCEPTED:
                return True
            found = False
    return found


def _delay(trouble: EdgeTrouble) -> list[dict[str, Any]]:
    attributes = {"latency": round(trouble.delay_s * 1000), "jitter": round(trouble.jitter_s * 1000)}
    return [{"type": "latency", "stream": "downstream", "toxicity": trouble.share, "attributes": attributes}]


def _drop(trouble: EdgeTrouble) -> list[dict[str, Any]]:
    return [
        {"type": "timeout", "stream": "upstream", "toxicity": trouble.share, "attributes": {"timeout": 0}}
    ]


def _abort(trouble: EdgeTrouble) -> list[dict[str, Any]]:
    return [
        {"type": "reset_peer", "stream": "upstream", "toxicity": trouble.share, "attributes": {"timeout": 0}}
    ]


def _cut(_: EdgeTrouble) -> list[dict[str, Any]]:
    return [
        {"type": "timeout", "stream": stream, "toxicity": 1.0, "attributes": {"timeout": 0}}
        for stream in ("upstream", "downstream")
    ]


_WORDS: dict[str, Callable[[EdgeTrouble], list[dict[str, Any]]]] = {
    "delay": _delay,
    "drop": _drop,
    "abort": _abort,
    "cut": _cut,
}
