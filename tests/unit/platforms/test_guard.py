"""The guard's client against a guard that does what a real one never should."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from towtank.errors import PlatformError
from towtank.platforms import guard as guards
from towtank.platforms.guard import Guard, sweep
from towtank.platforms.guard_messages import Exited, SpawnRequest

FAKE = Path(__file__).parents[2] / "support" / "fake_guard.py"
Start = Callable[..., Guard]


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "towtank-engine"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{FAKE}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def start(binary: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    made: list[Guard] = []

    def run(mode: str, on_exit: Callable[[Exited], None] | None = None) -> Guard:
        monkeypatch.setenv("FAKE_GUARD", mode)
        made.append(Guard(binary, "token", on_exit=on_exit))
        made[-1].start()
        return made[-1]

    yield run
    for guard in made:
        guard.close(grace_s=0)


def request(name: str = "app-0", program: str = "serve") -> SpawnRequest:
    return SpawnRequest(name, [program], {}, Path("/"), Path("/tmp/log"), 1000, 100)


def test_an_orderly_life(start: Start) -> None:
    ended: list[Exited] = []
    guard = start("ok", ended.append)
    assert guard.alive
    spawned = guard.spawn(request())
    assert spawned.limits == {"cpu": "applied", "memory": "not permitted here", "cpus": None}
    assert guard.status() == {"app-0": {"running": True, "oom_kills": None}}
    assert guard.running() == {"app-0"}
    guard.stop("app-0", signal="TERM", grace_s=1)
    assert guard.wait_ended(5)
    assert [(e.id, e.signal, e.expected) for e in guard.exits()] == [("app-0", 15, True)]
    assert guard.close(grace_s=0)
    assert guard.close(grace_s=0), "closing twice is harmless"
    assert [e.id for e in ended] == ["app-0"]
    assert not guard.alive


def test_an_instance_that_cannot_be_started_and_one_that_ends_at_once(start: Start) -> None:
    guard = start("ok")
    with pytest.raises(PlatformError, match="app-0 could not be started: missing: no such file"):
        guard.spawn(request(program="missing"))
    guard.spawn(request("app-1", "short"))
    assert guard.wait_ended(5)
    (ended,) = guard.exits()
    assert (ended.id, ended.code, ended.expected) == ("app-1", 3, False)


def test_a_guard_that_dies_is_an_error_with_its_last_words(start: Start) -> None:
    guard = start("dies")
    with pytest.raises(PlatformError, match=r"the guard .* is gone; the last it said: the guard is not well"):
        guard.spawn(request())
    with pytest.raises(PlatformError, match="is gone"):
        guard.status()
    assert not guard.close(grace_s=0), "then something may be left"


def test_garbage_is_noted_and_survived(start: Start) -> None:
    guard = start("garbage")
    assert guard.spawn(request()).pid > 0
    assert "an event that is none: 'this is no event'" in guard.death().message


def test_a_refusal_is_the_answer(start: Start) -> None:
    with pytest.raises(PlatformError, match="app-0 could not be started: cannot spawn"):
        start("refuses").spawn(request())


def test_a_guard_that_says_nothing_is_not_waited_for_forever(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "ANSWER_TIMEOUT_S", 0.3)
    monkeypatch.setattr(guards, "CLOSE_TIMEOUT_S", 0.2)
    begun = time.monotonic()
    with pytest.raises(PlatformError, match=r"did not say that it is ready within 0.3 s"):
        start("mute")
    assert time.monotonic() - begun < 9, "not the ten seconds that it has by default"


def test_an_unclean_end_is_told(start: Start) -> None:
    assert not start("unclean").close(grace_s=0)


def test_a_binary_that_cannot_be_executed(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"the guard cannot be started from .*No such file") as caught:
        Guard(tmp_path / "nowhere", "token").start()
    assert "cargo build" in str(caught.value.hint)


def test_sweeping(binary: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAKE_GUARD_LOG", str(tmp_path / "calls"))
    assert sweep(binary, "t1") == 2
    assert (tmp_path / "calls").read_text() == "sweep --token t1 --cgroup towtank-t1\n"
    monkeypatch.setenv("FAKE_GUARD", "sweep-fails")
    with pytest.raises(PlatformError, match=r"not everything of token t1 could be ended.*survivors: 4711"):
        sweep(binary, "t1")
    with pytest.raises(PlatformError, match="cannot be ended"):
        sweep(tmp_path / "nowhere", "t1")
