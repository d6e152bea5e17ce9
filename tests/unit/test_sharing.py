"""What workers of pytest-xdist share: made once, by whoever comes first, and by the next where that failed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from support.sharing import once, shared_folder


class Factory:
    """Of one worker's temporary folders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def getbasetemp(self) -> Path:
        return self._folder


def test_workers_have_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    assert shared_folder(Factory(tmp_path)) == tmp_path
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    assert {shared_folder(Factory(tmp_path / name)) for name in ("popen-gw0", "popen-gw1")} == {tmp_path}


def test_it_is_made_once_though_all_ask_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    made, found = [], []

    def make() -> str:
        time.sleep(0.1)
        made.append(1)
        return "registry/engine:1"

    def ask(name: str) -> None:
        found.append(once(Factory(tmp_path / name), "image", make))

    threads = [threading.Thread(target=ask, args=(f"popen-gw{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (made, found) == ([1], ["registry/engine:1"] * 4)


def test_what_failed_is_made_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    def fail() -> str:
        raise AssertionError("no registry")

    with pytest.raises(AssertionError, match="no registry"):
        once(Factory(tmp_path), "image", fail)
    assert once(Factory(tmp_path), "image", lambda: "b") == "b"
