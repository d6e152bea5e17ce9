"""A cluster without machines: what is missing is said before anything starts, and what dies is quoted."""

from __future__ import annotations

import sys

import pytest
from testbed import machineless
from testbed.errors import NotPossibleError, NotReadyError
from testbed.settings import Folders


@pytest.fixture(autouse=True)
def all_system_programs_are_there(monkeypatch):
    monkeypatch.setattr(machineless, "find", lambda program: f"/usr/bin/{program}")


def test_programs_that_are_not_built_are_named(tmp_path):
    folders = Folders(tmp_path)
    folders.programs.mkdir()
    (folders.programs / "kubectl").touch()
    with pytest.raises(NotPossibleError, match=r"kube-scheduler, kwok missing in .*make testbed-build"):
        machineless.check(folders)


def test_ports_differ():
    assert len(set(machineless._free_ports(20))) == 20


def test_what_ended_is_quoted_and_nobody_waits_for_it(tmp_path, monkeypatch):
    said = "import sys; sys.exit('etcd: no room')"
    dead = machineless._start("etcd", [sys.executable, "-c", said], tmp_path)
    dead.process.wait()
    monkeypatch.setattr(machineless, "READY_TIMEOUT_S", 600)
    with pytest.raises(NotReadyError, match=r"etcd has ended; the end of .*etcd\.log:\netcd: no room"):
        machineless._wait("the API server", lambda: False, [dead])
    dead.end()


def test_what_does_not_end_when_asked_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(machineless, "END_TIMEOUT_S", 0.3)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    daemon = machineless._start("deaf", [sys.executable, "-c", deaf], tmp_path)
    while not daemon.log.read_text():
        assert daemon.process.poll() is None
    daemon.end()
    assert daemon.process.returncode == -9
