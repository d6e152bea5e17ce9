"""Ten million requests: what closing a run and asking SQL cost, in time and memory. `make test-slow` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from support.make_results import JOURNEY, PLATEAU, Setting, TreatmentModel, draw_requests, make_results
from towtank.design.plan import PlannedRun
from towtank.store import RunWriter
from towtank.store.run_record import Window

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(300)]
PARTS, PART_US = 10, 36_000_000
MOST_BYTES = 1 << 30

CLOSE = r"""
import json, re, sys, time
from pathlib import Path
from towtank.store import Results, RunWriter
[run] = Results.open(Path(sys.argv[1])).runs("running")
begun = time.monotonic()
record = RunWriter(run.layout, run.record).close(run.record)
rss = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps({"s": time.monotonic() - begun, "rss": rss, "bin_us": record.bin_us}))
"""
ASK = r"""
import json, re, sys, time
from pathlib import Path
from towtank.store import Database, Results
begun = time.monotonic()
with Database(Results.open(Path(sys.argv[1]))) as database:
    rows = database.query(
        "SELECT count(*), quantile_disc(latency_us, 0.5) FROM requests WHERE run_id LIKE 'b02%'"
    ).table().to_pylist()
    counts = database.query(
        "SELECT sum(count)::BIGINT AS n FROM counts WHERE variable = 'latency' AND run_id LIKE 'b02%'"
    ).table().to_pylist()
rss = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024
found = {"rows": rows[0]["count_star()"], "counted": counts[0]["n"]}
print(json.dumps({"s": time.monotonic() - begun, "rss": rss, **found}))
"""


def measure(program: str, folder: Path) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", program, folder],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python")},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    return json.loads(done.stdout)


def test_ten_million_requests(tmp_path, capsys):
    make_results(tmp_path / "r", treatments={"one": TreatmentModel()}, blocks=1, duration_s=1)
    setting = Setting("open", 10_000, 0, PART_US, 0, 5_000_000, PLATEAU, JOURNEY, False, 5.0)
    model = TreatmentModel(median_ms=5, errors=0.01, timeouts=0.001, instances=4)
    table = draw_requests(setting, model, 1.0, np.random.default_rng(1), "one", collapsed=False, late=False)
    table = table.filter(pc.less(table["scheduled_us"], PART_US))
    with RunWriter.create(
        tmp_path / "r", PlannedRun("b02-one", 2, 1, "one", 1), 1, experiment="synthetic", treatment_label="one",
        levels={}, window=Window(start_us=1_000_000, end_us=PARTS * PART_US, drained_us=PARTS * PART_US),
    ) as run:  # fmt: skip
        pass
    with pq.ParquetWriter(
        run.layout.requests, table.schema, compression="zstd", store_schema=False
    ) as writer:
        for part in range(PARTS):
            shifted = pc.add(table["scheduled_us"], pa.scalar(part * PART_US, pa.int64()))
            writer.write_table(table.set_column(0, "scheduled_us", shifted), row_group_size=1 << 20)
    del shifted
    rows = PARTS * table.num_rows
    assert rows > 10_000_000

    closed = measure(CLOSE, tmp_path / "r")
    asked = measure(ASK, tmp_path / "r")
    with capsys.disabled():
        print(  # noqa: T201 - the figures are what the test is for
            f"\n{rows:,} requests: close {closed['s']:.1f} s, {closed['rss'] >> 20} MiB; "
            f"sql {asked['s']:.1f} s, {asked['rss'] >> 20} MiB; counts.parquet "
            f"{run.layout.counts.stat().st_size / rows:.2f} bytes a request"
        )
    assert asked["rows"] == asked["counted"] == rows
    assert closed["rss"] < MOST_BYTES
    assert asked["rss"] < MOST_BYTES
