"""What people and scripts rely on: exit codes, and messages that say what to do."""

from __future__ import annotations

import os

import pytest
from testbed import __main__ as command_line
from testbed import cluster, kubectl, possible
from testbed.errors import NotPossibleError, NotReadyError, TestbedError
from testbed.record import Process, Record
from testbed.settings import Folders, Options


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TOWTANK_TESTBED", str(tmp_path))


def test_status_of_nothing_is_1(capsys):
    assert command_line.main(["status"]) == 1
    assert "no testbed is up" in capsys.readouterr().out


def test_down_of_nothing_is_0(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cluster, "LOCKED", tmp_path)
    assert command_line.main(["down"]) == 0
    assert "no testbed is up" in capsys.readouterr().out


def test_a_wrong_number_of_nodes_is_refused_before_anything(capsys):
    assert command_line.main(["up", "--nodes", "99"]) == 1
    assert "nodes is 99; allowed: 1 to 8" in capsys.readouterr().err


def test_a_machine_that_cannot_has_an_exit_code_of_its_own(monkeypatch, capsys):
    def cannot(_):
        raise NotPossibleError("no overlay file system")

    monkeypatch.setattr(possible, "check", cannot)
    assert command_line.main(["check"]) == command_line.NOT_POSSIBLE
    assert "not possible here: no overlay" in capsys.readouterr().err


def test_a_lock_that_is_held_is_waited_for_and_then_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cluster, "LOCKED", tmp_path)
    monkeypatch.setattr(cluster, "LOCK_TIMEOUT_S", 0.2)
    with cluster._alone():
        assert command_line.main(["down"]) == 1
    assert str(tmp_path) in capsys.readouterr().err
    assert command_line.main(["down"]) == 0


@pytest.fixture
def one_node_is_up(monkeypatch, tmp_path):
    """As far as the record says; its first process is this one."""
    monkeypatch.setattr(cluster, "LOCKED", tmp_path)
    monkeypatch.setattr(possible, "check", lambda _: None)
    monkeypatch.setattr(cluster.binaries, "build", lambda *_: None)
    monkeypatch.setattr(cluster, "_start_components", lambda _, record, say: say(f"serving {record.options}"))
    record = Record.new(Folders(tmp_path).record, Options(hpa_sync_s=5))
    record.keep(Process.of("init", "node1", os.getpid()))
    record.ground = True
    record.save()


def test_what_is_up_is_not_exchanged_for_other_options_unasked(one_node_is_up, capsys):
    assert command_line.main(["up", "--nodes", "2"]) == 1
    said = capsys.readouterr().err
    assert "nodes=1 hpa_sync_s=5" in said
    assert "python -m testbed down" in said


def test_up_without_options_keeps_those_of_what_is_up(one_node_is_up, capsys):
    assert command_line.main(["up"]) == 0
    assert "serving nodes=1 hpa_sync_s=5" in capsys.readouterr().out


def test_waiting_ends_at_once_for_what_has_died():
    asked = []

    def dead():
        asked.append(1)
        raise NotReadyError("kubelet on node1 has ended")

    with pytest.raises(NotReadyError, match="kubelet on node1 has ended"):
        kubectl.wait_for("the node", dead, 60, lambda: "")
    assert len(asked) == 1


def test_waiting_says_what_was_last_heard():
    def refused():
        raise TestbedError("connection refused")

    with pytest.raises(
        NotReadyError, match=r"the API server was not reached within 0\.3 s\. .*connection refused"
    ):
        kubectl.wait_for("the API server", refused, 0.3, lambda: "nothing has ended.")


def test_what_has_ended_is_quoted_with_the_end_of_its_log(tmp_path):
    folders = Folders(tmp_path)
    record = Record.new(folders.record, Options())
    (folders.logs / "node1").mkdir(parents=True)
    log = folders.logs / "node1" / "etcd.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)), "utf-8")
    record.processes["node1/etcd"] = Process("etcd", "node1", 2**22 + 1, 7)
    said = cluster._dead(folders, record)
    assert said.startswith("etcd on node1 has ended")
    assert said.endswith("line 99")
    assert "line 84" not in said
