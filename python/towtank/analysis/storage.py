"""Bytes that a deployment read from storage and wrote to it: response variables of a run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.model import Quantity
from towtank.analysis.resources import NODE_PREFIX, OWN_PREFIX, aligned, mean_in_window
from towtank.store.run_record import Window

VARIABLES = ("storage_read_bytes_per_s", "storage_write_bytes_per_s")
DISKS = ("disk_read_bytes_per_s", "disk_write_bytes_per_s")
MOUNTS = ("mount_read_bytes_per_s", "mount_write_bytes_per_s")
"""What agents see of network storage, of each mount on each node."""
_SEEN_AS = {"process": DISKS, "kubelet": DISKS, "agent": MOUNTS}
"""Source → its metrics that are counted here, in the order of `VARIABLES`."""
_NOT_OBSERVED = (
    "nothing that was observed says what the deployment reads and writes: "
    "`process` does for local processes, `kubelet` for disks of pods, `agent` for mounts of NFS and Ceph"
)


def storage_values(samples: pa.Table, window: Window) -> dict[str, Quantity]:
    """Time-weighted mean rates over the measured window, B/s, of all instances and mounts together.

    Parameters
    ----------
    samples : pa.Table
        `samples.parquet`.
    window : Window

    Notes
    -----
    Of local processes: what the kernel counts as their I/O, network file systems included (/proc/PID/io). In a cluster:
    what pods read from disks and wrote to them, and what went through mounts of network storage on the nodes, which no
    pod's control group counts. Mounts of one export share their counters (they are one superblock), so of mounts of a
    node that say the same throughout, one counts.
    """
    frame = _storage_samples(samples)
    return {
        name: Quantity(None, reason=_NOT_OBSERVED)
        if frame[frame["metric"] == name].empty
        else mean_in_window(frame, name, start_us=window.start_us, end_us=window.end_us)
        for name in VARIABLES
    }


def _storage_samples(samples: pa.Table) -> pd.DataFrame:
    """What is to be added up: t_us, instance, metric (one of `VARIABLES`), value."""
    processes = _of(samples, "process")
    if not processes.empty:
        return processes
    return aligned(
        pd.concat([_of(samples, "kubelet"), *_once_each(_of(samples, "agent"))], ignore_index=True)
    )


def _of(samples: pa.Table, source: str) -> pd.DataFrame:
    """What one source saw of the deployment, or of mounts."""
    named = dict(zip(_SEEN_AS[source], VARIABLES, strict=True))
    rows = samples.filter(
        pc.and_(
            pc.equal(samples["source"].cast(pa.string()), source),
            pc.is_in(samples["metric"].cast(pa.string()), value_set=pa.array(list(named))),
        )
    )
    frame = pd.DataFrame(
        {
            "t_us": rows["t_us"].to_numpy(),
            "instance": np.array(rows["instance"].cast(pa.string()).to_pylist(), dtype=object),
            "metric": np.array(
                [named[name] for name in rows["metric"].cast(pa.string()).to_pylist()], dtype=object
            ),
            "value": rows["value"].to_numpy(),
        }
    )
    foreign = OWN_PREFIX if source == "agent" else (OWN_PREFIX, NODE_PREFIX)
    return frame[~frame["instance"].astype(str).str.startswith(foreign)]


def _once_each(mounts: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Mounts of which no other one of its node says the same."""
    seen: set[tuple[str, str, bytes]] = set()
    for (instance, metric), one in mounts.groupby(["instance", "metric"], sort=True):
        node = str(instance).partition(":")[0]
        said = one.sort_values("t_us")["value"].to_numpy(dtype=float).tobytes()
        if (node, str(metric), said) not in seen:
            seen.add((node, str(metric), said))
            yield one
