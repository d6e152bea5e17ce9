"""What keeping every request costs: bytes on disk, memory against run length, exactness of an open load."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import engine, nginx


def open_load(
    *, rate_per_s: int = 5000, seconds: int = 30, load_core: int, server_core: int
) -> dict[str, Any]:
    """An open load at a constant rate: rows against arrivals due, and the engine's own lateness."""
    with nginx.serving(core=server_core) as url, tempfile.TemporaryDirectory(prefix="towtank-bench-") as name:
        folder = Path(name)
        load = engine.open_uniform(rate_per_s, seconds)
        done = engine.run(engine.job(url, folder, load), folder, core=load_core)
        rows = pq.ParquetFile(folder / "requests.parquet").metadata.num_rows
    own = done.done["self"]
    return {
        "rate_per_s": rate_per_s,
        "seconds": seconds,
        "due": done.done["counts"]["due"],
        "rows": rows,
        "by_outcome": done.done["counts"]["by_outcome"],
        "lag_p50_us": own["lag_p50_us"],
        "lag_p99_us": own["lag_p99_us"],
        "lag_p999_us": own["lag_p999_us"],
        "lag_max_us": own["lag_max_us"],
        "cpu_cores_mean": own["cpu_cores_mean"],
        "bytes_per_record": round(done.parquet_bytes / rows, 2),
    }


def memory(
    *, counts: tuple[int, ...] = (1_000_000, 10_000_000), load_core: int, server_core: int
) -> list[dict[str, Any]]:
    """Closed load to a number of requests: peak memory of the engine and bytes on disk for each."""
    results = []
    with nginx.serving(core=server_core) as url:
        for count in counts:
            with tempfile.TemporaryDirectory(prefix="towtank-bench-") as name:
                folder = Path(name)
                load = engine.closed(64, 600, iterations=count)
                done = engine.run(engine.job(url, folder, load), folder, core=load_core)
            results.append(
                {
                    "requests": done.rows,
                    "max_rss_mib": round(done.max_rss_bytes / 2**20, 1),
                    "bytes_per_record": round(done.parquet_bytes / done.rows, 2),
                    "compaction_us_per_record": round(
                        done.done["self"]["compact_cpu_s"] / done.rows * 1e6, 3
                    ),
                }
            )
    return results
