"""What a table of steps says to be above a bound is bounded by the step's own timeout, as the plan has it."""

from __future__ import annotations

import json

from support.make_results import TreatmentModel, make_results
from towtank.analysis import analyse
from towtank.store import Results


def test_a_step_is_bounded_by_its_own_timeout(tmp_path):
    path = make_results(
        tmp_path / "results", treatments={"one": TreatmentModel(median_ms=10, collapsed=(1, 2))}, blocks=2,
        duration_s=3.0, rate_per_s=20.0, warmup_s=1.0,
    )  # fmt: skip
    plan = path / "plan.json"
    data = json.loads(plan.read_text("utf-8"))
    steps = data["treatments"][0]["spec"]["workload"]["journey"]["steps"]
    name = steps[0]["name"]
    steps[0]["timeout"] = "123ms"
    plan.write_text(json.dumps(data), encoding="utf-8")
    rows = analyse(Results.open(path)).steps
    slowest = rows[rows["variable"] == "max"].set_index("step")
    assert slowest.loc[name, "above"]
    assert slowest.loc[name, "mean"] == 0.123
    assert set(slowest["mean"]) == {0.123, 5.0}, "of the others the longest of the run"
