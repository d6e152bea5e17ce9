"""What a deployment reads from storage and writes to it, each by hand. The window is 1 to 4 s."""

from __future__ import annotations

import pytest

from support.run_tables import FakeRun, ReadOnce, Req
from towtank.analysis.storage import VARIABLES
from towtank.analysis.summaries import summarise_run

S = 1_000_000
REQUESTS = (Req(1 * S, 10_000), Req(2 * S, 20_000))
READ, WRITE = VARIABLES


def values(samples):
    return summarise_run(FakeRun(REQUESTS, samples_rows=samples), wanted=VARIABLES).summary.values


def series(source, instance, metric, *points):
    return [(round(t * S), source, instance, metric, float(value)) for t, value in points]


def test_a_sample_counts_since_the_one_before_it_and_only_in_the_window():
    samples = series("process", "shop", "disk_write_bytes_per_s", (0, 9), (2, 100), (3, 400), (5, 1_000))
    assert values(samples)[WRITE].value == pytest.approx((100 * 1 + 400 * 1 + 1_000 * 1) / 3)
    assert "says what the deployment reads" in values(samples)[READ].reason


def test_local_processes_count_and_what_else_writes_here_does_not():
    """The I/O of a process has its network file systems in it already."""
    both = [
        *series("process", "a", "disk_read_bytes_per_s", (0, 0), (5, 10)),
        *series("process", "b", "disk_read_bytes_per_s", (0, 0), (5, 32)),
        *series("process", "towtank-engine", "disk_read_bytes_per_s", (0, 0), (5, 7_000)),
        *series("host", "", "disk_read_bytes_per_s", (0, 0), (5, 8_000)),
        *series("agent", "node/here:/mnt/a", "mount_read_bytes_per_s", (0, 0), (5, 9_000)),
    ]
    assert values(both)[READ].value == pytest.approx(42)


def test_pods_disks_and_mounts_of_nodes_are_added_and_a_shared_counter_counts_once():
    """Two mounts of one export on node n1 say the same; a third there, and one on n2, do not."""
    shared = ((0, 0), (2, 100), (5, 300))
    samples = [
        *series("kubelet", "pod-1", "disk_write_bytes_per_s", (0, 0), (5, 10)),
        *series("kubelet", "node/n1", "disk_write_bytes_per_s", (0, 0), (5, 5_000)),
        *series("agent", "node/n1", "disk_write_bytes_per_s", (0, 0), (5, 5_000)),
        *series("agent", "node/n1:/mnt/a", "mount_write_bytes_per_s", *shared),
        *series("agent", "node/n1:/mnt/b", "mount_write_bytes_per_s", *shared),
        *series("agent", "node/n1:/mnt/c", "mount_write_bytes_per_s", (0, 0), (2, 7), (5, 7)),
        *series("agent", "node/n2:/mnt/a", "mount_write_bytes_per_s", *shared),
    ]
    a = (100 * 1 + 300 * 2) / 3
    assert values(samples)[WRITE].value == pytest.approx(10 + 2 * a + 7)


def test_without_a_source_the_reason_says_which_there_are():
    reason = values([])[READ].reason
    assert all(f"`{source}`" in reason for source in ("process", "kubelet", "agent"))


def test_samples_are_read_once_whoever_asks():
    run = ReadOnce(
        FakeRun(REQUESTS, samples_rows=series("process", "a", "disk_read_bytes_per_s", (0, 0), (5, 10)))
    )
    assert summarise_run(run, wanted=VARIABLES).summary.values[READ].value == pytest.approx(10)
    assert run.read == {"samples": 1, "events": 1, "totals": 1}
