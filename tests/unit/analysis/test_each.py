"""Single pods and nodes over time: binned, and of thousands those that used most."""

import numpy as np
import pandas as pd

from towtank.analysis.each import COLUMNS, MOST, each

S = 1_000_000


def table(*rows):
    return pd.DataFrame(rows, columns=["t_us", "instance", "metric", "value"])


def lines(samples=(), nodes=()):
    return each(table(*samples), table(*nodes), treatment_id="t", run_id="r")


def test_pods_and_nodes_have_rows_of_their_own_and_the_time_before_the_load_is_left_out():
    samples = [
        (-S, "a", "cpu_cores", 9.0), (0, "a", "cpu_cores", 1.0), (S // 2, "a", "cpu_cores", 2.0),
        (S, "a", "cpu_cores", 4.0), (0, "a", "memory_bytes", 100.0),
    ]  # fmt: skip
    found = lines(samples, [(0, "node/n1", "cpu_cores", 3.0)])
    assert list(found.columns) == list(COLUMNS)
    assert [(r.row, r.instance, r.t_s, r.value) for r in found.itertuples()] == [
        ("pod_cpu", "a", 0.0, 1.5), ("pod_cpu", "a", 1.0, 4.0), ("pod_memory", "a", 0.0, 100.0),
        ("node_cpu", "node/n1", 0.0, 3.0),
    ]  # fmt: skip
    assert set(found.bin_s) == {1.0}


def test_of_many_those_with_most_are_kept_and_the_bins_stay_few():
    names = [f"p{number}" for number in range(3 * MOST)]
    t_s = np.arange(0, 1200, 60)
    samples = [(int(t) * S, name, "cpu_cores", float(k)) for k, name in enumerate(names) for t in t_s]
    found = lines(samples)
    assert set(found.instance) == set(names[-MOST:])
    assert set(found.of) == {3 * MOST}
    assert found.groupby("instance").size().max() <= 120


def test_nothing_is_nothing():
    assert lines().empty
