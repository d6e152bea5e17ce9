"""Metrics that the experiment file names: binned, instances together."""

import pandas as pd
import pyarrow as pa
import pytest

from towtank.analysis import observed


def table(*rows):
    columns = ("t_us", "source", "instance", "metric", "value")
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(columns)})


def binned(*rows):
    frame = observed.named_samples(table(*rows))
    found = observed.for_figures(frame, treatment_id="t", run_id="r", bin_us=100_000)
    return {(r.source, r.metric, r.t_s): r.value for r in found.itertuples()}


def test_instances_are_added_up_or_averaged():
    """Two instances in one second, the first with two values: its mean counts once."""
    rows = [
        (0, "prometheus", "a", "cpu_cores", 1.0),
        (500_000, "prometheus", "a", "cpu_cores", 3.0),
        (0, "prometheus", "b", "cpu_cores", 10.0),
        (0, "prometheus", "a", "busy_ratio", 0.2),
        (0, "prometheus", "b", "busy_ratio", 0.6),
    ]
    assert binned(*rows) == {
        ("prometheus", "cpu_cores", 0.0): 12.0,
        ("prometheus", "busy_ratio", 0.0): pytest.approx(0.4),
    }


def test_only_sources_whose_metrics_the_file_names_and_only_the_load():
    rows = [
        (0, "host", "", "load_1m", 1.0),
        (-1, "netdata", "", "a", 1.0),
        (1_000_000, "netdata", "", "a", 2.0),
        (2_999_999, "netdata", "", "a", 4.0),
    ]
    assert binned(*rows) == {("netdata", "a", 1.0): 2.0, ("netdata", "a", 2.0): 4.0}


def test_storage_of_pods_is_added_up_and_nodes_are_left_out():
    rows = [
        (0, "kubelet", "a", "disk_write_bytes_per_s", 10.0),
        (0, "kubelet", "b", "disk_write_bytes_per_s", 5.0),
        (0, "kubelet", "node/n1", "disk_write_bytes_per_s", 900.0),
        (0, "kubelet", "a", "memory_bytes", 7.0),
        (0, "process", "a", "disk_write_bytes_per_s", 3.0),
    ]
    assert binned(*rows) == {("kubelet", "disk_write_bytes_per_s", 0.0): 15.0}


def test_mounts_are_shown_each_on_its_own_since_two_may_count_the_same():
    rows = [
        (0, "agent", "node/n1:/mnt/a", "mount_write_bytes_per_s", 10.0),
        (0, "agent", "node/n1:/mnt/b", "mount_write_bytes_per_s", 10.0),
        (0, "agent", "node/n2:/mnt/a", "mount_write_bytes_per_s", 5.0),
        (0, "agent", "node/n1:ceph/f.client1", "mount_read_bytes_per_s", 1.0),
        (0, "agent", "node/n1:ceph/f.client2", "mount_read_bytes_per_s", 2.0),
        (0, "agent", "node/n1", "disk_write_bytes_per_s", 900.0),
    ]
    assert binned(*rows) == {
        ("storage /mnt/a", "mount_write_bytes_per_s", 0.0): 15.0,
        ("storage /mnt/b", "mount_write_bytes_per_s", 0.0): 10.0,
        ("storage ceph", "mount_read_bytes_per_s", 0.0): 3.0,
    }


def test_nothing_is_nothing():
    frame = observed.named_samples(table())
    assert observed.for_figures(frame, treatment_id="t", run_id="r", bin_us=1).empty
    assert list(observed.for_figures(frame, treatment_id="t", run_id="r", bin_us=1)) == list(observed.COLUMNS)
    assert isinstance(frame, pd.DataFrame)
