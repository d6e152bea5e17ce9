"""kill -9 while runs are written: every run is complete or readable, and only the current one is to be done again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.make_results import TreatmentModel, make_results
from towtank.store import Database, Results, RunWriter

ROOT = Path(__file__).parents[2]
WRITE = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import numpy as np
from support.make_logs import write_log
from support.make_results import JOURNEY, PLATEAU, Setting, TreatmentModel, draw_requests
from towtank.design.plan import PlannedRun
from towtank.store import RunWriter
from towtank.store.schemas import REQUESTS
from towtank.telemetry.base import Sample
setting = Setting("open", 200, 0, 2_000_000, 0, 5_000_000, PLATEAU, JOURNEY, False, 5.0)
table = draw_requests(
    setting, TreatmentModel(), 1.0, np.random.default_rng(1), "one", collapsed=False, late=False
).cast(REQUESTS)
for block in range(2, 200):
    planned = PlannedRun(f"b{block:02d}-one", block, 1, "one", block)
    with RunWriter.create(Path(sys.argv[1]), planned, 1, experiment="x", treatment_label="one", levels={}) as run:
        for t in range(5):
            run.write_samples([Sample(t, "host", "", "cpu_used_ratio", 0.5)])
        write_log(run.layout.request_logs / "thread-0.log", table)
        run.close(run.record)
    print(planned.id, flush=True)
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_at_a_random_moment(tmp_path, seed):
    folder = make_results(tmp_path / "r", treatments={"one": TreatmentModel()}, blocks=1, duration_s=1)
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE, folder, ROOT / "python", ROOT / "tests"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert child.stdout is not None
    done = [child.stdout.readline().strip()]
    time.sleep(random.Random(seed).uniform(0.1, 0.6))
    os.kill(child.pid, signal.SIGKILL)
    child.wait(timeout=10)
    done += [line.strip() for line in child.stdout]
    child.stdout.close()

    results = Results.open(folder)
    assert results.damage == []
    complete = [r.record.planned_id for r in results.runs()][1:]
    assert complete[: len(done)] == done
    assert len(complete) - len(done) <= 1, "completed, and killed before it could say so"
    running = results.runs("running")
    assert len(running) <= 1
    with Database(results) as database:
        assert database.damage == []
        found = {r["run_id"]: r["n"] for r in database.query(
            "SELECT run_id, count(*) AS n FROM requests WHERE block > 1 GROUP BY 1"
        ).table().to_pylist()}  # fmt: skip
    assert {run: n for run, n in found.items() if run not in {r.run_id for r in running}} == dict.fromkeys(
        (f"{planned}-a1" for planned in complete), 1200
    )
    for run in running:  # what a resume would leave alone can even be completed by hand
        RunWriter(run.layout, run.record).close(run.record)
        assert not [
            p for p in run.path.iterdir() if p.name.startswith(".") or p.suffix in (".tmp", ".arrows")
        ]
