"""What the tests of OpenWhisk share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support import servers
from towtank.platforms import rest


@pytest.fixture
def start() -> Iterator[Callable[[Any], Any]]:
    with servers.serving() as begin:
        yield begin


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(rest, "LONGEST_PAUSE_S", 0.0)
