"""A full disk ends in one clear sentence, and what was there before is still good."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from support.make_results import JOURNEY, PLATEAU, Setting, TreatmentModel, draw_requests, make_results
from towtank.design.plan import PlannedRun
from towtank.errors import MachineError
from towtank.store import Database, Results, RunWriter
from towtank.store.export import export_folder, export_sqlite
from towtank.telemetry.base import Sample

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="a small tmpfs can be mounted by root only"),
]
SIZE = 3 << 20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB with the results of one complete run."""
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "towtank-test", mount],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"tmpfs cannot be mounted here: {made.stderr.strip()}")
    try:
        make_results(mount / "r", treatments={"one": TreatmentModel()}, blocks=1, duration_s=2)
        yield mount
    finally:
        subprocess.run(["umount", mount], check=True)


def fill(folder: Path, leave: int) -> None:
    """Fill the file system up to `leave` bytes."""
    stat = os.statvfs(folder)
    (folder / "ballast").write_bytes(bytes(max(0, stat.f_bavail * stat.f_frsize - leave)))


def begin(folder: Path) -> RunWriter:
    planned = PlannedRun("b02-one", 2, 1, "one", 1)
    return RunWriter.create(folder, planned, 1, experiment="synthetic", treatment_label="one", levels={})


def still_good(folder: Path) -> None:
    results = Results.open(folder)
    assert results.damage == []
    [run] = results.runs()
    assert run.requests().count_rows() == 300
    assert run.totals().num_rows > 0


def requests_of(rows: float) -> object:
    setting = Setting("open", rows / 6, 0, 2_000_000, 0, 5_000_000, PLATEAU, JOURNEY, False, 5.0)
    return draw_requests(
        setting, TreatmentModel(), 1.0, np.random.default_rng(1), "one", collapsed=False, late=False
    )


def test_a_run_that_cannot_be_begun(small):
    fill(small, 0)
    with pytest.raises(
        MachineError, match=r"no room left on the disk of .*b02-one-a1.*complete runs are untouched"
    ) as error:
        begin(small / "r")
    assert "goes on where it stopped" in error.value.hint
    still_good(small / "r")
    (small / "ballast").unlink()
    begin(small / "r")


def test_samples_that_do_not_fit(small):
    with begin(small / "r") as run:
        run.write_samples([Sample(0, "host", "", "cpu_used_ratio", 0.5)])
        fill(small, 16 << 10)
        many = [Sample(t, "host", "", "cpu_used_ratio", float(t)) for t in range(10_000)]
        with pytest.raises(MachineError, match=r"samples\.arrows.*this run stays 'running'"):
            run.write_samples(many)
        (small / "ballast").unlink()
    still_good(small / "r")
    [killed] = Results.open(small / "r").runs("running")
    assert killed.samples().num_rows >= 1


@pytest.mark.parametrize("leave", [0, 9_000, 30_000, 70_000])
def test_a_run_that_cannot_be_completed_can_be_later(small, leave):
    """Wherever in `close` the room ends: the run stays running, and closes when there is room again."""
    run = begin(small / "r")
    pq.write_table(requests_of(30_000), run.layout.requests, compression="zstd", store_schema=False)
    fill(small, leave)
    with pytest.raises(MachineError, match="no room left on the disk"):
        run.close(run.record)
    assert not list((small / "r" / "runs").rglob("*.tmp"))
    still_good(small / "r")
    assert Results.open(small / "r").runs("running")[0].requests().count_rows() == 30_000
    (small / "ballast").unlink()
    run.close(run.record)
    assert len(Results.open(small / "r").runs()) == 2


def test_exports_that_do_not_fit_leave_nothing(small):
    fill(small, 60_000)
    with Database(Results.open(small / "r")) as database:
        for kind in ("csv", "parquet"):
            with pytest.raises(MachineError, match=r"no room left .* nothing was exported"):
                export_folder(database, small / "out", kind=kind)
        with pytest.raises(MachineError, match=r"no room left .* nothing was exported"):
            export_sqlite(database, small / "out.db")
    assert list((small / "out").iterdir()) == []
    assert not (small / "out.db").exists()
    still_good(small / "r")
