"""A picture of what the testbed must leave as it was: interfaces, routes, rules, mounts, settings, processes."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

SETTINGS = (
    "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/ipv4/conf/all/rp_filter",
    "net/bridge/bridge-nf-call-iptables", "net/netfilter/nf_conntrack_max",
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "kernel/hostname",
)  # fmt: skip
PROGRAMS = {
    "kube-apiserver", "kube-controller", "kube-scheduler", "kubelet", "kube-proxy", "etcd", "containerd",
    "containerd-shim", "docker-registry", "coredns", "metrics-server", "pause", "hello", "runc",
}  # fmt: skip
FOLDERS = (
    "/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd", "/var/log/pods", "/var/log/containers",
    "/run/containerd", "/run/netns", "/run/testbed", "/usr/libexec/kubernetes", "/etc/cni", "/etc/kubernetes",
)  # fmt: skip


def picture() -> dict[str, object]:
    """Everything that can be compared before and after."""
    return {
        "links": sorted(link["ifname"] for link in _ip("link", "show")),
        "addresses": [
            (link["ifname"], [a["local"] for a in link["addr_info"]]) for link in _ip("address", "show")
        ],
        "routes": [json.dumps(route, sort_keys=True) for route in _ip("route", "show", "table", "all")],
        "rules": _lines("iptables-save") + _lines("ip6tables-save"),
        "mounts": _mounts(),
        "settings": {name: _read(Path("/proc/sys") / name) for name in SETTINGS},
        "groups": sorted(str(path) for path in _groups()),
        "processes": sorted(_processes()),
        "folders": {folder: _content(Path(folder)) for folder in FOLDERS},
    }


def _content(folder: Path) -> list[str] | None:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else None


def _ip(*words: str) -> list[dict]:
    said = subprocess.run(["ip", "-json", *words], capture_output=True, text=True, check=True).stdout
    return [entry for entry in json.loads(said or "[]") if entry]


def _lines(program: str) -> list[str]:
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return [line.split(" [")[0] for line in said.splitlines() if not line.startswith("#")]


def _read(path: Path) -> str | None:
    return path.read_text("utf-8").strip() if path.exists() else None


def _mounts() -> list[str]:
    """Mount points; those below the temporary folder are of other tests."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
    points = [f"{line.split()[4]} {line.partition(' - ')[2].split()[0]}" for line in lines]
    return sorted(point for point in points if not point.startswith(tempfile.gettempdir()))


def _groups() -> list[Path]:
    return [
        path
        for hierarchy in Path("/sys/fs/cgroup").glob("*/")
        for path in (hierarchy, *hierarchy.glob("*/"))
        if path.name in {"kubepods", "k8s.io", "towtank-testbed"}
    ]


def _processes() -> list[tuple[int, str]]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            name = (path / "comm").read_text("utf-8").strip()
            state = (path / "stat").read_text("utf-8").rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state == "Z":  # has ended; the machine's own init has not collected it yet
            continue
        if name in PROGRAMS or any(len(p) > 15 and name == p[:15] for p in PROGRAMS):
            found.append((int(path.name), name))
    return found
