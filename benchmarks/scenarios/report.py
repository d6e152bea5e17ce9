"""The report of ten million records: time and peak memory, with the count tables made on the way."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import Setting, Unmeasurable

# each phase in a process of its own, so that its peak memory is its own
_PHASE = """
import json, resource, sys, time
from pathlib import Path
began = time.monotonic()
{code}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({{"seconds": round(time.monotonic() - began, 1), "cpu_s": round(used.ru_utime + used.ru_stime, 1),
                  "max_rss_mib": round(used.ru_maxrss / 1024, 1)}}))
"""


TITLE = "The report of ten million records"


def run(setting: Setting) -> dict[str, Any]:
    """Count tables and report over synthetic records, as `make_results` writes them."""
    records, runs = (200_000 if setting.fast else 10_000_000), 10
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory(prefix="towtank-bench-") as name:
        results = Path(name, "results")
        began = time.monotonic()
        in_python(
            root,
            f"""
sys.path.insert(0, {str(root / "tests")!r})
from support.make_results import Step, TreatmentModel, make_results
make_results(Path({str(results)!r}),
             treatments={{"a": TreatmentModel(), "b": TreatmentModel()}},
             blocks={runs // 2}, seed=1, rate_per_s={records // runs / 60}, duration_s=60, warmup_s=5,
             steps=[Step("get")], sample_hz=1)
""",
        )
        made = time.monotonic() - began
        counting = in_python(
            root,
            f"""
from towtank.store import Results
from towtank.store.count_tables import write_counts, write_totals
for run in Results.open(Path({str(results)!r})).runs():
    window, layout = run.record.window, run.layout
    write_counts(layout.requests, layout.counts, bin_us=run.record.bin_us, window=window)
    write_totals(layout.requests, layout.totals, window=window)
""",
        )
        reporting = in_python(root, f"from towtank.report import write\nwrite(Path({str(results)!r}))")
        size = sum(p.stat().st_size for p in results.rglob("report.html"))
    return {
        "records": records,
        "runs": runs,
        "made_synthetic_s": round(made, 1),
        "count_tables": counting,
        "report": reporting,
        "report_html_mib": round(size / 2**20, 2),
    }


def in_python(root: Path, code: str) -> dict[str, Any]:
    """Run code in a process of its own: its time, its CPU time and its peak memory."""
    done = subprocess.run(
        [sys.executable, "-c", _PHASE.format(code=code)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unmeasurable(f"a phase failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def show(result: dict[str, Any]) -> str:
    """A paragraph."""
    counts, report = result["count_tables"], result["report"]
    return f"""{result["records"]:,} synthetic records in {result["runs"]} runs. Making the exact count tables: {counts["seconds"]} s, peak {counts["max_rss_mib"]:.0f} MiB (this happens once a run, at
its end). Analysis and report from them, HTML with all figures: **{report["seconds"]} s, peak {report["max_rss_mib"]:.0f} MiB**; the file has {result["report_html_mib"]} MiB.
"""
