"""The loop over a plan: order, repeats, resuming, refusing, endings."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from support.campaign_bench import make_plan
from towtank.campaign.resume import open_or_create
from towtank.design.model import Journey, Request
from towtank.errors import (
    ChangedError,
    Interrupted,
    MachineError,
    PlatformError,
    ReadinessTimeout,
    ResultsError,
)


def test_a_plan_is_carried_out_in_order_and_nothing_is_left(bench):
    outcome = bench.run(make_plan())
    assert outcome.done == 4
    assert outcome.spoiled == ()
    assert bench.verdicts() == {
        "b01-one-a1": "valid/intact",
        "b01-two-a1": "valid/intact",
        "b02-one-a1": "valid/intact",
        "b02-two-a1": "valid/intact",
    }
    assert bench.told.runs == ["b01-one-a1", "b01-two-a1", "b02-one-a1", "b02-two-a1"]
    assert bench.platform.journal[:6] == [
        "deploy one",
        "ready one",
        "remove one",
        "deploy two",
        "ready two",
        "remove two",
    ]
    assert bench.left_behind() == []


def test_the_same_command_again_does_nothing(bench):
    plan = make_plan(blocks=1)
    bench.run(plan)
    before = {p: p.read_bytes() for p in bench.folder.rglob("*") if p.is_file()}
    outcome = bench.run(plan)
    assert (outcome.done, outcome.kept) == (0, 2)
    assert {p: p.read_bytes() for p in bench.folder.rglob("*") if p.is_file()} == before


def test_an_invalid_run_is_kept_and_repeated_at_the_end_of_its_block(bench):
    bench.engine(b01_one_a1={"lag_p99_us": 80_000})
    outcome = bench.run(make_plan())
    assert bench.told.runs == ["b01-one-a1", "b01-two-a1", "b01-one-a2", "b02-one-a1", "b02-two-a1"]
    assert bench.verdicts()["b01-one-a1"] == "invalid/intact"
    assert bench.verdicts()["b01-one-a2"] == "valid/intact"
    assert outcome.spoiled == ()


def test_repeats_are_bounded_and_the_campaign_goes_on(bench):
    late = {"lag_p99_us": 80_000}
    bench.engine(b01_one_a1=late, b01_one_a2=late, b01_one_a3=late, b01_one_a4=late)
    outcome = bench.run(make_plan(max_invalid_repeats=1))
    assert bench.told.runs == ["b01-one-a1", "b01-two-a1", "b01-one-a2", "b02-one-a1", "b02-two-a1"]
    assert outcome.spoiled == ("b01-one",)
    again = bench.run(make_plan(max_invalid_repeats=1))
    assert again.done == 2, "the same command asks again, as often"
    assert again.spoiled == ("b01-one",)
    bench.engine()
    last = bench.run(make_plan(max_invalid_repeats=1))
    assert (last.done, last.kept, last.spoiled) == (1, 3, ())


def test_displays_are_told_what_is_left_and_what_is_given_up(bench):
    late = {"lag_p99_us": 80_000}
    bench.engine(b01_one_a1=late, b01_one_a2=late)
    bench.run(make_plan(max_invalid_repeats=1))
    told = [(outline.run_id, list(outline.chances), outline.given_up) for outline in bench.told.outlines]
    assert told == [
        ("b01-one-a1", [2, 2, 2, 2], 0),
        ("b01-two-a1", [2, 1, 2, 2], 0),
        ("b01-one-a2", [1, 2, 2], 0),
        ("b02-one-a1", [2, 2], 1),
        ("b02-two-a1", [2], 1),
    ]
    assert [note for note in bench.told.notes if note.startswith("b01-one is given up: all 2 attempts")]


@pytest.mark.parametrize("fault", ["ready", "started", "late"])
def test_a_lost_engine_makes_the_run_invalid_and_it_is_repeated(bench, fault):
    bench.engine(b01_one_a1={"die": fault})
    outcome = bench.run(make_plan(blocks=1))
    record = json.loads((bench.folder / "runs" / "b01-one-a1" / "run.json").read_text())
    assert record["verdicts"]["instrument_reasons"][0]["name"] == "engine_lost"
    assert "exit code 9" in record["failure"]
    assert outcome.spoiled == ()
    assert bench.left_behind() == []


def test_a_job_that_the_engine_refuses_ends_the_campaign_with_its_words(bench):
    bench.engine(everywhere={"refuse": "a rate below zero"})
    with pytest.raises(Exception, match=r"workloads\[0\].load: a rate below zero"):
        bench.run(make_plan())
    assert bench.left_behind() == []


def test_lost_rows_are_found(bench):
    bench.engine(b01_one_a1={"lose_rows": 3})
    bench.run(make_plan(blocks=1))
    assert bench.verdicts()["b01-one-a1"].startswith("invalid/")


def test_records_that_the_engine_could_not_put_together_are_lost(bench):
    bench.engine(b01_one_a1={"finding": "compact_failed"})
    bench.run(make_plan(blocks=1))
    assert bench.verdicts()["b01-one-a1"].startswith("invalid/")


@pytest.mark.parametrize(
    ("kind", "word"), [("crashed", "collapsed"), ("oom_killed", "collapsed"), ("restarted", "degraded")]
)
def test_what_happens_to_the_deployment_is_its_result_and_never_repeated(bench, kind, word):
    bench.told.during_load = lambda: [
        d.happen(kind) for d in bench.platform.deployments if d.context.name == "one"
    ]
    outcome = bench.run(make_plan(blocks=1))
    assert bench.verdicts()["b01-one-a1"] == f"valid/{word}"
    assert outcome.done == 2


def test_failed_requests_are_the_systems_result(bench):
    bench.engine(b01_one_a1={"outcome": "check:status", "status": 503})
    bench.run(make_plan(blocks=1))
    record = json.loads((bench.folder / "runs" / "b01-one-a1" / "run.json").read_text())
    names = {reason["name"] for reason in record["verdicts"]["system_reasons"]}
    assert names == {"goodput_low", "server_errors"}
    assert record["verdicts"]["system"] == "collapsed"


def test_a_lost_platform_makes_the_run_invalid(bench):
    bench.platform.lost = True
    bench.run(make_plan(("one",), blocks=1, max_invalid_repeats=0))
    assert bench.verdicts() == {"b01-one-a1": "invalid/intact"}


def test_a_lost_platform_leaves_nothing_to_say_of_the_system(bench):
    bench.platform.lost = True
    bench.engine(everywhere={"outcome": "refused", "status": None})
    bench.run(make_plan(("one",), blocks=1, max_invalid_repeats=0))
    assert bench.verdicts() == {"b01-one-a1": "invalid/intact"}


def test_a_run_whose_load_ended_within_its_warmup_measured_nothing(bench):
    bench.engine(b01_one_a1={"warmup_us": 200_000})
    bench.run(make_plan(("one",), blocks=1, max_invalid_repeats=0))
    record = json.loads((bench.folder / "runs" / "b01-one-a1" / "run.json").read_text())
    assert [reason["name"] for reason in record["verdicts"]["instrument_reasons"]] == ["nothing_measured"]
    assert record["verdicts"]["instrument"] == "invalid"


def test_a_deployment_that_never_becomes_ready_ends_the_campaign_resumably(bench):
    bench.platform.never_ready.add("two")
    with pytest.raises(ReadinessTimeout, match="two was not ready"):
        bench.run(make_plan())
    assert bench.verdicts() == {"b01-one-a1": "valid/intact", "b01-two-a1": "running"}
    assert bench.left_behind() == []
    bench.platform.never_ready.clear()
    bench.run(make_plan())
    assert bench.verdicts() == {
        "b01-one-a1": "valid/intact",
        "b01-two-a1": "running",
        "b01-two-a2": "valid/intact",
        "b02-one-a1": "valid/intact",
        "b02-two-a1": "valid/intact",
    }


def test_what_a_platform_can_say_before_is_said_before(bench):
    bench.platform.refuses = "port 80 is in use by nginx"
    with pytest.raises(PlatformError, match="deployment one: port 80 is in use"):
        bench.run(make_plan())
    assert bench.platform.journal == []


def test_a_changed_experiment_is_refused_with_the_difference(bench):
    bench.run(make_plan(blocks=1))
    with pytest.raises(ChangedError, match="experiment is not the one") as caught:
        bench.run(make_plan(blocks=1, digest="d2", rate=99.0))
    assert "99" in str(caught.value)
    assert "--force-new" in (caught.value.hint or "")


def test_a_first_start_that_failed_can_be_mended(bench):
    """With no complete run there is nothing to mix: the attempt is kept aside, and the mended file just runs."""
    bench.platform.never_ready.update({"one", "two"})
    with pytest.raises(ReadinessTimeout):
        bench.run(make_plan(blocks=1))
    bench.platform.never_ready.clear()
    outcome = bench.run(make_plan(blocks=1, digest="d2"))
    assert outcome.done == 2
    aside = [path for path in bench.folder.parent.iterdir() if path.name.startswith("trial.")]
    assert [run.name for run in (aside[0] / "runs").iterdir()] == ["b01-one-a1"]


def test_a_changed_environment_is_refused_with_the_difference(bench):
    bench.run(make_plan(blocks=1))
    path = bench.folder / "environment.json"
    stored = json.loads(path.read_text())
    stored["host"]["kernel"] = "2.6.32"
    stored["digest"] = "other"
    path.write_text(json.dumps(stored))
    with pytest.raises(ChangedError, match=r"host.kernel: 2.6.32 →"):
        bench.run(make_plan(blocks=2))


def test_force_new_keeps_the_old_results(bench):
    bench.run(make_plan(blocks=1))
    outcome = bench.run(make_plan(blocks=1, digest="d2"), force_new=True)
    assert outcome.done == 2
    aside = [path for path in bench.folder.parent.iterdir() if path.name.startswith("trial.")]
    assert len(aside) == 1
    assert len(list((aside[0] / "runs").iterdir())) == 2


def test_two_campaigns_in_one_folder_are_refused(bench):
    from towtank.campaign.lock import locked

    with locked(bench.folder), pytest.raises(ResultsError, match=r"in use by another towtank \(pid \d+\)"):
        bench.run(make_plan())


def test_a_debug_engine_is_refused(bench, monkeypatch):
    monkeypatch.setenv("TOWTANK_FAKE_PROFILE", "debug")
    with pytest.raises(MachineError, match="debug build"):
        bench.run(make_plan())


def test_stopping_ends_the_run_in_order_and_resuming_repeats_it(bench):
    bench.engine(b01_two_a1={"duration_s": 30})
    asked = []

    def ask_during_the_load():
        if bench.told.runs[-1] == "b01-two-a1" and not asked:
            asked.append(bench.stop.ask())

    bench.told.during_load = ask_during_the_load
    with pytest.raises(Interrupted):
        bench.run(make_plan())
    assert bench.verdicts() == {"b01-one-a1": "valid/intact", "b01-two-a1": "running"}
    assert (bench.folder / "runs" / "b01-two-a1" / "requests.parquet").exists(), (
        "what was measured was flushed"
    )
    assert bench.left_behind() == []
    bench.engine()
    bench.stop = type(bench.stop)()
    outcome = bench.run(make_plan())
    assert (outcome.done, outcome.kept) == (3, 1)


@pytest.mark.parametrize("step", ["deploy", "prepare", "settle", "load", "look back", "keep"])
def test_a_crash_at_any_step_leaves_a_folder_that_can_be_resumed(bench, step):
    """An exception that nobody foresaw stands for a crash that still unwinds; tests/kill has the others."""

    def crash(name):
        if name == step and bench.told.runs[-1] == "b01-two-a1":
            raise ZeroDivisionError(name)

    bench.told.phase = crash
    with pytest.raises(ZeroDivisionError):
        bench.run(make_plan())
    assert bench.left_behind() == []
    bench.told.phase = lambda name: None
    outcome = bench.run(make_plan())
    assert (outcome.done, outcome.kept) == (3, 1)
    assert bench.verdicts()["b01-two-a1"] == "running"
    assert bench.verdicts()["b01-two-a2"] == "valid/intact"


def test_going_on_sends_the_secret_that_the_stored_plan_does_not_have(bench):
    plan = make_plan()
    treatments = []
    for treatment in plan.treatments:
        request = Request(name="read", path="/", headers={"Authorization": "s3cr3t"})
        workload = treatment.spec.workload.model_copy(update={"journey": Journey(steps=(request,))})
        treatments.append(replace(treatment, spec=treatment.spec.model_copy(update={"workload": workload})))
    plan = replace(plan, treatments=tuple(treatments))
    first = open_or_create(bench.folder, plan, {"digest": "e"})
    assert first.plan is plan
    again = open_or_create(bench.folder, plan, {"digest": "e"})
    assert "s3cr3t" not in (bench.folder / "plan.json").read_text()
    assert again.results.plan.treatments != plan.treatments
    assert again.plan == plan
