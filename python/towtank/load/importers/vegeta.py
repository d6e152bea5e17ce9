"""vegeta: what `vegeta encode --to csv` and `--to json` print.

The time of a row is that of the actual send. Version 12.8 and later write twelve columns of CSV, those before
nine (without method, address and headers). A status of 400 and more is an error to vegeta, with its line as
the text.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from towtank.errors import ForeignFileError
from towtank.load.importers import base
from towtank.load.importers.base import LAG_UNKNOWN, int32, refuse, refuse_line
from towtank.load.importers.errors_said import outcomes_of
from towtank.load.importers.instants import epoch_us
from towtank.load.importers.one_attack import Contradiction, OneAttack
from towtank.load.importers.text import MOST_STATUS, Column, csv_batches, line_of_row, lines

NAMES = (
    "timestamp", "code", "latency", "bytes_out", "bytes_in", "error", "body", "attack", "seq", "method", "url",
    "headers",
)  # fmt: skip
_COLUMNS = {
    "timestamp": Column("whole"), "code": Column("whole", most=MOST_STATUS), "latency": Column("whole"),
    "bytes_out": Column("whole"), "bytes_in": Column("whole"), "error": Column("text"),
    "seq": Column("whole"),
}  # fmt: skip
_ADDRESSES = {"method": Column("text"), "url": Column("text")}
OLD_COLUMNS = 9
_ROWS_AT_ONCE = 1 << 16
_Result = tuple[int, int, int, int, int, int, str, str, str]
"""Start in µs, code, latency in ns, bytes out and in, number, error, method and address."""


class _Vegeta:
    tool = "vegeta"
    is_wall_clock = True
    timeout_s: float | None = 30.0
    notes = (LAG_UNKNOWN,)

    def __init__(self, path: Path) -> None:
        self._path = path


class VegetaCsv(_Vegeta):
    """`vegeta encode --to csv`.

    Parameters
    ----------
    path : Path
    columns : int
        12, or 9 of versions before.
    """

    def __init__(self, path: Path, columns: int) -> None:
        super().__init__(path)
        self._names = NAMES[:columns]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows as `base.Reader` says."""
        wanted = _COLUMNS if len(self._names) == OLD_COLUMNS else _COLUMNS | _ADDRESSES
        attack = OneAttack()
        for batch in csv_batches(self._path, wanted, names=self._names):
            start = batch.column("timestamp").to_numpy(zero_copy_only=False) // 1000
            found = _other_attack(attack, start, batch)
            if found is not None:
                raise _glued(self._path, found, line_of_row(self._path, found.row))
            yield _rows(start, batch)


class VegetaJson(_Vegeta):
    """`vegeta encode --to json`: one object a line.

    Parameters
    ----------
    path : Path
    """

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows as `base.Reader` says."""
        found: list[_Result] = []
        attack = OneAttack()
        for number, line in lines(self._path):
            found.append(self._result(number, line))
            if len(found) >= _ROWS_AT_ONCE:
                yield self._table(found, attack)
                found = []
        if found:
            yield self._table(found, attack)

    def _table(self, found: Sequence[_Result], attack: OneAttack) -> pa.RecordBatch:
        start, batch = _columns(found)
        other = _other_attack(attack, start, batch)
        if other is not None:
            raise _glued(self._path, other, other.row + 1)  # a result a line
        return _rows(start, batch)

    def _result(self, number: int, line: bytes) -> _Result:
        try:
            said = json.loads(line)
            return (
                epoch_us(said["timestamp"]), _natural(said, "code"), _natural(said, "latency"),
                _natural(said, "bytes_out"), _natural(said, "bytes_in"), _natural(said, "seq"),
                str(said.get("error", "")),
                str(said.get("method", "")), str(said.get("url", "")),
            )  # fmt: skip
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise refuse_line(self._path, "result of vegeta", error, number) from error


def _natural(said: Mapping[str, Any], key: str) -> int:
    value = said[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError(f"`{key}` is {value!r}; allowed are whole numbers from 0")
    return value


def _columns(found: Sequence[_Result]) -> tuple[np.ndarray, pa.RecordBatch]:
    starts, code, latency, sent, received, seq, error, method, url = zip(*found, strict=True)
    batch = pa.RecordBatch.from_pydict(
        {
            "code": pa.array(code, pa.int64()), "latency": pa.array(latency, pa.int64()),
            "bytes_out": pa.array(sent, pa.int64()), "bytes_in": pa.array(received, pa.int64()),
            "seq": pa.array(seq, pa.int64()), "error": pa.array(error, pa.string()),
            "method": pa.array(method, pa.string()), "url": pa.array(url, pa.string()),
        }
    )  # fmt: skip
    return np.array(starts, dtype=np.int64), batch


def _other_attack(attack: OneAttack, start_us: np.ndarray, batch: pa.RecordBatch) -> Contradiction | None:
    """Find the first row that is of another attack than those before it."""
    took = batch.column("latency").to_numpy(zero_copy_only=False) // 1000
    return attack.contradiction(start_us, took, batch.column("seq").to_numpy(zero_copy_only=False))


def _glued(path: Path, found: Contradiction, line: int) -> ForeignFileError:
    hint = "one file is one attack: give each file as it was written; nothing was imported"
    return refuse(path, f"results of several attacks in one file: this one {found.why}", line=line, hint=hint)


def _rows(start_us: np.ndarray, batch: pa.RecordBatch) -> pa.RecordBatch:
    code = batch.column("code").to_numpy(zero_copy_only=False)
    total = np.rint(batch.column("latency").to_numpy(zero_copy_only=False) / 1000).astype(np.int64)
    error = batch.column("error")
    outcome = pc.if_else(pa.array(code == 0), outcomes_of(error), base.status_outcomes(code))
    # a body that could not be read has a status and an error that is not the status line
    cut = pc.and_(pc.not_equal(error, ""), pa.array((code >= 200) & (code < 400)))
    columns: dict[str, Any] = {
        "start_us": start_us,
        "after_ttfb_us": int32(total),
        "status": pa.array(code.astype(np.int32), mask=code == 0),
        "outcome": pc.if_else(cut, outcomes_of(error), outcome),
        "bytes_out": batch.column("bytes_out"),
        "bytes_in": batch.column("bytes_in"),
    }
    if "url" in batch.schema.names:
        steps, targets = base.steps_and_targets(batch.column("method"), batch.column("url"))
        columns |= {"step": steps, "target": targets}
    else:
        columns["step"] = pa.repeat("request", batch.num_rows)
    return base.rows(columns)


def first_is_result(line: str) -> bool:
    """Whether a line is a result in JSON."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and {"timestamp", "latency", "code"} <= said.keys()


def columns_of(line: str) -> int | None:
    """9 or 12 when a line is a result in CSV, else None; its texts are quoted where they hold a comma."""
    head = line.split(",", 5)
    if (
        len(head) < 6
        or not all(part.isdecimal() for part in head[:5])
        or len(head[0]) < len("1000000000000000000")
    ):
        return None
    cells = len(next(csv.reader([line]), []))
    return cells if cells in (OLD_COLUMNS, len(NAMES)) else None
