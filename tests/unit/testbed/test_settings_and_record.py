"""Addresses that do not overlap, options with bounds, and a record that names one process for good."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from testbed import settings
from testbed.errors import TestbedError
from testbed.record import Process, Record, start_time
from testbed.settings import Folders, Options


def test_ranges_lie_in_the_one_range_and_apart():
    ranges = [
        settings.POD_RANGE, settings.SERVICE_RANGE, settings.NODE_RANGE, settings.TRANSFER_RANGE
    ]  # fmt: skip
    assert all(r.subnet_of(settings.RANGE) for r in ranges)
    for a in ranges:
        assert [b for b in ranges if a.overlaps(b)] == [a]


def test_nodes_share_the_pod_range_out():
    nodes = Options(nodes=settings.MAX_NODES).all_nodes()
    assert len({n.address for n in nodes}) == len({n.pods for n in nodes}) == settings.MAX_NODES
    for node in nodes:
        assert node.pods.subnet_of(settings.POD_RANGE)
        assert node.pods.num_addresses > settings.MAX_PODS * 2  # addresses of ended pods are not free at once
        assert node.address in settings.NODE_RANGE
        assert not node.pods.overlaps(settings.FAKE_POD_RANGE)
    assert settings.FAKE_POD_RANGE.subnet_of(settings.POD_RANGE)


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"nodes": 9}, {"hpa_sync_s": 0}, {"metrics_s": 5}])
def test_options_say_what_is_allowed(wrong):
    with pytest.raises(TestbedError, match=r"allowed: \d+ to \d+"):
        Options(**wrong)


def test_the_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("TOWTANK_TESTBED", str(tmp_path / "elsewhere"))
    assert Folders.from_environment().root == tmp_path / "elsewhere"
    monkeypatch.delenv("TOWTANK_TESTBED")
    assert Folders.from_environment().root == Path(__file__).resolve().parents[3] / ".testbed"


def test_record_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "state" / "record.json"
    assert Record.load(path) is None
    record = Record.new(path, Options(nodes=2, hpa_sync_s=5))
    record.keep(Process.of("pytest", "node1", os.getpid()))
    record.ground = True
    record.save()
    again = Record.load(path)
    assert again == record
    assert again.of_this_boot
    assert again.get("node1", "pytest") is not None
    assert dataclasses.replace(again, boot_id="another").get("node1", "pytest") is None


def test_record_that_is_no_record_is_named(tmp_path):
    (tmp_path / "record.json").write_text("{", "utf-8")
    with pytest.raises(TestbedError, match=r"record\.json"):
        Record.load(tmp_path / "record.json")


def test_a_process_with_a_reused_pid_is_not_ended():
    other = subprocess.Popen(["sleep", "60"])
    try:
        ticks = start_time(other.pid)
        Process("sleep", "node1", other.pid, ticks - 1).end()
        assert other.poll() is None
        Process("sleep", "node1", other.pid, ticks).end()
        assert other.wait() == -9
    finally:
        other.kill()
        other.wait()
    Process("sleep", "node1", other.pid, ticks).end()  # gone already: no error


def test_a_process_is_there_until_its_last_thread_has_ended():
    """Its first thread has ended, so it looks like a zombie; another one still holds what it holds."""
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    half = subprocess.Popen([sys.executable, "-c", code])
    try:
        process = Process.of("half", "node1", half.pid)
        stat = Path(f"/proc/{half.pid}/stat")
        deadline = time.monotonic() + 20
        while stat.read_text("utf-8").rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert process.alive()
        process.end()
        assert not process.alive()
    finally:
        half.kill()
        half.wait()


def test_the_dead_are_forgotten(tmp_path):
    record = Record.new(tmp_path / "record.json", Options())
    record.keep(Process.of("pytest", "node1", os.getpid()))
    record.keep(Process("ghost", "node1", os.getpid(), 1))
    record.forget_the_dead()
    assert list(Record.load(record.path).processes) == ["node1/pytest"]
