"""The example of docs/serverless.md: it is a plan as it stands there, and it runs, from zero to several and back."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.cli import towtank
from towtank.analysis import analyse
from towtank.analysis.cold_starts import FORCED
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
    check_what_is_made_of_it(analyse(Results.open(tmp_path / "results" / "from-zero")))


def check_what_is_made_of_it(found):
    """The same runs: phases of cold starts on one clock, and the autoscaler's decisions from the load alone."""
    label = {treatment.treatment_id: treatment.label for treatment in found.treatments}
    cold = found.cold_spreads.assign(treatment=found.cold_spreads["treatment_id"].map(label))
    assert {name for name in cold["treatment"] if "fixed" not in name} == set(cold["treatment"])
    assert len(set(cold["treatment"])) == 2
    assert FORCED in set(cold["kind"])
    assert (cold["joined"] == cold["n"]).all()
    phases = found.cold_phases
    whole = phases.groupby(["treatment_id", "kind"])["mean_s"].sum()
    means = cold.set_index(["treatment_id", "kind"])[["min_s", "max_s"]]
    for key, mean_s in whole.items():
        assert means.loc[key, "min_s"] <= mean_s <= means.loc[key, "max_s"]
    (row,) = (
        found.predictions.groupby("algorithm")
        .agg({"ticks": "sum", "equal": "min"})
        .reset_index()
        .to_dict("records")
    )
    assert row["algorithm"] == "KPA"
    assert row["ticks"] >= 8
    assert row["equal"] >= 0.8
