"""Where isolation is not possible, `up` says why and names the object; nothing has been changed by then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from testbed import binaries, cgroups, network, possible
from testbed.errors import InTheWayError, NotPossibleError
from testbed.settings import HOST_LINK, Folders

V1 = """\
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
34 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
35 30 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
36 30 0:28 / /mnt/again rw - cgroup cgroup rw,cpu,cpuacct
"""


def hierarchies(tmp_path, text):
    path = tmp_path / "mountinfo"
    path.write_text(text, "utf-8")
    return cgroups.hierarchies(path)


def test_hierarchies_of_version_1_are_found_once_each(tmp_path):
    found = hierarchies(tmp_path, V1)
    assert [str(h.path) for h in found] == [
        "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuset",
        "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids",
    ]  # fmt: skip
    assert found[0].options == "none,name=systemd"
    assert found[1].options == "cpu,cpuacct"
    cgroups.check_controllers(found)


def test_a_missing_controller_is_named(tmp_path):
    lacking = "\n".join(line for line in V1.splitlines() if "memory" not in line)
    with pytest.raises(NotPossibleError, match="lack: memory"):
        cgroups.check_controllers(hierarchies(tmp_path, lacking))


def test_version_2_counts_what_the_root_passes_on(tmp_path):
    (tmp_path / "cgroup.subtree_control").write_text("cpuset cpu memory pids\n", "utf-8")
    mounted = f"30 25 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw,nsdelegate\n"
    cgroups.check_controllers(hierarchies(tmp_path, mounted))
    (tmp_path / "cgroup.subtree_control").write_text("memory pids\n", "utf-8")
    with pytest.raises(NotPossibleError, match="lack: cpu, cpuset"):
        cgroups.check_controllers(hierarchies(tmp_path, mounted))


def test_no_control_groups_at_all(tmp_path):
    with pytest.raises(NotPossibleError, match="no control groups"):
        hierarchies(tmp_path, "30 25 0:26 / / rw - ext4 /dev/x rw\n")


def test_root_is_needed(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotPossibleError, match="root"):
        possible.check(Folders(tmp_path / "untouched"))
    assert not (tmp_path / "untouched").exists()


def test_a_kernel_that_refuses_namespaces_is_quoted(monkeypatch, tmp_path):
    def refuse(flags):
        raise PermissionError(1, "unshare: Operation not permitted")

    monkeypatch.setattr(possible.syscalls, "unshare", refuse)
    with pytest.raises(NotPossibleError, match="unshare: Operation not permitted"):
        possible._try_out(tmp_path)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_an_overlay_that_cannot_be_mounted_is_quoted(tmp_path):
    """What it tries is gone again with the child; a folder on which it cannot be done is named."""
    with pytest.raises(NotPossibleError, match=r"mount overlay.*|No such file"):
        possible._try_out(tmp_path / "not there")
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text("utf-8")


def test_a_missing_plugin_is_named_with_the_way_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(binaries, "CNI_FOLDERS", (tmp_path,))
    with pytest.raises(NotPossibleError, match=r"ptp.*system-packages\.sh testbed"):
        binaries.cni_folder()


def fake_ip(monkeypatch, *, links=(), addresses=(), routes=()):
    answers = {"link": links, "address": addresses, "route": routes}

    def answer(*words):
        return list(answers[next(word for word in words if word in answers)])

    monkeypatch.setattr(network, "_ip", answer)


def test_a_machine_with_nothing_in_the_way_is_taken(monkeypatch):
    fake_ip(
        monkeypatch, links=[{"ifname": "eth0"}],
        addresses=[{"ifname": "eth0", "addr_info": [{"local": "10.0.0.5", "prefixlen": 8}]}],
        routes=[{"dst": "default", "dev": "eth0"}, {"dst": "10.0.0.0/8", "dev": "eth0"}, {"dst": "198.20.0.1"}],
    )  # fmt: skip
    network.check()


@pytest.mark.parametrize(
    ("machine", "named"),
    [
        ({"links": [{"ifname": HOST_LINK}]}, HOST_LINK),
        (
            {"addresses": [{"ifname": "vpn0", "addr_info": [{"local": "198.18.0.1", "prefixlen": 16}]}]},
            r"vpn0 has the address 198\.18\.0\.1/16",
        ),
        (
            {"routes": [{"dst": "198.19.0.0/16", "dev": "vpn0", "table": "7"}]},
            r"198\.19\.0\.0/16 .*vpn0.*table 7",
        ),
        ({"routes": [{"dst": "198.0.0.0/8", "dev": "vpn0"}]}, r"198\.0\.0\.0/8"),
        ({"routes": [{"type": "unreachable", "dst": "198.18.3.4"}]}, r"198\.18\.3\.4"),
    ],
)
def test_what_is_in_the_way_is_named(monkeypatch, machine, named):
    fake_ip(monkeypatch, **machine)
    with pytest.raises(InTheWayError, match=named):
        network.check()
