"""`towtank plan` and `towtank schema`, as a user calls them."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest

from support.cli import towtank
from support.plans import make_plan
from towtank.cli.plan import _decision
from towtank.design import json_schema
from towtank.design.answer import power_of

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "experiments"
ENGINE = """#!/bin/sh
# Stands for the engine's check: finds fault with a certain path only.
grep -q 'bad-template' "$2" || exit 0
path='$.workloads[0].journey.steps[1].choose[1].steps[0].request.body'
echo '{"event": "error", "path": "'$path'", "message": "unknown: nix"}'
exit 3
"""


@pytest.fixture
def engine(tmp_path):
    path = tmp_path / "engine"
    path.write_text(ENGINE, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_plan_says_what_would_happen(engine):
    done = towtank("plan", DATA / "quickstart", TOWTANK_ENGINE=str(engine))
    assert done.returncode == 0, done.stderr
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[0].startswith("quickstart: Does a second process serve the catalogue better")
    assert any(line.startswith("two-limited ") and line.endswith("520") for line in lines)
    assert "    1  one-process → two-processes → two-limited" in lines
    assert "runs      24 = 3 treatments × 8 blocks (randomized-blocks, seed 20)" in lines
    assert "requests  12,480" in lines
    assert any(line.startswith("time      about 4 min") and "estimate" in line for line in lines)
    assert "decides: 4 claims (p95, goodput), together at 0.95 confidence, by Holm" in lines
    assert any("smallest adjusted p-value 0.031, so it can confirm a claim at 0.05" in line for line in lines)
    assert "cost" not in done.stdout.lower().replace("cpu limit cost", ""), (
        "no prices are declared: nothing is said"
    )
    assert "\x1b[" not in done.stdout


def test_plan_as_json_is_complete(engine):
    done = towtank("plan", DATA / "full", "--profile", "laptop", "--json", TOWTANK_ENGINE=str(engine))
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert len(data["runs"]) == 32
    assert data["experiment"]["profile"] == "laptop"
    assert data["forecast"]["deployments"] == 8
    claim = data["decides"]["claims"][0]
    assert claim["smallest_check_p"] is None
    assert claim["check_can_confirm"] is False
    assert claim["method"] == "t-test on log ratios within blocks"
    assert "files" not in data


def test_problems_go_to_stderr_with_the_code_of_bad_files(tmp_path):
    path = tmp_path / "experiment.yaml"
    path.write_text("experiment: x\nqestion: y\n", encoding="utf-8")
    done = towtank("plan", path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert f"{path}:2:1: qestion: unknown key 'qestion'" in done.stderr
    assert "(did you mean 'question'?)" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_engine_finds_has_a_place_in_the_file(engine, tmp_path):
    shutil.copytree(DATA / "full", tmp_path / "full")
    journey = tmp_path / "full" / "journeys" / "wiki.yaml"
    text = journey.read_text("utf-8")
    assert "{{ random_hex(100) }}" in text
    journey.write_text(text.replace("{{ random_hex(100) }}", "bad-template"), encoding="utf-8")
    done = towtank("plan", tmp_path / "full", TOWTANK_ENGINE=str(engine))
    assert done.returncode == 3
    line = next(
        i for i, row in enumerate(journey.read_text("utf-8").splitlines(), 1) if "bad-template" in row
    )
    column = journey.read_text("utf-8").splitlines()[line - 1].index('"bad-template"') + 1
    place = f"{journey}:{line}:{column}: workloads.mixed.journey.steps[1].choose[1].steps[0].body"
    assert f"{place}: the engine says: unknown: nix" in done.stderr
    assert done.stderr.count("the engine says") == 1, "the same in many treatments is said once"


def test_without_an_engine_the_plan_is_shown_and_says_so(tmp_path):
    done = towtank("plan", DATA / "quickstart", TOWTANK_ENGINE=str(tmp_path / "nowhere"))
    assert done.returncode == 0, done.stderr
    assert "note: journeys were not checked: " in done.stdout


def test_markup_in_a_file_is_shown_as_it_is(engine, tmp_path):
    path = tmp_path / "experiment.yaml"
    text = (DATA / "quickstart" / "experiment.yaml").read_text("utf-8")
    path.write_text(
        text.replace("question: Does", "question: Why [red]does[/red] :smile:!"), encoding="utf-8"
    )
    done = towtank("plan", path, TOWTANK_ENGINE=str(engine))
    assert "quickstart: Why [red]does[/red] :smile:! a second" in done.stdout


def test_schema_is_printed_or_written(tmp_path):
    done = towtank("schema")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json_schema()
    path = tmp_path / "experiment.schema.json"
    assert towtank("schema", "-o", path).stdout == f"{path}\n"
    assert json.loads(path.read_text("utf-8")) == json_schema()
    failed = towtank("schema", "-o", tmp_path / "nowhere" / "x.json")
    assert failed.returncode == 4
    assert "cannot be written to" in failed.stderr


def test_single_values_are_set_on_the_command_line(engine):
    done = towtank(
        "plan",
        DATA / "quickstart",
        "--json",
        "--set",
        "repetitions=9",
        "--set",
        "seed=4",
        TOWTANK_ENGINE=str(engine),
    )
    assert done.returncode == 0, done.stderr
    experiment = json.loads(done.stdout)["experiment"]
    assert (experiment["repetitions"], experiment["seed"]) == (9, 4)
    assert experiment["overrides"] == {"repetitions": "9", "seed": "4"}


@pytest.mark.parametrize(
    ("values", "words"),
    [(["repetitions"], "is not KEY=VALUE"), (["seed=1", "seed=2"], "'seed' is given twice")],
)
def test_a_value_that_sets_nothing_is_refused(engine, values, words):
    options = [word for value in values for word in ("--set", value)]
    done = towtank("plan", DATA / "quickstart", *options, TOWTANK_ENGINE=str(engine))
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("primary", "said"),
    [
        (("p95",), "decides: 1 claim (p95), at 0.95 confidence"),
        (("p95", "goodput"), "decides: 2 claims (p95, goodput), together at 0.95 confidence, by Holm"),
    ],
)
def test_one_claim_is_said_as_one(primary, said):
    plan = make_plan(primary=primary)
    decides = power_of(plan.experiment, plan.experiment.answer, plan.treatments)
    assert _decision(plan, decides)[0] == said


LOCAL = """\
experiment: local
question: Does it start?
repetitions: 2
deployments:
  a:
    platform: local
    components:
      web: {command: [no-such-program-anywhere, --port, "{port}"]}
      api: {command: "python api.py --port {port}"}
