"""Where the load came from: each worker, its round trip to the targets, and how its clock related to the run's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from towtank.store.run_record import RunRecord

COLUMNS = (
    "kind", "where", "host", "control", "target", "runs", "workers", "connect_us_low", "connect_us_high",
    "offset_us_low", "offset_us_high", "uncertainty_us",
)  # fmt: skip
_BY = ["kind", "where", "host", "control", "target"]


def generators_of(records: Iterable[RunRecord]) -> pd.DataFrame:
    """Gather what runs say of their workers, one row for each place and target.

    Parameters
    ----------
    records : iterable of RunRecord
        Of the runs that are reckoned with.

    Returns
    -------
    DataFrame
        kind, where, host, control (how orders travelled; empty where there is one way), target; how many runs and
        workers; µs: shortest and longest of the runs' shortest times to open a connection, lowest and highest offset of
        the clock, the worst uncertainty of an offset. Empty where one engine of this machine made all load.
    """
    frame = pd.DataFrame([row for record in records for row in _rows(record)])
    if frame.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    gathered = frame.groupby(_BY, sort=True, as_index=False).agg(
        runs=("run_id", "nunique"),
        workers=("worker", "nunique"),
        connect_us_low=("connect_us", "min"),
        connect_us_high=("connect_us", "max"),
        offset_us_low=("offset_us", "min"),
        offset_us_high=("offset_us", "max"),
        uncertainty_us=("uncertainty_us", "max"),
    )
    return gathered[list(COLUMNS)]


def _rows(record: RunRecord) -> Iterator[dict[str, Any]]:
    for one in record.engine.get("generators") or ():
        clock = one.get("clock") or {}
        for target, connect_us in (one.get("connect_us") or {"": None}).items():
            yield {
                "run_id": record.run_id,
                "worker": one.get("worker"),
                "kind": str(one.get("kind") or ""),
                "where": str(one.get("where") or ""),
                "host": "" if one.get("kind") == "cluster" else str(one.get("host") or ""),
                "control": str(one.get("control") or ""),
                "target": target,
                "connect_us": _number(connect_us),
                "offset_us": _number(clock.get("offset_us")),
                "uncertainty_us": _number(clock.get("uncertainty_us")),
            }


def _number(value: Any) -> float:  # noqa: ANN401 - JSON
    return float("nan") if value is None else float(value)
