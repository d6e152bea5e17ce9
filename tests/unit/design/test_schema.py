"""The JSON Schema for editors: good files pass, bad ones do not, and it is the models' own."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from towtank.design import json_schema
from towtank.design.document import parse_document
from towtank.design.problems import Problems
from towtank.design.tree import plain

ROOT = Path(__file__).parents[3]
SHIPPED = sorted(
    [
        *ROOT.glob("studies/*/experiment.yaml"),
        *ROOT.glob("studies/examples/*/experiment.yaml"),
        *(ROOT / "studies" / "hpa-targets" / f"{name}.yaml" for name in ("calibration", "elasticity")),
        *ROOT.glob("tests/data/experiments/*/experiment.yaml"),
    ]
)
BASE = (ROOT / "tests/data/experiments/full/experiment.yaml").read_text("utf-8")
WRONG = {
    "unknown key": ("seed: 7", "sede: 7"),
    "missing key": ("question: Does the backend or the application decide performance?\n", ""),
    "variable": ("primary: [p95, throughput]", "primary: [p95, troughput]"),
    "share": ("matters: 5%", "matters: 5"),
    "order": ("order: randomized-blocks", "order: random"),
    "pilot": ("at_least: 8", "at_least: 3"),
    "repetitions": ("{at_least: 8, at_most: 20, until: {p95: 5%}}", "0"),
    "platform": ("platform: local", "platform: lokal"),
    "no platform": ("    platform: local\n", ""),
    "key of the platform": ("components:", "komponents:"),
    "size": ("memory: 64MiB", "memory: 64MBytes"),
    "lifetime": ("deploy: per-block", "deploy: per-blok"),
    "model": ("model: closed", "model: closd"),
    "duration": ("duration: 60s", "duration: 60"),
    "unit": ("duration: 60s", "duration: 60sec"),
    "users": ('users: "${{ users }}", spawn', "users: many, spawn"),
    "think": ("think: {uniform: [500ms, 1s]}", "think: {gaussian: 1s}"),
    "status": ("status: [200, 3xx]", "status: [200, 6xx]"),
    "key of a step": ('{name: "read", target:', '{nam: "read", target:'),
    "source": ("- host", "- hots"),
    "option of a source": ("open_files: false", "open_fils: false"),
    "two sources in one": ("process: {interval: 500ms, open_files: false}", "{process: {}, host: {}}"),
    "generator": ("where: local", "where: moon"),
    "nice": ("nice: -5", "nice: -25"),
    "cpu": ("cpus: [0]", "cpus: [x]"),
    "slo": ("slo: {p95: 300ms,", "slo: {latency: 300ms,"),
    "profile": ("    repetitions: 4", "    question: Other?"),
    "reset": ("reset:\n  copy:", "reset:\n  copi:"),
    "fixture": ("lifetime: experiment", "lifetime: forever"),
    "name": ("  reads:\n", "  rea ds:\n"),
}


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(json_schema())


def tree(text):
    problems = Problems()
    node = parse_document(text, "a.yaml", problems)
    assert not problems
    return plain(node)


def test_it_is_a_schema_of_its_draft():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("draft/2020-12/schema")
    assert json.loads(json.dumps(schema)) == schema


def test_every_reference_leads_somewhere():
    schema = json_schema()
    text = json.dumps(schema)
    names = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert names <= schema["$defs"].keys()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.parent.name)
def test_shipped_experiments_pass(validator, path):
    assert [e.message for e in validator.iter_errors(tree(path.read_text("utf-8")))] == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_do_not(validator, name):
    old, new = WRONG[name]
    assert old in BASE
    assert list(validator.iter_errors(tree(BASE.replace(old, new, 1))))


def test_expressions_may_stand_for_values(validator):
    changed = BASE.replace("timeout: 30s", 'timeout: "${{ users }}s"').replace(
        "threads: 1", 'threads: "${{ users }}"'
    )
    changed = changed.replace("memory: 64MiB", 'memory: "${{ users }}MiB"').replace(
        "- host", '- "${{ source }}"'
    )
    assert changed.count("${{") > BASE.count("${{") + 3
    assert list(validator.iter_errors(tree(changed))) == []


def test_but_not_in_the_frame(validator):
    assert list(validator.iter_errors(tree(BASE.replace("seed: 7", 'seed: "${{ users }}"'))))


def test_defaults_are_written_as_a_file_would():
    definitions = json_schema()["$defs"]
    assert definitions["WorkloadFile"]["properties"]["timeout"]["default"] == "30s"
    assert definitions["Answer"]["properties"]["matters"]["default"] == "5%"
    assert definitions["LocalDeployment"]["properties"]["log_limit"]["default"] == "10MiB"


def test_every_field_has_a_description():
    schema = json_schema()
    missing = [
        f"{name}.{key}"
        for name, one in [("", schema), *schema["$defs"].items()]
        for key, value in one.get("properties", {}).items()
        if "description" not in value and "$ref" not in value
    ]
    assert missing == []