workloads:
  w:
    load: {model: open, rate: 10/s, duration: 10s}
    journey: {steps: [{name: home, target: web}]}
"""


def test_programs_that_are_not_there_are_told_with_their_place(tmp_path, engine):
    path = tmp_path / "experiment.yaml"
    path.write_text(LOCAL)
    done = towtank("plan", path, TOWTANK_ENGINE=str(engine))
    assert done.returncode == 3
    assert (
        f"{path}:9:22: deployments.a.components.api.command[1]: the script 'api.py' is not there"
        in done.stderr
    )
    (tmp_path / "api.py").write_text("")
    done = towtank("plan", path, TOWTANK_ENGINE=str(engine))
    assert done.returncode == 0, done.stderr
    note = f"note: `run` would fail on this machine: {path}:8:23: the program 'no-such-program-anywhere' is not in PATH"
    assert note in done.stdout
    assert done.stdout.count("would fail") == 1


def test_a_script_that_a_command_may_make_before_is_a_note(tmp_path, engine):
    path = tmp_path / "experiment.yaml"
    path.write_text(LOCAL + "fixtures: {build: {prepare: {run: make api.py}}}\nreset: none\n")
    done = towtank("plan", path, TOWTANK_ENGINE=str(engine))
    assert done.returncode == 0, done.stderr
    assert f"{path}:9:22: the script 'api.py' is not there" in done.stdout
    assert "unless a command of the experiment makes it before" in done.stdout


def test_what_the_engine_finds_is_said_beside_everything_else(tmp_path, engine):
    """A wrong name of the experiment and another workload of wrong form do not hide what the engine refuses."""
    folder = shutil.copytree(DATA / "full", tmp_path / "full")
    journey, path = folder / "journeys" / "wiki.yaml", folder / "experiment.yaml"
    journey.write_text(journey.read_text("utf-8").replace("{{ random_hex(100) }}", "bad-template"), "utf-8")
    text = path.read_text("utf-8")
    for old, new in (
        ("experiment: wiki-backends", "experiment: wiki backends"),
        ("[200, 3xx]", "[200, 7xx]"),
    ):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    for command in ("plan", "run"):
        done = towtank(command, folder, TOWTANK_ENGINE=str(engine))
        assert done.returncode == 3
        assert done.stderr.count("the engine says: unknown: nix") == 1
        assert f"{path}:2:13: experiment: found 'wiki backends'" in done.stderr
        assert "workloads.reads.journey.steps[0].expect.status[1]: found '7xx'" in done.stderr
        assert len(done.stderr.splitlines()) == 3
