"""The example of docs/serverless.md: it is a plan as it stands there, and it runs, from zero to several and back."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.cli import towtank
from towtank.analysis import cold_starts, predicted_scaling
from towtank.analysis.cold_starts import FORCED
from towtank.analysis.pods import read_pods
from towtank.design import load_plan
from towtank.store import Results

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "serverless.md"


def write_example(folder: Path) -> Path:
    """The page's first block of YAML, with a service beside it."""
    block = re.search(r"```yaml\n(.+?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    path = folder / "experiment.yaml"
    path.write_text(block.group(1), "utf-8")
    shutil.copy(ROOT / "tests" / "support" / "http_app.py", folder / "service.py")
    return path


def test_the_page_is_a_plan(tmp_path):
    plan = load_plan(write_example(tmp_path))
    kinds = [t.spec.deployment.resolved()["app"].scaling.kind for t in plan.treatments]
    assert kinds == ["kpa", "openwhisk", "fixed"]


def test_factors_set_any_field_of_it(tmp_path):
    path = write_example(tmp_path)
    text = path.read_text("utf-8").replace("deployment: [knative, openwhisk, fixed]", "target: [2, 5]")
    scaling = 'kpa: {target: "${{ target }}"}'
    deployments = f"""deployments:
  app: {{platform: local, command: "python service.py", scaling: {{{scaling}}}}}
workloads:"""
    text = re.sub(r"deployments:\n.*?workloads:", lambda _: deployments, text, flags=re.DOTALL)
    path.write_text(text.replace("baseline: fixed", "baseline: 2"), "utf-8")
    plan = load_plan(path)
    targets = {
        t.levels["target"]: t.spec.deployment.resolved()["app"].scaling.kpa.target for t in plan.treatments
    }
    assert targets == {2: 2.0, 5: 5.0}


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(400)
def test_the_example_runs_and_its_report_says_emulation(tmp_path):
    path = write_example(tmp_path)
    done = towtank("run", path, "--profile", "smoke", "--set", "max_invalid_repeats=0", timeout=360)
    assert done.returncode in (0, 6), (
        done.stderr
    )  # 6: something else kept this machine busy, which is no fault of it
    runs = sorted((tmp_path / "results" / "from-zero" / "runs").glob("*"))
    assert len(runs) == 6
    for run in runs:
        rows = [r for r in pq.read_table(run / "requests.parquet").to_pylist() if r["status"] == 200]
        cold = sum(row["cold"] for row in rows)
        assert (cold > 0) == ("-fixed-" not in run.name), run.name
        assert len({row["instance"] for row in rows}) >= 2, run.name
    text = (tmp_path / "results" / "from-zero" / "report" / "report.html").read_text("utf-8")
    assert "The platform is an emulation: Knative (KPA), OpenWhisk" in text
    assert "an emulation of OpenWhisk, with processes of one machine as its instances" in text
    check_what_is_made_of_it(Results.open(tmp_path / "results" / "from-zero").runs("all"))


def check_what_is_made_of_it(runs):
    """Of the same runs, also those that a busy machine spoiled: phases of cold starts, and decisions from the load."""
    cold, decided = defaultdict(list), []
    for run in runs:
        name = run.record.treatment_id
        found = cold_starts.of_run(run, read_pods(run.samples(), run.events()), "baseline")
        if found is not None:
            cold[name].append(found)
        predicted = predicted_scaling.of_run(run.record, run.samples())
        decided += [] if predicted is None else predicted.found
    assert sorted(cold) == ["knative", "openwhisk"]
    spreads, phases = cold_starts.spreads(cold), cold_starts.anatomy(cold)
    assert (spreads["joined"] == spreads["n"]).all()
    forced = spreads[spreads["kind"] == FORCED]
    assert len(forced) == 2
    assert forced["min_s"].min() > 0.1, "the function alone takes 100 ms"
    whole = phases.groupby(["treatment_id", "kind"])["mean_s"].sum()
    for key, mean_s in whole.items():
        bounds = spreads.set_index(["treatment_id", "kind"]).loc[key]
        assert bounds["min_s"] - 1e-6 <= mean_s <= bounds["max_s"] + 1e-6
    assert [(one.algorithm, one.reason) for one in decided] == [("KPA", "")] * 2
    assert sum(one.ticks for one in decided) >= 6
    assert all(one.equal >= 0.8 for one in decided), "of few decisions one may lie on the edge of a second"
