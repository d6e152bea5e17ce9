"""What is wrong with an edge, in the words of Toxiproxy: its toxics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from towtank.platforms.base import EdgeTrouble


def of(trouble: EdgeTrouble) -> list[dict[str, Any]]:
    """Toxics that make a trouble, without names. Downstream is what comes back from the instance."""
    return _WORDS[trouble.kind](trouble)


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
