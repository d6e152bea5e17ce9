"""The `runs` view: run.json of every run, flattened, with a column per factor."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from towtank.store.run_record import RunRecord
from towtank.store.views import RUNS

_SAFE_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")
_STAGES = pa.list_(
    pa.struct(
        [("workload", pa.string()), ("name", pa.string()), ("start_us", pa.int64()), ("end_us", pa.int64())]
    )
)
_TYPES: dict[str, pa.DataType] = {
    "VARCHAR": pa.string(),
    "JSON": pa.string(),
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
    "VARCHAR[]": pa.list_(pa.string()),
    "MAP(VARCHAR, VARCHAR)": pa.map_(pa.string(), pa.string()),
    "MAP(VARCHAR, DOUBLE)": pa.map_(pa.string(), pa.float64()),
    RUNS["stages"][0]: _STAGES,
}


def runs_table(records: Sequence[RunRecord]) -> pa.Table:
    """One row a record: the fixed columns of `views.RUNS`, then one per factor.

    A factor whose name is one of the fixed columns, such as `workload`, becomes ``level_workload``; one whose name is
    no plain identifier is in the map `levels` only.
    """
    rows = [_row(record) for record in records]
    columns = {
        name: pa.array([row[name] for row in rows], type=_TYPES[sql_type])
        for name, (sql_type, _) in RUNS.items()
    }
    factors = dict.fromkeys(factor for record in records for factor in record.levels)
    for factor in factors:
        name = level_column(factor)
        if name is not None and name.lower() not in {c.lower() for c in columns}:
            columns[name] = _levels([record.levels.get(factor) for record in records])
    return pa.table(columns)


def level_column(factor: str) -> str | None:
    """Name of the column that holds a factor's levels; None when its name is not safe for one."""
    if not _SAFE_NAME.match(factor):
        return None
    return f"level_{factor}" if factor.lower() in RUNS else factor


def _row(record: RunRecord) -> dict[str, Any]:
    verdicts, window, clock = record.verdicts, record.window, record.clock
    row = {name: getattr(record, name, None) for name in RUNS}
    row.update(
        treatment=record.treatment_label,
        started_utc=_moment(record.started_utc),
        finished_utc=_moment(record.finished_utc),
        load_start_utc=_moment(clock.zero_utc if clock else None),
        window_start_us=window.start_us if window else None,
        window_end_us=window.end_us if window else None,
        drained_us=window.drained_us if window else None,
        instrument=verdicts.instrument if verdicts else None,
        valid=verdicts.instrument != "invalid" if verdicts else None,
        instrument_reasons=[r.name for r in verdicts.instrument_reasons] if verdicts else None,
        system=verdicts.system if verdicts else None,
        system_reasons=[r.name for r in verdicts.system_reasons] if verdicts else None,
        stages=[stage.model_dump() for stage in record.stages],
        levels=[(factor, _text(level)) for factor, level in record.levels.items()],
        versions=list(record.versions.items()),
        timings_s=list(record.timings_s.items()),
        engine_detail=json.dumps(record.engine),
        deployment_detail=json.dumps(record.deployment),
        telemetry_detail=json.dumps(record.telemetry),
    )
    return row


def _levels(levels: Sequence[Any]) -> pa.Array:
    """Levels of a factor in the narrowest type that holds them all: booleans, whole numbers, numbers, text."""
    kinds = {type(level) for level in levels if level is not None}
    if kinds == {bool}:
        return pa.array(levels, pa.bool_())
    if kinds == {int} and all(level is None or -(2**63) <= level < 2**63 for level in levels):
        return pa.array(levels, pa.int64())
    if kinds <= {int, float} and kinds:
        return pa.array([None if level is None else float(level) for level in levels], pa.float64())
    return pa.array([None if level is None else _text(level) for level in levels], pa.string())


def _text(level: object) -> str:
    return level if isinstance(level, str) else json.dumps(level)


def _moment(text: str | None) -> dt.datetime | None:
    """UTC without a zone, which needs no extension to be shown; None for what cannot be read."""
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment
