"""Writing the engine's logs in Python: the format of docs/formats.md, section 2, from its text."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from towtank.store.engine_log import END, HEADER, MAGIC, NAMES, ROW, ROWS, VERSION


def encode_batch(kind: int, sequence: int, count: int, payload: bytes, version: int = VERSION) -> bytes:
    """One batch with its header."""
    return (
        HEADER.pack(MAGIC, version, kind, sequence, count, len(payload), zlib.crc32(payload), bytes(8))
        + payload
    )


def encode_rows(table: pa.Table) -> tuple[np.ndarray, dict[str, dict[int, str]]]:
    """Rows of the log for a table of requests, and the names of their ids."""
    rows = np.zeros(table.num_rows, ROW)
    names: dict[str, dict[int, str]] = {}
    rows["scheduled_us"] = table["scheduled_us"].to_numpy()
    for column in ("lag_us", "wait_us", "bytes_out", "bytes_in", "iteration", "user", "worker", "attempt"):
        rows[column] = table[column].to_numpy()
    for column in ("dns_us", "connect_us", "tls_us", "ttfb_us", "after_ttfb_us"):
        values = table[column].to_pylist()
        rows[column] = [2**32 - 1 if v is None else v for v in values]
    rows["status"] = table["status"].fill_null(0).to_numpy()
    for column in ("workload", "step", "target", "instance", "outcome"):
        values = table[column].to_pylist()
        known = {
            name: number for number, name in enumerate(dict.fromkeys(v for v in values if v is not None))
        }
        names[column] = {number: name for name, number in known.items()}
        rows[column] = [2**16 - 1 if v is None else known[v] for v in values]
    flags = np.zeros(table.num_rows, np.uint8)
    flags |= table["reused"].to_numpy().astype(np.uint8)
    flags |= table["warmup"].to_numpy().astype(np.uint8) << 1
    cold = table["cold"].to_pylist()
    flags |= np.array([0 if c is None else 4 | (8 if c else 0) for c in cold], np.uint8)
    flags |= np.array([16 if v == "2" else 0 for v in table["http_version"].to_pylist()], np.uint8)
    flags |= table["redirects"].to_numpy().astype(np.uint8) << 5
    rows["flags"] = flags
    return rows, names


def write_log(
    path: Path,
    table: pa.Table,
    *,
    finish: bool = True,
    batch_rows: int = 4096,
    run: Mapping[str, Any] | None = None,
) -> Path:
    """Write one thread's log of these requests."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows, names = encode_rows(table)
    batches = [
        (NAMES, 1, json.dumps({"kind": "run", "run": dict(run or {"run_id": "r", "warmup_us": {}})}).encode())
    ]
    for kind, known in names.items():
        payload = json.dumps({"kind": kind, "names": {str(k): v for k, v in known.items()}}).encode()
        batches.append((NAMES, len(known), payload))
    for start in range(0, len(rows), batch_rows):
        part = rows[start : start + batch_rows]
        batches.append((ROWS, len(part), part.tobytes()))
    if finish:
        batches.append((END, 0, len(rows).to_bytes(8, "little")))
    content = b"".join(
        encode_batch(kind, i, count, payload) for i, (kind, count, payload) in enumerate(batches)
    )
    path.write_bytes(content)
    return path
