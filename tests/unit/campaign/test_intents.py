"""Intents: written before anything exists, swept by token, never by a bare pid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from towtank.campaign import processes
from towtank.campaign.intents import Intents


def start(token, *, code="import time; time.sleep(60)"):
    env = {**os.environ, processes.TOKEN_VARIABLE: token}
    return subprocess.Popen([sys.executable, "-S", "-c", code], env=env)


def no_platform(name, token, folder):
    return 0


def test_an_intent_is_on_disk_before_anything_else(tmp_path):
    intent = Intents(tmp_path).declare("engine", "b01-one-a1")
    stored = json.loads((tmp_path / "intents" / f"{intent.token}.json").read_text())
    assert stored["owner_pid"] == os.getpid()
    assert stored["owner_start_ticks"] == processes.start_ticks(os.getpid())
    assert stored["boot_id"]
    assert Intents(tmp_path).pending() == [intent]


def test_what_was_fulfilled_leaves_nothing(tmp_path):
    intents = Intents(tmp_path)
    intent = intents.declare("deployment", "one", platform="local", scratch=True)
    folder = tmp_path / intent.scratch
    folder.mkdir(parents=True)
    intents.fulfilled(intent)
    assert not folder.exists()
    assert intents.pending() == []


def test_sweeping_ends_processes_by_token_and_asks_the_platform(tmp_path):
    intents = Intents(tmp_path)
    intent = intents.declare("deployment", "one", platform="local", scratch=True)
    asked = []
    with start(intent.token) as ours, start("tt-somebody-else") as foreign:
        wait_for_token(intent.token)
        swept = intents.sweep(lambda platform, token, folder: asked.append((platform, token, folder)) or 0)
        assert ours.wait(5) != 0
        assert foreign.poll() is None, "a process without our token is never touched"
        foreign.kill()
    assert asked == [("local", intent.token, tmp_path / intent.scratch)]
    assert [(left.intent, left.ended) for left in swept] == [(intent, 1)]
    assert intents.pending() == []


def test_a_foreign_process_with_a_reused_pid_is_not_touched(tmp_path):
    """Whatever pid an intent remembers, only the token in the environment counts."""
    intents = Intents(tmp_path)
    with subprocess.Popen(["sleep", "60"]) as foreign:
        intent = intents.declare("engine", "b01-one-a1")
        path = tmp_path / "intents" / f"{intent.token}.json"
        path.write_text(
            json.dumps({**json.loads(path.read_text()), "owner_pid": foreign.pid, "pid": foreign.pid})
        )
        intents.sweep(no_platform)
        time.sleep(0.05)
        assert foreign.poll() is None
        foreign.kill()


def test_a_process_that_ignores_sigterm_is_killed(tmp_path):
    intents = Intents(tmp_path)
    intent = intents.declare("hook", "reset")
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    with start(intent.token, code=code) as stubborn:
        wait_for_token(intent.token)
        time.sleep(0.2)
        intents.sweep(no_platform)
        assert stubborn.wait(5) == -9


def test_one_failure_does_not_keep_the_others_from_being_swept(tmp_path):
    intents = Intents(tmp_path)
    broken = intents.declare("deployment", "one", platform="broken")
    intents.declare("scratch", "two")

    def sweep(platform, token, folder):
        raise OSError("the cluster is away")

    swept = intents.sweep(sweep)
    assert len(swept) == 2
    assert intents.pending() == [broken], "it stays for the next time"
    assert "the cluster is away" in swept[0].message + swept[1].message


@pytest.mark.parametrize("scratch", ["../precious", "/precious", "scratch", "runs"])
def test_an_intent_cannot_name_a_folder_elsewhere(tmp_path, scratch):
    results = tmp_path / "results"
    intents = Intents(results)
    for precious in (tmp_path / "precious", results / "runs", results / "scratch"):
        precious.mkdir(parents=True, exist_ok=True)
        (precious / "file").write_text("")
    intent = intents.declare("scratch", "evil")
    path = results / "intents" / f"{intent.token}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "scratch": scratch}))
    intents.sweep(no_platform)
    assert (tmp_path / "precious" / "file").exists()
    assert (results / "runs" / "file").exists()
    assert (results / "scratch" / "file").exists()


def test_damaged_intents_do_not_stop_a_sweep(tmp_path):
    intents = Intents(tmp_path)
    good = intents.declare("scratch", "good")
    (tmp_path / "intents" / "torn.json").write_text('{"token": "to')
    (tmp_path / "intents" / "half.tmp").write_text("")
    assert [left.intent for left in intents.sweep(no_platform)] == [good]
    assert not (tmp_path / "intents" / "half.tmp").exists()


def wait_for_token(token):
    deadline = time.monotonic() + 5
    while not processes.with_token(token):
        assert time.monotonic() < deadline
        time.sleep(0.01)
