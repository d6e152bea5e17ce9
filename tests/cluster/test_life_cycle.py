"""The testbed's own life: nothing foreign is touched, nothing is left, and everything may be repeated or killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from testbed import cgroups
from testbed.record import Record
from testbed.settings import HOST_LINK, Folders

from support.cluster import ROOT, eventually, run_testbed
from support.machine import picture

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.alone,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("foreign_testbed_is_down"),
]

FOREIGN_NAMESPACE = "cni-0f0f0f0f-foreign"
FOREIGN_CHAIN = "KUBE-FOREIGN"


def must(*words: str) -> str:
    done = run_testbed(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def plan_b(*command: str) -> None:
    subprocess.run(command, check=False, capture_output=True)


@pytest.fixture
def down_first():
    must("down")
    yield
    must("down")


@pytest.fixture
def foreign_objects(tmp_path: Path):
    """A cluster of somebody else, as far as a careless clean-up would see it."""
    with ExitStack() as undo:
        had_mount = "/run/netns" in Path("/proc/self/mountinfo").read_text("utf-8")
        had_folder = Path("/run/netns").exists()
        subprocess.run(["ip", "netns", "add", FOREIGN_NAMESPACE], check=True)
        if not had_folder:
            undo.callback(plan_b, "rmdir", "/run/netns")
        if not had_mount:
            undo.callback(plan_b, "umount", "/run/netns")
        undo.callback(plan_b, "ip", "netns", "delete", FOREIGN_NAMESPACE)
        for words in (("-N", FOREIGN_CHAIN), ("-A", FOREIGN_CHAIN, "-d", "203.0.113.9", "-j", "RETURN")):
            subprocess.run(["iptables", "-t", "nat", *words], check=True)
        undo.callback(plan_b, "iptables", "-t", "nat", "-X", FOREIGN_CHAIN)
        undo.callback(plan_b, "iptables", "-t", "nat", "-F", FOREIGN_CHAIN)
        group = (
            next(h.path for h in cgroups.hierarchies() if h.version == 2 or "memory" in h.options)
            / "kubepods"
        )
        (group / "pod-foreign").mkdir(parents=True)
        undo.callback(group.rmdir)
        undo.callback((group / "pod-foreign").rmdir)
        kubelet = tmp_path / "kubelet"
        shutil.copy(shutil.which("sleep"), kubelet)
        process = subprocess.Popen([str(kubelet), "600"])
        undo.callback(process.wait)
        undo.callback(process.kill)
        yield process


def test_up_and_down_leave_the_machine_as_it_was(down_first, foreign_objects):
    before = picture()
    must("up")
    during = picture()
    assert HOST_LINK in during["links"]
    for what in ("rules", "settings", "mounts", "folders"):
        assert during[what] == before[what], f"{what} of the machine changed while the testbed is up"
    must("down")
    assert foreign_objects.poll() is None
    after = picture()
    assert FOREIGN_NAMESPACE in after["folders"]["/run/netns"]
    assert any(FOREIGN_CHAIN in rule for rule in after["rules"])
    for what, value in before.items():
        assert after[what] == value, what
    assert not Folders.from_environment().state.exists()


def test_up_and_down_may_be_repeated(down_first):
    first = must("up")
    assert "API server ready" in first
    pids = {line for line in first.splitlines() if line.startswith("node1/")}
    again = must("up")
    assert "already up" in again
    assert pids == {line for line in again.splitlines() if line.startswith("node1/")}
    other = run_testbed("up", "--nodes", "2")  # what is up, and may be in use, is not exchanged unasked
    assert other.returncode == 1
    assert "nodes=1" in other.stderr
    assert run_testbed("status").returncode == 0
    must("down")
    assert "no testbed is up" in must("down")


def test_two_at_once_make_one(down_first):
    with ThreadPoolExecutor(2) as both:
        said = list(both.map(lambda _: must("up"), range(2)))
    assert sorted("already up" in text for text in said) == [False, True]


def test_up_mends_what_was_killed(down_first):
    must("up")
    folders = Folders.from_environment()
    record = Record.load(folders.record)
    killed = [record.get("node1", name) for name in ("kubelet", "kube-apiserver", "containerd", "etcd")]
    for process in killed:
        os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not any(process.alive() for process in killed), 10, "they have ended")
    assert run_testbed("status").returncode == 1
    must("up")
    assert run_testbed("status").returncode == 0
    init = Record.load(folders.record).get("node1", "init")
    os.kill(init.pid, signal.SIGKILL)  # takes the whole node with it
    eventually(lambda: not init.alive(), 10, "it has ended")
    # The kernel takes the network away when the last half-closed connection has timed out; not waiting for that:
    subprocess.run(["ip", "link", "delete", HOST_LINK], check=True)
    with pytest.raises(OSError, match="No route to host"):  # and not on to the default route
        socket.create_connection(("198.18.0.2", 80), timeout=5)
    assert "taking it down first" in must("up")
    assert run_testbed("status").returncode == 0


@pytest.mark.parametrize("after_s", [0.2, 1.0, 2.5, 5.0])
def test_killed_on_the_way_up_it_leaves_nothing_that_down_does_not_find(down_first, after_s):
    before = picture()
    starting = subprocess.Popen(
        [sys.executable, "-m", "testbed", "up"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(after_s)
    starting.kill()
    starting.wait()
    must("down")
    after = picture()
    for what, value in before.items():
        assert after[what] == value, what


def test_killed_on_the_way_down_it_goes_down_the_second_time(down_first):
    before = picture()
    must("up")
    ending = subprocess.Popen([sys.executable, "-m", "testbed", "down"], cwd=ROOT, stdout=subprocess.DEVNULL)
    time.sleep(0.4)
    ending.kill()
    ending.wait()
    must("down")
    after = picture()
    for what, value in before.items():
        assert after[what] == value, what


def test_groups_of_a_killed_testbed_are_taken_over_and_those_of_a_living_one_are_not(
    down_first, tmp_path, monkeypatch
):
    """Of three folders' testbeds the first is killed, the second stands in its place, the third comes too late."""
    must("up")
    killed = Record.load(Folders.from_environment().record)
    init = killed.get("node1", "init")
    os.kill(init.pid, signal.SIGKILL)
    eventually(lambda: not cgroups.inhabited(), 30, "all of its processes have ended")
    built = Folders.from_environment()
    second = tmp_path / "second"
    second.mkdir()
    for part in (built.programs, built.images):
        (second / part.name).symlink_to(part)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TOWTANK_TESTBED", str(second))
        assert "which a testbed left that was killed" in must("up")
    must("down")  # of the first: its record names groups that are no longer there
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TOWTANK_TESTBED", str(second))
        try:
            assert run_testbed("status").returncode == 0
        finally:
            must("down")
    assert not cgroups.exist()


