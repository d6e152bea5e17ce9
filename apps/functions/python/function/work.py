"""What a request asks for: read from a query or an event's data, and carried out."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from urllib.parse import parse_qsl

MOST_S = {"sleep": 20, "burn": 5}
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(ms|s)")


class RefusedError(Exception):
    """What was asked for is not allowed; the message says what is."""


@dataclass(frozen=True)
class Work:
    """What a request asks for, in seconds."""

    sleep_s: float
    burn_s: float

    async def carry_out(self) -> tuple[float, float]:
        """Sleep, then burn; return how long each was, in seconds."""
        slept = burned = 0.0
        if self.sleep_s > 0:
            began = time.monotonic()
            await asyncio.sleep(self.sleep_s)
            slept = time.monotonic() - began
        if self.burn_s > 0:
            burned = burn(self.burn_s)
        return slept, burned


def burn(most_s: float) -> float:
    """Compute until this thread has used so much processor time; nobody else is answered meanwhile."""
    began, state = time.thread_time(), 1
    while (used := time.thread_time() - began) < most_s:
        for _ in range(256):  # one look at the clock costs far less than this
            state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return used


def work_of_query(query: bytes) -> Work:
    """Read `sleep=1s&burn=20ms`.

    Raises
    ------
    RefusedError
        When a parameter is unknown, given twice, or out of bounds.
    """
    texts: dict[str, object] = {}
    for name, text in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in texts:
            raise RefusedError(f"{name} is given twice; once is allowed")
        texts[name] = text
    return _work_of(texts)


def work_of_data(data: object) -> Work:
    """Read the data of an event: a JSON object, or nothing.

    Raises
    ------
    RefusedError
        When it is something else, or a parameter is unknown or out of bounds.
    """
    if isinstance(data, bytes | str) and data:
        try:
            data = json.loads(data)
        except ValueError:
            data = ()
    if not data and data != ():
        data = {}
    if not isinstance(data, dict):
        raise RefusedError('the event\'s data must be a JSON object, such as {"sleep": "1s"}')
    return _work_of(data)


def _work_of(texts: dict[str, object]) -> Work:
    asked = dict.fromkeys(MOST_S, 0.0)
    for name, text in texts.items():
        if name not in MOST_S:
            raise RefusedError(f"there is no parameter {name!r}; known are sleep and burn")
        form = _DURATION.fullmatch(text) if isinstance(text, str) else None
        seconds = float(form[1]) / (1000 if form[2] == "ms" else 1) if form else None
        if seconds is None or seconds > MOST_S[name]:
            raise RefusedError(
                f"{name} must be from 0s to {MOST_S[name]}s, such as 20ms or 1.5s, not {text!r}"
            )
        asked[name] = seconds
    return Work(asked["sleep"], asked["burn"])
