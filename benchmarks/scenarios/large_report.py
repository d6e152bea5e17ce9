"""The report of a hundred million records: how time grows with runs, and what one more run takes."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import Setting
from benchmarks.scenarios.report import in_python

TITLE = "The report of a hundred million records"
BLOCKS = 50
"""Of two treatments: 100 runs."""
DIFFERENT = 2
"""Blocks whose count tables are made from records of their own; the others have copies of these."""
SHARES = (0.25, 0.5, 1.0)
_TABLES = ("counts.parquet", "totals.parquet")
_MAKE = """
sys.path.insert(0, {tests!r})
from support.make_results import Step, TreatmentModel, make_results
make_results(Path({folder!r}), treatments={{"a": TreatmentModel(), "b": TreatmentModel(median_ms=12)}},
             blocks={blocks}, seed=1, rate_per_s={rate}, duration_s=600, warmup_s=30, steps=[Step("get")], sample_hz=1)
"""


def run(setting: Setting) -> dict[str, Any]:
    """Reports of a quarter, half and all of the runs, each with nothing kept; then of one run more."""
    root = Path(__file__).resolve().parents[2]
    records = 10_000 if setting.fast else 1_000_000
    blocks = 4 if setting.fast else BLOCKS
    with tempfile.TemporaryDirectory(prefix="towtank-bench-") as name:
        few, many, waiting = (Path(name, part) for part in ("few", "many", "waiting"))
        for folder, number, rate in ((few, DIFFERENT, records / 600), (many, blocks, 1)):
            code = _MAKE.format(tests=str(root / "tests"), folder=str(folder), blocks=number, rate=rate)
            in_python(root, code)
        runs = _with_large_tables(few, many)
        waiting.mkdir()
        for run_folder in runs:
            run_folder.rename(waiting / run_folder.name)
        cold = []
        for share in SHARES:
            for run_folder in runs[: round(len(runs) * share)]:
                if not run_folder.exists():
                    (waiting / run_folder.name).rename(run_folder)
            shutil.rmtree(many / "report", ignore_errors=True)
            measured = in_python(root, _report(many))
            cold.append({"runs": len(list((many / "runs").iterdir())), **measured})
        os.utime(runs[-1] / _TABLES[0])  # as good as new: what was kept of it does not fit any more
        before = time.time()
        one_more = in_python(root, _report(many))
        # what is derived of a run is kept when it was read; code that changed meanwhile would have all of them read
        one_more["read"] = sum(
            kept.stat().st_mtime > before for kept in (many / "report" / ".derived").iterdir()
        )
        rows = sum(_rows(folder) for folder in runs)
    return {"records_per_run": records, "cold": cold, "one_more": one_more, "count_rows": rows}


def _report(folder: Path) -> str:
    return f"from towtank.report import write\nwrite(Path({str(folder)!r}))"


def _with_large_tables(few: Path, many: Path) -> list[Path]:
    """Give every run the tables of one that had all its records; runs in the order of their blocks."""
    folders = sorted((many / "runs").iterdir())
    for folder in folders:
        block, treatment, _ = folder.name.split("-")
        source = few / "runs" / f"b{(int(block[1:]) - 1) % DIFFERENT + 1:02d}-{treatment}-a1"
        for table in _TABLES:
            shutil.copyfile(source / table, folder / table)
    return folders


def _rows(folder: Path) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415 - other scenarios need none

    return int(pq.read_metadata(folder / "counts.parquet").num_rows)


def show(result: dict[str, Any]) -> str:
    """A table and a paragraph."""
    each, more = result["records_per_run"], result["one_more"]
    rows = "\n".join(
        f"| {one['runs']} | {one['runs'] * each:,} | {one['seconds']} | {one['cpu_s']} | {one['max_rss_mib']:.0f} |"
        for one in result["cold"]
    )
    return f"""Runs of {each:,} synthetic records over 10 minutes; the count tables of all runs have {result["count_rows"]:,} rows. Analysis and
report with all figures, with nothing kept of an earlier one:

| runs | records | s | CPU s | peak MiB |
|---:|---:|---:|---:|---:|
{rows}

One new run among them, when the others were reported before: {more["seconds"]} s ({more["cpu_s"]} CPU s, peak {more["max_rss_mib"]:.0f} MiB), with the tables of {more["read"]} run read.
"""
