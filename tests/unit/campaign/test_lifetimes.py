"""How long deployments and fixtures live, and in which order they go."""

from __future__ import annotations

import json
import time

import pytest

from support.campaign_bench import make_plan
from support.campaign_platform import JournalConfig
from towtank.campaign.hooks import HookFailed
from towtank.design.model import Fixture, Hook, Reset
from towtank.platforms.base import LogFile, SystemEvent
from towtank.store import Results


def deployed(bench):
    return [line for line in bench.platform.journal if not line.startswith("ready")]


def test_per_run_deploys_for_each_run(bench):
    bench.run(make_plan(("one",), blocks=2))
    assert deployed(bench) == ["deploy one", "remove one"] * 2


def test_per_block_deploys_once_a_block(bench):
    bench.engine(b01_one_a1={"lag_p99_us": 90_000})
    bench.run(make_plan(("one", "two"), blocks=2, deploy="per-block"))
    assert deployed(bench) == [
        "deploy one", "remove one", "deploy two", "remove two",
        "deploy one", "remove one",  # the invalid run, repeated at the end of its block
        "deploy one", "remove one", "deploy two", "remove two",
    ]  # fmt: skip


def test_once_keeps_a_deployment_over_all_blocks(bench):
    bench.run(make_plan(("one", "two"), blocks=3, deploy="once"))
    assert deployed(bench) == ["deploy one", "remove one", "deploy two", "remove two"]
    assert bench.told.runs[:3] == ["b01-one-a1", "b02-one-a1", "b03-one-a1"]


def test_a_deployment_that_lost_an_instance_serves_no_second_run(bench):
    bench.told.during_load = lambda: (
        bench.told.runs[-1] == "b01-one-a1" and bench.platform.deployments[-1].happen("crashed")
    )
    bench.run(make_plan(("one",), blocks=3, deploy="once"))
    assert deployed(bench) == ["deploy one", "remove one"] * 2
    assert list(bench.verdicts().values()) == ["valid/collapsed", "valid/intact", "valid/intact"]


def test_logs_of_a_long_lived_deployment_are_kept_per_run(bench):
    def write():
        deployment = bench.platform.deployments[-1]
        with (deployment.context.log_dir / "app-0.log").open("a") as log:
            log.write(f"serving {bench.told.runs[-1]}\n")

    bench.told.during_load = write
    bench.run(make_plan(("one",), blocks=2, deploy="once"))
    for block in ("b01", "b02"):
        log = bench.folder / "runs" / f"{block}-one-a1" / "logs" / "app-0.log"
        assert log.read_text() == f"serving {block}-one-a1\n"


def test_fixtures_are_made_once_and_removed_last(bench):
    fixtures = {
        "db": Fixture(prepare=Hook(run="echo seeded > {fixture.db}/seed")),
        "broker": Fixture(deployment=JournalConfig(platform="journal", name="broker")),
    }
    plan = make_plan(
        ("one",), blocks=2, fixtures=fixtures,
        reset=Reset.model_validate({"copy": [{"source": "{fixture.db}/seed", "to": "{data}/seed"}]}),
    )  # fmt: skip
    bench.run(plan)
    assert deployed(bench) == [
        "deploy fixture-broker",
        *["deploy one", "remove one"] * 2,
        "remove fixture-broker",
    ]
    assert bench.left_behind() == []


def test_block_fixtures_are_made_for_each_block(bench):
    fixtures = {
        "broker": Fixture(lifetime="block", deployment=JournalConfig(platform="journal", name="broker"))
    }
    bench.run(make_plan(("one",), blocks=2, fixtures=fixtures))
    life = ["deploy fixture-broker", "deploy one", "remove one", "remove fixture-broker"]
    assert deployed(bench) == life * 2


def test_addresses_of_fixtures_are_known(bench):
    fixtures = {"broker": Fixture(deployment=JournalConfig(platform="journal", name="broker"))}
    prepare = Hook(run="cat {fixture.broker}/urls.json; echo; echo {url.broker} {url.app}")
    bench.run(make_plan(("one",), blocks=1, fixtures=fixtures, prepare=prepare))
    lines = (bench.folder / "runs" / "b01-one-a1" / "logs" / "prepare.log").read_text().splitlines()
    assert json.loads(lines[0]) == {"broker": ["http://192.0.2.1:8000"]}
    assert lines[1] == "http://192.0.2.1:8000 http://192.0.2.1:8000"


def test_prepare_runs_before_a_deployments_first_run_only(bench):
    prepare = Hook(run="echo prepared >> {root}/prepared")
    bench.run(make_plan(("one",), blocks=3, deploy="once", prepare=prepare))
    assert (bench.root / "prepared").read_text() == "prepared\n"


