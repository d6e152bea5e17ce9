"""Bounds of response variables that the file declares, and files that ask for a steady state."""

from __future__ import annotations

import jsonschema
import pytest

from towtank.design import json_schema, load_plan
from towtank.design.document import parse_document
from towtank.design.problems import Problems
from towtank.design.tree import plain
from towtank.errors import DesignError

FILE = """experiment: own
question: Is it slow?
answer:
  primary: [slow_ratio]
  baseline: one
  variables:
    slow_ratio: {{sql: "select 0.5", better: lower}}
    fast_per_s: {{sql: "select 3", better: higher}}
  steady_state: {steady}
repetitions: {{at_least: 8, at_most: 9, until: {{slow_ratio: 5%}}}}
factors: {{deployment: [one, two]}}
deployments:
  one: &one {{platform: external, url: "http://127.0.0.1:8101"}}
  two: {{<<: *one, url: "http://127.0.0.1:8102"}}
workloads:
  get:
    load: {load}
    journey: {{steps: [{{name: list, path: /}}]}}
slo: {slo}
"""
SLO = "{slow_ratio: 5%, fast_per_s: 20/s, p95: 300ms}"
CONSTANT = "{model: open, rate: 10/s, duration: 60s, warmup: 5s}"


def written(folder, *, slo=SLO, steady="false", load=CONSTANT, more=""):
    path = folder / "experiment.yaml"
    path.write_text(FILE.format(slo=slo, steady=steady, load=load) + more, "utf-8")
    return path


def problems(path):
    with pytest.raises(DesignError) as caught:
        load_plan(path)
    return [str(problem).partition("experiment.yaml:")[2] for problem in caught.value.problems]


def test_a_bound_has_the_unit_of_the_name(tmp_path):
    [spec, _] = [t.spec for t in load_plan(written(tmp_path)).treatments]
    assert spec.slo == {"slow_ratio": 0.05, "fast_per_s": 20.0, "p95": 0.3}


def test_a_wrong_unit_and_a_name_that_is_not_declared_are_problems(tmp_path):
    [unit, unknown] = problems(written(tmp_path, slo="{slow_ratio: 5ms, slow_ration: 5%}"))
    assert unit.startswith("19:19: slo.slow_ratio: '5ms' is not a share")
    assert unknown.startswith("19:24: slo.slow_ration: there is no response variable 'slow_ration'")
    assert "did you mean 'slow_ratio'?" in unknown


def test_the_schema_for_editors_knows_declared_names_only_where_some_are(tmp_path):
    validator = jsonschema.Draft202012Validator(json_schema())

    def wrong(text):
        found = Problems()
        node = parse_document(text, "a.yaml", found)
        assert not found
        return [e.message for e in validator.iter_errors(plain(node))]

    text = written(tmp_path).read_text("utf-8")
    assert wrong(text) == []
    without = (
        text.replace("  variables:\n", "")
        .replace("    slow_ratio: {sql", "#")
        .replace("    fast_per_s: {sql", "#")
    )
    assert len(wrong(without)) == 4  # primary, until, and two bounds


def test_steady_state_is_part_of_what_is_compared(tmp_path):
    one, other = (load_plan(written(tmp_path, steady=steady)) for steady in ("false", "true"))
    assert other.experiment.answer.steady_state
    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("load", "fits"),
    [
        (CONSTANT, True),
        ("{model: closed, users: 10, spawn_per_s: 1/s, duration: 60s, warmup: 15s}", True),
        ("{model: closed, users: 10, spawn_per_s: 1/s, duration: 60s, warmup: 5s}", False),
        ("{model: open, stages: [{sine: {mean: 5/s, amplitude: 2/s, period: 10s}, hold: 60s}]}", False),
    ],
)
def test_steady_state_needs_a_load_that_is_constant_when_it_is_measured(tmp_path, load, fits):
    path = written(tmp_path, steady="true", load=load)
    if fits:
        assert load_plan(path).treatments
        return
    [problem] = problems(path)
    assert problem.startswith("9:3: answer.steady_state: the load of get is not known to be constant")


def test_steady_state_and_faults_are_refused_together(tmp_path):
    fault = "faults: [{kind: none, at: 30s, lasts: 5s}]\n"
    [problem] = problems(written(tmp_path, steady="true", more=fault))
    assert "a fault disturbs the steady state" in problem
