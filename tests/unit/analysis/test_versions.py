"""Two results of one experiment, new against old: what is claimed, what is refused, what a pipeline gets."""

import json
import shutil
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from support.make_results import Step, TreatmentModel, make_results
from towtank.analysis.analyse import analyse
from towtank.analysis.session import read_session
from towtank.analysis.versions import regressions
from towtank.cli.main import build_app
from towtank.design.capacity_file import Demand
from towtank.design.model import Answer
from towtank.errors import ResultsError
from towtank.report.interchange import github, junit_versions
from towtank.store import Results

SMALL = {
    "blocks": 6, "duration_s": 2.0, "rate_per_s": 20.0, "warmup_s": 0.5, "sample_hz": 1.0, "steps": (Step("list"),),
    "block_sd": 0.02, "answer": Answer(primary=("median",), baseline="one", matters=0.25),
}  # fmt: skip


def made(path, **more):
    models = {"one": TreatmentModel(run_sd=0.01), "two": TreatmentModel(run_sd=0.01)}
    return make_results(path, treatments={**models, **more.pop("treatments", {})}, **{**SMALL, **more})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Old, and new with treatment two half as slow again."""
    root = tmp_path_factory.mktemp("versions")
    return (
        made(root / "old"),
        made(root / "new", seed=8, treatments={"two": TreatmentModel(median_ms=15, run_sd=0.01)}),
    )


@pytest.fixture(scope="module")
def found(folders):
    return regressions(*(Results.open(folder) for folder in folders))


def command(*arguments):
    return CliRunner().invoke(build_app(["compare"]), ["compare", *map(str, arguments)])


def test_a_planted_regression_is_worse_and_the_rest_is_not(found):
    by_treatment = {claim.treatment_id: claim for claim in found.claims}
    assert set(by_treatment) == {"one", "two"}
    two = by_treatment["two"]
    assert two.verdict == "worse"
    assert 1.3 < two.low < two.estimate < two.high < 1.8
    assert two.method == "Welch"
    assert two.sentence.startswith("two (new) has a median latency of 1.")
    assert "two (old)" in two.sentence
    assert "6 runs a side" in two.sentence
    assert by_treatment["one"].verdict == "equivalent"
    assert [claim.treatment_id for claim in found.worse] == ["two"]
    assert found.decided


def test_claims_are_one_family_and_the_rest_has_no_verdict(found):
    assert all(claim.p_adjusted >= claim.p_value for claim in found.claims)
    assert found.claims[1].p_adjusted == pytest.approx(
        2 * found.claims[1].p_value
    )  # Holm: the smaller of two
    assert found.explored
    assert {one.verdict for one in found.explored} == {None}
    assert "cannot be told from the version" in found.caution


def test_blocks_of_two_sessions_are_never_paired(folders, found):
    """The order of runs within a session changes nothing: no difference is taken between equal block numbers."""
    shuffled = Results.open(folders[1])
    shuffled._runs = [
        replace(run, record=run.record.model_copy(update={"block": 7 - run.record.block}))
        for run in shuffled.runs("all")
    ]
    again = regressions(Results.open(folders[0]), shuffled)
    for first, second in zip(found.claims, again.claims, strict=True):
        assert second.p_value == pytest.approx(first.p_value, rel=1e-9)
        assert second.low == pytest.approx(first.low, rel=1e-9)


def test_another_design_is_refused_with_the_difference(folders, tmp_path):
    faster = made(tmp_path / "rate", rate_per_s=25.0, blocks=1)
    with pytest.raises(ResultsError, match="not comparable") as refused:
        regressions(Results.open(folders[0]), Results.open(faster))
    assert "rate" in refused.value.message
    assert "→" in refused.value.message
    more = made(tmp_path / "more", treatments={"three": TreatmentModel()}, blocks=1)
    with pytest.raises(ResultsError, match="treatment three: new"):
        regressions(Results.open(folders[0]), Results.open(more))
    answer = Answer(primary=("p95",), baseline="one")
    with pytest.raises(ResultsError, match="primary"):
        regressions(
            Results.open(folders[0]), Results.open(made(tmp_path / "answer", answer=answer, blocks=1))
        )
    with pytest.raises(ResultsError, match="with itself"):
        regressions(Results.open(folders[0]), Results.open(folders[0]))


def test_another_profile_is_named_with_what_it_changes(folders, tmp_path):
    other = made(tmp_path / "laptop", duration_s=1.5, blocks=1)
    plan = json.loads((other / "plan.json").read_text("utf-8"))
    plan["experiment"]["profile"] = "laptop"
    (other / "plan.json").write_text(json.dumps(plan), "utf-8")
    with pytest.raises(ResultsError, match="profile: none → laptop, and what it changes:") as refused:
        regressions(Results.open(folders[0]), Results.open(other))
    assert "load" in refused.value.message.partition("laptop")[2]


def test_repetitions_and_seed_may_differ_and_one_run_claims_nothing(folders, tmp_path):
    single = regressions(Results.open(folders[0]), Results.open(made(tmp_path / "one", blocks=1, seed=9)))
    assert {claim.verdict for claim in single.claims} == {"undecided"}
    assert not single.worse
    assert not single.decided
    assert any("one (new) has one valid run" in note for note in single.notes)
    assert all(claim.p_value is None and claim.low is None for claim in single.claims)


def test_a_side_without_valid_runs(folders, tmp_path):
    spoiled = made(tmp_path / "spoiled", blocks=2)
    for record in spoiled.glob("runs/*two*/run.json"):
        data = json.loads(record.read_text("utf-8"))
        data["verdicts"]["instrument"] = "invalid"
        record.write_text(json.dumps(data), "utf-8")
    partly = regressions(Results.open(folders[0]), Results.open(spoiled))
    two = next(claim for claim in partly.claims if claim.treatment_id == "two")
    assert two.verdict == "undecided"
    assert "one side has no run with a value" in two.reason
    assert any("two (new) has no valid run: all 2 attempts" in note for note in partly.notes)
    for record in spoiled.glob("runs/*/run.json"):
        data = json.loads(record.read_text("utf-8"))
        data["verdicts"]["instrument"] = "invalid"
        record.write_text(json.dumps(data), "utf-8")
    with pytest.raises(ResultsError, match="no valid run to compare: all 4 attempts"):
        regressions(Results.open(folders[0]), Results.open(spoiled))


def test_what_collapsed_everywhere_is_worse_by_ranks_not_nan(folders, tmp_path):
    broken = TreatmentModel(collapsed=tuple(range(1, 7)), timeouts=0.9)
    new = made(tmp_path / "collapsed", seed=11, treatments={"two": broken})
    found = regressions(Results.open(folders[0]), Results.open(new))
    two = next(claim for claim in found.claims if claim.treatment_id == "two")
    assert two.verdict == "worse"
    assert two.estimate is None
    assert any("two (new) collapsed in 6 of 6 runs" in note for note in found.notes)
    json.dumps([claim.__dict__ for claim in (*found.claims, *found.explored)], allow_nan=False)


def without_answer(folder, target):
    """Copy a result folder as if its file had declared no answer."""
    shutil.copytree(folder, target)
    plan = json.loads((target / "plan.json").read_text("utf-8"))
    plan["experiment"]["answer"] = None
    (target / "plan.json").write_text(json.dumps(plan), "utf-8")
    return target


def test_without_an_answer_nothing_is_claimed(folders, tmp_path):
    old, new = (without_answer(folder, tmp_path / folder.name) for folder in folders)
    found = regressions(Results.open(old), Results.open(new))
    assert found.claims == ()
    assert not found.decided
    assert found.explored
    assert any("declares no `answer`" in note for note in found.notes)
    told = command(old, new, "--junit", tmp_path / "junit.xml")
    assert isinstance(told.exception, ResultsError)
    assert "nothing is claimed" in told.exception.message
    assert not (tmp_path / "junit.xml").exists()
    assert command(old, new, "--fail-undecided").exit_code == 7


def test_mixed_environments_are_noted(folders, tmp_path):
    mixed = tmp_path / "mixed"
    shutil.copytree(folders[1], mixed)
    for record in mixed.glob("runs/b02*/run.json"):
        data = json.loads(record.read_text("utf-8"))
        record.write_text(json.dumps({**data, "environment_digest": "f" * 64}), "utf-8")
    (mixed / "runs" / "b03-one-a1" / "run.json").write_text("{", "utf-8")
    environment = json.loads((mixed / "environment.json").read_text("utf-8"))
    environment["engine"]["version"] = "0.2.0"
    (mixed / "environment.json").write_text(json.dumps(environment), "utf-8")
    told = command(folders[0], mixed)
    assert told.exit_code == 8
    assert "new result come from 2 different environments" in told.output
    assert "1 run(s) of the new result could not be read" in told.output
    assert "the environments differ: engine.version: 0.1.0 → 0.2.0" in told.output


def test_junit_has_a_case_for_each_claim(found):
    root = ET.fromstring(junit_versions.render(found))
    assert root.get("tests") == "2"
    assert root.get("failures") == "1"
    failed = root.find(".//failure")
    assert failed.get("type") == "regression"
    assert "cannot be told from the version" in failed.text


def test_annotations_are_escaped(found):
    (line,) = github.render(found, file="a,b:c.yaml")
    assert line.startswith("::error file=a%2Cb%3Ac.yaml,title=two%3A median worse::two (new) has")
    assert "95 %25" in line
    assert "\n" not in line


def test_the_command(folders, tmp_path):
    worse = command(*folders, "--junit", tmp_path / "junit.xml", "--github")
    assert worse.exit_code == 8, worse.output
    assert "2 claims: 1 equivalent, 1 worse" in worse.output
    assert "::error title=" in worse.output
    assert (tmp_path / "junit.xml").read_text("utf-8").startswith("<?xml")
    back = command(folders[1], folders[0], "--json")
    assert back.exit_code == 0, back.output
    assert json.loads(back.output)["worse"] == 0
    short = made(tmp_path / "short", blocks=1, seed=9)
    assert command(folders[0], short).exit_code == 0
    undecided = command(folders[0], short, "--fail-undecided", "--all")
    assert undecided.exit_code == 7
    for word in ("nan", "None", "inf "):
        assert word not in undecided.output


def test_what_needs_the_load_or_a_demand_is_read_as_the_report_reads_it(tmp_path):
    """Two results whose claim is about elasticity: the claim has no value for a reason, and that reason is true."""
    levels = [{"replicas": 1, "holds": 15, "fails": 30}, {"replicas": 2, "holds": 60, "fails": 80}]
    demand = {"calibration": "c.json", "deployment": "one", "model": "open", "slo": {}, "levels": levels}
    results = [
        Results.open(made(tmp_path / name, seed=seed, blocks=2)) for name, seed in (("old", 1), ("new", 2))
    ]
    for one in results:
        plan = one.plan
        answer = plan.experiment.answer.model_copy(update={"primary": ("accuracy_under", "scale_up")})
        one.plan = replace(
            plan,
            experiment=plan.experiment.model_copy(update={"answer": answer}),
            treatments=tuple(
                replace(t, spec=t.spec.model_copy(update={"demand": Demand.model_validate(demand)}))
                for t in plan.treatments
            ),
        )
    found = regressions(*results)
    assert {claim.variable for claim in found.claims} == {"accuracy_under", "scale_up"}
    assert {claim.verdict for claim in found.claims} == {"undecided"}
    session = read_session(results[0], None)
    analysed = {run.treatment_id: run for run in analyse(results[0]).runs if run.block == 1}
    for variable in ("accuracy_under", "scale_up"):
        for treatment, run in analysed.items():
            assert session.values[variable][treatment][0] == run.values[variable]


def test_sides_with_unequal_numbers_of_runs_are_both_counted(folders, tmp_path):
    found = regressions(Results.open(made(tmp_path / "few", seed=3, blocks=4)), Results.open(folders[1]))
    assert {claim.n for claim in found.claims} == {4}
    assert all("; 6 runs against 4; " in claim.sentence for claim in found.claims)
