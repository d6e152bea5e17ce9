"""Cold starts on OpenWhisk: its own records of activations, joined to the requests whose answers bear their ids.

An activation that was initialised had a container of its own making. Its record says how long it waited for that and
how long the container was initialised, both by one clock; where in the request's time that lay, nobody says. So the way
to OpenWhisk and back is told with the run of the action, after it was ready.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.cold_starts import COLUMNS, NATURAL, STEPS, ColdStarts
from towtank.analysis.distribution import MICROSECOND_S
from towtank.store.run_folder import RunFolder

SOURCE, COLD_START = "openwhisk", "cold_start"
STARTED, READY = "started", "ready"
RECORD_US = 1_000
"""Records are in whole milliseconds."""
_MS_S = 1e-3
_READ = ("ttfb_us", "instance")


def of_run(folder: RunFolder, events: pa.Table) -> ColdStarts | None:
    """Find the requests whose activations were cold; None where no answer named one.

    Parameters
    ----------
    folder : RunFolder
        Its requests have the activation's id as their instance (`generator.instance_header`).
    events : pa.Table
        The run's.

    Returns
    -------
    ColdStarts or None
        A container is *started* when its activation has waited for it, and *ready* when it is initialised.
    """
    told = _told(events)
    frames = [] if told.empty else [_rows(part, told) for part in _cold(folder, told)]
    if not frames:
        return None
    requests = pd.concat(frames, ignore_index=True).assign(run_id=folder.run_id)[list(COLUMNS)]
    return ColdStarts(requests, dict.fromkeys((STARTED, READY), RECORD_US))


def _told(events: pa.Table) -> pd.DataFrame:
    """Activation → `STARTED` and `READY`, seconds since it came to OpenWhisk; of those that were cold."""
    mine = events.filter(
        pc.and_(
            pc.equal(events["source"].cast(pa.string()), SOURCE),
            pc.equal(events["kind"].cast(pa.string()), COLD_START),
        )
    )
    found = {}
    for text in mine["detail"].to_pylist():
        detail = json.loads(text)
        wait_s = (detail["wait_ms"] or 0) * _MS_S
        found[detail["activation"]] = (wait_s, wait_s + detail["init_ms"] * _MS_S)
    return pd.DataFrame.from_dict(found, orient="index", columns=[STARTED, READY], dtype=float)


def _cold(folder: RunFolder, told: pd.DataFrame) -> Iterator[pa.Table]:
    """Requests of these activations that were answered; streamed."""
    ids = pa.array(list(told.index), pa.string())
    for batch in folder.requests().to_batches(columns=list(_READ)):
        rows = pa.Table.from_batches([batch])
        known = pc.is_in(rows["instance"].cast(pa.string()), value_set=ids)
        cold = pc.and_(known, pc.is_valid(rows["ttfb_us"]))
        if pc.any(cold).as_py():
            yield rows.filter(cold)


def _rows(part: pa.Table, told: pd.DataFrame) -> pd.DataFrame:
    instance = part["instance"].cast(pa.string()).to_pandas()
    steps = told.reindex(instance).reset_index(drop=True)
    return pd.DataFrame({step: steps.get(step, np.nan) for step in STEPS}).assign(
        instance=instance,
        kind=NATURAL,
        joined=True,
        ttfb_s=part["ttfb_us"].to_numpy().astype(float) * MICROSECOND_S,
    )