def test_a_fixture_that_cannot_be_made_ends_the_campaign(bench):
    fixtures = {"db": Fixture(prepare=Hook(run="echo no such table; exit 1"))}
    with pytest.raises(HookFailed, match=r"prepare of fixture db: .* exit code 1; it said:\n  no such table"):
        bench.run(make_plan(fixtures=fixtures))
    assert bench.left_behind() == []


def test_a_reset_that_fails_makes_the_run_invalid(bench):
    reset = Reset.model_validate({"run": "test {data} != x && echo '{\"pages\": 3}'", "verify": {"pages": 4}})
    outcome = bench.run(make_plan(("one",), blocks=1, reset=reset, max_invalid_repeats=1))
    assert outcome.spoiled == ("b01-one",)
    assert bench.verdicts() == {"b01-one-a1": "invalid/intact", "b01-one-a2": "invalid/intact"}
    record = json.loads((bench.folder / "runs" / "b01-one-a1" / "run.json").read_text())
    assert record["verdicts"]["instrument_reasons"][0]["name"] == "wrong_data_state"
    assert "pages is 3, not 4" in record["failure"]
    assert deployed(bench) == [], "nothing is deployed on a wrong state"


def test_a_reset_that_asks_the_deployment_comes_after_it(bench):
    reset = Reset.model_validate({"run": "echo {url.app} > {data}/asked"})
    bench.run(make_plan(("one",), blocks=1, reset=reset))
    assert bench.told.phases.index("deploy") < bench.told.phases.index("reset")


def test_everything_goes_even_when_something_cannot_be_removed(bench):
    from towtank.errors import PlatformError

    fixtures = {"broker": Fixture(deployment=JournalConfig(platform="journal", name="broker"))}

    def break_removal():
        deployment = bench.platform.deployments[-1]
        deployment.remove = lambda: (_ for _ in ()).throw(PlatformError("the guard is gone"))

    bench.told.during_load = break_removal
    bench.run(make_plan(("one",), blocks=1, fixtures=fixtures))
    assert bench.platform.swept, "the orderly way failed, so the token was swept"
    assert "remove fixture-broker" in bench.platform.journal
    assert bench.left_behind() == []


def test_what_was_measured_is_kept_when_the_deployment_does_not_go(bench):
    """Something holds it: deleting it again would not help, the run is good, and the next command clears up."""
    from towtank.errors import RemovalTimeout

    def hold():
        deployment = bench.platform.deployments[-1]
        deployment.remove = lambda: (_ for _ in ()).throw(RemovalTimeout("a finalizer holds it"))
        deployment.logs = lambda: (LogFile("app-0", bench.folder / "app-0.log", 7, 7),)

    bench.told.during_load = hold
    with pytest.raises(RemovalTimeout, match="a finalizer holds it"):
        bench.run(make_plan(("one",), blocks=1))
    assert bench.verdicts() == {"b01-one-a1": "valid/intact"}
    (record,) = bench.folder.glob("runs/*/run.json")
    (log,) = json.loads(record.read_text())["logs"]
    assert (log["instance"], log["bytes_written"]) == ("app-0", 7)
    assert not bench.platform.swept
    assert list(bench.folder.glob("intents/*.json"))
    bench.told.during_load = lambda: None
    outcome = bench.run(make_plan(("one",), blocks=1))
    assert (outcome.done, outcome.kept) == (0, 1)
    assert bench.platform.swept
    assert bench.left_behind() == []


def test_what_a_deployment_says_of_its_removal_is_an_event_of_the_run(bench):
    def take_time():
        said = SystemEvent(time.monotonic_ns(), "removal_slow", "", "3 of 4 objects are left")
        bench.platform.deployments[-1].removal_events = lambda: [said]

    bench.told.during_load = take_time
    bench.run(make_plan(("one",), blocks=1))
    (run,) = Results.open(bench.folder).runs("complete")
    told = [event for event in run.events().to_pylist() if event["kind"] == "removal_slow"]
    assert [event["message"] for event in told] == ["3 of 4 objects are left"]
    assert bench.verdicts() == {"b01-one-a1": "valid/intact"}, "that is no matter of the system"


def test_an_error_of_a_run_is_told_before_that_of_its_removal(bench):
    from towtank.errors import ReadinessTimeout, RemovalTimeout

    deploy = bench.platform.deploy

    def held(config, context):
        deployment = deploy(config, context)
        deployment.remove = lambda: (_ for _ in ()).throw(RemovalTimeout("a finalizer holds it"))
        return deployment

    bench.platform.deploy = held
    bench.platform.never_ready.add("one")
    with pytest.raises(ReadinessTimeout, match="was not ready") as caught:
        bench.run(make_plan(("one",), blocks=1))
    assert caught.value.__notes__ == ["while removing: a finalizer holds it"]
