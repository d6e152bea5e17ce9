"""Numbers that an experiment file names itself, such as queries of Prometheus, and storage: one value a run and moment.

Instances are added up where that means something (bytes, cores, rates, counts); shares and durations are averaged.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis import storage
from towtank.analysis.resources import NODE_PREFIX
from towtank.store.run_record import RunRecord
from towtank.variables import Unit

NAMED_BY_FILE = ("netdata", "prometheus")
"""Sources whose metrics are chosen in the experiment file; what others observe has figures of its own."""
OF_PODS = ("kubelet",)
"""Sources of which storage is shown besides: of pods, added up; what a whole node reads and writes is not theirs."""
COLUMNS = ("treatment_id", "run_id", "t_s", "bin_s", "source", "metric", "value")
LEAST_BIN_US = 1_000_000
"""These sources seldom have more than a value a second; finer bins would leave every other one empty."""
_UNITS: tuple[Unit, ...] = ("bytes_per_s", "per_s", "bytes", "ratio", "cores", "s")


def unit_of(metric: str) -> Unit:
    """Unit that a metric's name ends with; a plain word counts something.

    >>> unit_of("sent_bytes_per_s"), unit_of("busy_ratio"), unit_of("threads")
    ('bytes_per_s', 'ratio', 'count')
    """
    return next((unit for unit in _UNITS if metric.endswith(f"_{unit}")), "count")


def is_averaged(metric: str) -> bool:
    """Whether instances of a metric are averaged; else they are added up."""
    return unit_of(metric) in ("ratio", "s")


def of_run(record: RunRecord, samples: pa.Table) -> pd.DataFrame:
    """Everything of one run for figures; see `for_figures`."""
    return for_figures(
        named_samples(samples),
        treatment_id=record.treatment_id,
        run_id=record.run_id,
        bin_us=record.bin_us,
    )


def named_samples(samples: pa.Table) -> pd.DataFrame:
    """Samples of metrics that the experiment file names, and of storage: t_us, source, instance, metric, value.

    Each mount has a figure of its own, in which the same mount on several nodes is added up.
    """
    if not samples.num_rows:
        return pd.DataFrame({"t_us": np.array([], dtype=np.int64), "source": [], "instance": [], "metric": [],
                             "value": np.array([], dtype=np.float64)})  # fmt: skip
    source, metric, instance = (samples[name].cast(pa.string()) for name in ("source", "metric", "instance"))
    named = pc.is_in(source, value_set=pa.array(NAMED_BY_FILE))
    disks = pc.and_(
        pc.is_in(source, value_set=pa.array(OF_PODS)), pc.is_in(metric, value_set=pa.array(storage.DISKS))
    )
    of_pods = pc.invert(pc.starts_with(instance, NODE_PREFIX))
    mounts = pc.and_(pc.equal(source, "agent"), pc.is_in(metric, value_set=pa.array(storage.MOUNTS)))
    rows = samples.filter(pc.or_(pc.or_(named, mounts), pc.and_(disks, of_pods)))
    words = {name: rows[name].cast(pa.string()).to_pylist() for name in ("source", "instance", "metric")}
    words["source"] = [
        _mount(i) if m in storage.MOUNTS and s == "agent" else s
        for s, i, m in zip(words["source"], words["instance"], words["metric"], strict=True)
    ]
    return pd.DataFrame({"t_us": rows["t_us"].to_numpy(), **words, "value": rows["value"].to_numpy()})


def _mount(instance: str) -> str:
    """Source that a mount is shown as; clients of Ceph count each on their own.

    >>> _mount("node/n1:/mnt/data"), _mount("node/n1:ceph/1234.client5")
    ('storage /mnt/data', 'storage ceph')
    """
    path = instance.partition(":")[2]
    return f"storage {path if path.startswith('/') else path.partition('/')[0]}"


def for_figures(frame: pd.DataFrame, *, treatment_id: str, run_id: str, bin_us: int) -> pd.DataFrame:
    """One value for each bin and metric of a run, of all its instances together; those before the load are left out.

    Returns
    -------
    DataFrame
        `COLUMNS`.
    """
    frame = frame[frame["t_us"] >= 0]
    if frame.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    width_us = max(bin_us, LEAST_BIN_US)
    keyed = frame.assign(t_us=frame["t_us"] // width_us * width_us)
    each = keyed.groupby(["source", "metric", "t_us", "instance"])["value"].mean()
    together = each.groupby(["source", "metric", "t_us"]).agg(["sum", "mean"]).reset_index()
    averaged = together["metric"].map(is_averaged).astype(bool)
    value = together["mean"].where(averaged, together["sum"])
    found = together.assign(
        treatment_id=treatment_id,
        run_id=run_id,
        t_s=together["t_us"] / 1e6,
        bin_s=width_us / 1e6,
        value=value,
    )
    return found[list(COLUMNS)]
