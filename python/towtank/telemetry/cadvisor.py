"""Reading what cAdvisor, inside of a kubelet, says of pods and of its node: the lines of a deployment, and no others.

The text has a line for each number of each control group of the node, a megabyte where there are many pods. Lines are
chosen by their beginning before anything is parsed: a parser of the whole format would take a second of CPU a reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from towtank.telemetry.exposition import LABEL, LINE, number

Level = Literal["pod", "container", "other"]
_SANDBOX = "POD"
_PRESSURE = "container_pressure_"
"""Where the kernel does not offer pressure stall, kubelets write 0, as they do where nothing ever waited."""
_LOOPBACK = "lo"
_VIRTUAL_LINKS = ("veth", "cali", "cni", "docker", "flannel", "lxc", "br-", "tunl", "kube-")
"""On a node their traffic is that of another interface, seen twice."""


class Counted(NamedTuple):
    """How a counter of cAdvisor is shown as a rate: under which name, and whose lines count."""

    metric: str
    first: Level
    """Lines of this level count; those of the other where there are none. All of them for `other`."""


COUNTERS: dict[str, Counted] = {
    "container_cpu_usage_seconds_total": Counted("cpu_cores", "pod"),
    "container_network_receive_bytes_total": Counted("network_received_bytes_per_s", "other"),
    "container_network_transmit_bytes_total": Counted("network_sent_bytes_per_s", "other"),
    "container_fs_reads_bytes_total": Counted("disk_read_bytes_per_s", "pod"),
    "container_fs_writes_bytes_total": Counted("disk_write_bytes_per_s", "pod"),
    # A limit holds each container back by itself; that of the pod is their sum.
    "container_cpu_cfs_periods_total": Counted("cpu_periods_per_s", "container"),
    "container_cpu_cfs_throttled_periods_total": Counted("cpu_throttled_periods_per_s", "container"),
    "container_cpu_cfs_throttled_seconds_total": Counted("cpu_throttled_s_per_s", "container"),
    "container_pressure_cpu_waiting_seconds_total": Counted("pressure_cpu_some_ratio", "pod"),
    "container_pressure_memory_waiting_seconds_total": Counted("pressure_memory_some_ratio", "pod"),
    "container_pressure_memory_stalled_seconds_total": Counted("pressure_memory_full_ratio", "pod"),
    "container_pressure_io_waiting_seconds_total": Counted("pressure_io_some_ratio", "pod"),
    "container_pressure_io_stalled_seconds_total": Counted("pressure_io_full_ratio", "pod"),
}
LEVELS: dict[str, Counted] = {"container_memory_working_set_bytes": Counted("memory_bytes", "pod")}
WANTED = {**COUNTERS, **LEVELS}
_BEGINNINGS = tuple(name + "{" for name in WANTED)


class Row(NamedTuple):
    """One line.

    Parameters
    ----------
    name : str
        Of cAdvisor's metric.
    pod : str
        Empty for the node.
    level : {"pod", "container", "other"}
        Whether it is about the pod's own control group (or the node's), one container, or else (its network).
    part : str
        What tells it from other lines of the same pod: control group, interface or device.
    value : float
    t_ms : int, optional
        When it was read, on the node's clock.
    """

    name: str
    pod: str
    level: Level
    part: str
    value: float
    t_ms: int | None


class Damaged(NamedTuple):
    """A line that would count and cannot be understood: without it, this number of this pod is not whole.

    Parameters
    ----------
    name, pod : str
        As in `Row`.
    line : str
    """

    name: str
    pod: str
    line: str


def rows(text: str, namespace: str) -> Iterator[Row | Damaged]:
    """Lines about pods of a namespace, and about the node itself; those that cannot be understood are told, too."""
    ours, root = f'namespace="{namespace}"', 'id="/"'
    for line in text.splitlines():
        if line.startswith(_BEGINNINGS) and (ours in line or root in line):
            row = _row(line)
            if row is not None:
                yield row


def _row(line: str) -> Row | Damaged | None:
    match = LINE.match(line)
    if match is None:
        return _damaged(line)
    name, words, text, at = match.groups()
    value = number(text)
    if value is None:
        return _damaged(line)
    labels: dict[str, str] = dict(LABEL.findall(words or ""))
    pod, link = labels.get("pod", ""), labels.get("interface", "")
    if link == _LOOPBACK or (not pod and link.startswith(_VIRTUAL_LINKS)):
        return None
    if name.startswith(_PRESSURE) and value == 0:
        return None
    container = labels.get("container", "")
    level: Level = "pod"
    if container not in ("", _SANDBOX):
        level = "container"
    elif container or labels.get("image") or labels.get("name"):
        level = "other"
    part = f"{labels.get('id', '')} {link or labels.get('device', '')}"
    return Row(name, pod, level, part, value, int(at) if at else None)


def _damaged(line: str) -> Damaged:
    name, _, rest = line.partition("{")
    return Damaged(name, dict(LABEL.findall(rest)).get("pod", ""), line)