def test_a_component_can_be_restarted_by_name(down_first):
    must("up")
    record = Folders.from_environment().record
    before = Record.load(record).get("node1", "kube-apiserver")
    must("restart", "node1", "kube-apiserver")
    after = Record.load(record).get("node1", "kube-apiserver")
    assert before.pid != after.pid
    assert not before.alive()
    wrong = run_testbed("restart", "node1", "kubelett")
    assert wrong.returncode == 1
    assert "node1/kubelet," in wrong.stderr


def test_a_service_that_is_not_there_is_refused_at_once(down_first):
    must("up")
    begun = time.monotonic()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("198.19.77.77", 80), timeout=5)
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    ("plant", "undo", "named"),
    [
        (
            ("ip", "link", "add", HOST_LINK, "type", "veth", "peer", "name", "foreign0"),
            ("ip", "link", "delete", HOST_LINK),
            HOST_LINK,
        ),
        (
            ("ip", "route", "add", "unreachable", "198.18.7.0/24"),
            ("ip", "route", "delete", "unreachable", "198.18.7.0/24"),
            "198.18.7.0/24",
        ),
        (
            ("ip", "address", "add", "198.19.3.4/32", "dev", "lo"),
            ("ip", "address", "delete", "198.19.3.4/32", "dev", "lo"),
            "198.19.3.4",
        ),
    ],
)
def test_up_refuses_and_names_what_is_in_its_way(down_first, plant, undo, named):
    subprocess.run(plant, check=True)
    try:
        before = picture()
        refused = run_testbed("up")
        assert refused.returncode == 1
        assert named in refused.stderr
        assert picture() == before
    finally:
        subprocess.run(undo, check=True)


def test_up_refuses_a_group_in_which_somebody_else_lives(down_first):
    group = next(h.tree for h in cgroups.hierarchies() if h.version == 2 or "memory" in h.options)
    group.mkdir()
    somebody = subprocess.Popen(["sleep", "600"])
    try:
        (group / "cgroup.procs").write_text(str(somebody.pid), "utf-8")
        refused = run_testbed("up")
        assert refused.returncode == 1
        assert str(group) in refused.stderr
        assert somebody.poll() is None
        must("down")  # there is no record, so it is none of its business
        assert somebody.poll() is None
    finally:
        somebody.kill()
        somebody.wait()
        group.rmdir()
