"""The examples, driven for real: the engine plays each journey for a few seconds, and the server says what it got."""

from __future__ import annotations

import json
import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support import functions
from support.cli import towtank
from support.jobs import carried_out
from towtank.design import forecast, load_plan
from towtank.design.expected_cost import expected_costs
from towtank.load import JobRequest, build_job, check_job
from towtank.platforms.base import DeployContext
from towtank.platforms.registry import create
from towtank.store import trace_ids

EXAMPLES = Path(__file__).resolve().parents[2] / "studies" / "examples"
TOKEN = f"tt-examples-{os.getpid()}"
"""Other tests of this module may run at the same time."""
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/experiment.yaml"))


@dataclass
class Driven:
    """What came of an example: rows of the engine, and what each target's server saw."""

    rows: list[dict]
    seen: dict[str, dict[str, int]]
    wrong: dict[str, dict[str, int]]

    def outcomes(self, step=None):
        found = {}
        for row in self.rows:
            if step in (None, row["step"]):
                found[row["outcome"]] = found.get(row["outcome"], 0) + 1
        return found

    def count(self, step):
        return sum(row["step"] == step for row in self.rows)


def drive(name, folder, treatment=0, **overrides):
    """Deploy an example, drive its load with some values changed, and ask its servers."""
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    plan = load_plan(EXAMPLES / name, profile="smoke", overrides=changes)
    spec = plan.treatments[treatment].spec
    context = DeployContext("app", TOKEN, folder / "data", folder / "log", EXAMPLES / name)
    deployment = create(spec.deployment.platform).deploy(spec.deployment, context)
    try:
        deployment.wait_ready(cancelled=lambda: None)
        targets = deployment.targets
        job = build_job(
            JobRequest("example-a1", 7, folder / "requests", spec.driven, targets, spec.generator,
                       files=(EXAMPLES / name,))
        )  # fmt: skip
        assert check_job(job) == []
        carried_out(job, folder, TOKEN)
        said = {target: ask(one.instances[0].url) for target, one in targets.items()}
    finally:
        deployment.remove()
    rows = pq.read_table(folder / "requests.parquet").to_pylist()
    return Driven(rows, {t: s["seen"] for t, s in said.items()}, {t: s["wrong"] for t, s in said.items()})


def ask(url):
    with urllib.request.urlopen(f"{url}/_seen", timeout=5) as answer:
        return json.load(answer)


def test_every_example_is_told_of_and_tested():
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    assert all(f"({name}/experiment.yaml)" in readme for name in NAMES)
    tests = Path(__file__).read_text("utf-8")
    assert all(f'"{name}", tmp_path' in tests or f'"{name}",\n        tmp_path' in tests for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_treatment_is_a_good_job(name):
    """Also those that are not driven here: the engine understands each of them."""
    from towtank.cli.journey_check import checked_plan

    plan, unchecked = checked_plan(EXAMPLES / name / "experiment.yaml", profile=None, overrides={})
    assert plan == load_plan(EXAMPLES / name)
    assert unchecked is None


def test_the_shop(tmp_path):
    found = drive(
        "shop", tmp_path, workloads__visitors__journey__think="{uniform: [1ms, 10ms]}",
        workloads__visitors__load__users="8", workloads__visitors__load__duration="4s",
        workloads__visitors__load__spawn_per_s="100/s",
    )  # fmt: skip
    seen = found.seen["app"]
    assert found.wrong["app"] == {}, (
        "every form had its token, every visitor its session, every checkout a cart"
    )
    assert set(found.outcomes()) <= {"answered", "interrupted"}
    assert found.count("home") == 8, "once for each visitor"
    tasks = sum(
        found.count(step)
        for step in ("home-again", "currency", "product", "product-to-add", "cart", "add-before-checkout")
    )
    assert tasks > 100
    assert 0.38 < found.count("product") / tasks < 0.67, "10 of 19"
    assert seen["checkout"] == found.outcomes("checkout")["answered"]
    added = [row for row in found.rows if row["step"] == "add-to-cart" and row["outcome"] == "answered"]
    assert added
    assert {row["status"] for row in added} == {200}, "the redirect was followed to the cart"
    assert {row["redirects"] for row in added} == {1}


def test_the_signed_in_api(tmp_path):
    found = drive(
        "api", tmp_path, workloads__readers__load__users="4", workloads__readers__load__duration="3s"
    )
    seen = found.seen["app"]
    assert found.wrong["app"] == {}
    assert set(found.outcomes()) <= {"answered", "interrupted"}
    assert seen["login"] == 4 == found.count("sign-in"), "once for each user"
    assert {f"login of user-{n:02d}" for n in range(4)} <= set(seen), "each with an account of its own"
    assert seen["list"] == 4
    reads = found.outcomes("read")["answered"]
    assert seen["read"] == reads
    assert 16 <= reads <= 52, "four users, four times a second, three seconds"
    devices = [name for name in seen if name.startswith("device ")]
    assert len(devices) > reads * 0.8, "500 devices are seldom asked twice"


def test_the_file_service(tmp_path):
    found = drive("files", tmp_path, workloads__clerks__load__duration="3s")
    seen = found.seen["app"]
    assert found.wrong["app"] == {}
    assert set(found.outcomes()) <= {"answered", "interrupted"}
    assert seen["upload"] >= 3
    assert seen["delete"] == found.outcomes("delete")["answered"]
    uploads = [
        row["bytes_out"] for row in found.rows if row["step"] == "upload" and row["outcome"] == "answered"
    ]
    assert all(10**6 < size < 10**7 + 2000 for size in uploads)
    assert len(set(uploads)) > 1, "sizes are drawn"
    down = [
        row["bytes_in"] for row in found.rows if row["step"] == "download" and row["outcome"] == "answered"
    ]
    assert all(10**6 < size < 10**7 + 2000 for size in down)


@pytest.mark.alone  # a request that is late by a second meets an instance that has fallen asleep
def test_the_probe_for_cold_starts(tmp_path):
    """Each function is asked every half second and stays awake; with two seconds in between it never does."""
    awake = drive("cold_start", tmp_path / "awake", treatment=0)
    asleep = drive("cold_start", tmp_path / "asleep", treatment=1)
    for found in (awake, asleep):
        assert set(found.outcomes()) == {"answered"}
        assert all(wrong == {} for wrong in found.wrong.values()), "no connection was used twice"
        ordered = [row["target"] for row in found.rows]
        assert ordered[:6] == ["fn-a", "fn-b", "fn-c", "fn-a", "fn-b", "fn-c"]
        assert not any(row["reused"] for row in found.rows)
        told = {
            target: sum(row["cold"] for row in found.rows if row["target"] == target) for target in found.seen
        }
        assert told == {target: seen.get("cold", 0) for target, seen in found.seen.items()}
    assert all(row["cold"] for row in asleep.rows)
    assert sum(row["cold"] for row in awake.rows) == 3, "the first request of each"
    assert len(awake.rows) == 36
    assert len(asleep.rows) == 9
    cold = [row["ttfb_us"] for row in asleep.rows]
    assert min(cold) >= 50_000, "a start takes 50 ms"


def test_two_workloads_side_by_side(tmp_path):
    found = drive("side_by_side", tmp_path, treatment=1)
    assert found.wrong == {"window": {}, "batch": {}}
    by_workload = {
        name: [row for row in found.rows if row["workload"] == name] for name in ("window", "batch")
    }
    assert 130 <= len(by_workload["window"]) <= 270, "fifty a second for four seconds, by a Poisson process"
    assert len(by_workload["batch"]) > 20
    assert {row["target"] for row in by_workload["window"]} == {"window"}
    assert found.seen["batch"]["batch"] == sum(
        row["outcome"] == "answered" for row in by_workload["batch"]
    )  # fmt: skip


def test_the_sink_of_events(tmp_path):
    found = drive("events", tmp_path, generator__traceparent="50%")
    seen = found.seen["app"]
    assert found.wrong["app"] == {}, "every event was whole, and came once"
    assert set(found.outcomes()) == {"answered"}
    assert seen["binary"] == found.count("binary")
    assert seen["structured"] == found.count("structured")
    assert 0.1 < seen["structured"] / len(found.rows) < 0.4, "one of four"
    got = {name.removeprefix("traceparent ") for name in seen if name.startswith("traceparent ")}
    assert got == traced(tmp_path / "requests.parquet", "example-a1", 0.5), "the ids follow from the rows"
    assert 0.3 < len(got) / len(found.rows) < 0.7


def test_a_window_with_a_stock_behind_it(tmp_path):
    """The load of the example about faults; tests/integration/test_faults.py makes them."""
    found = drive("faults", tmp_path, workloads__visitors__load__duration="6s")
    assert found.wrong == {"window": {}, "stock": {}}
    assert set(found.outcomes()) == {"answered"}
    assert found.seen["stock"]["asked"] == found.seen["window"]["shown"] == len(found.rows) == 360


def test_pictures_that_are_paid_for(tmp_path):
    """The load of the example about cost, and what its plan says of prices."""
    found = drive("cost", tmp_path, treatment=1, workloads__visitors__load__duration="3s")
    assert found.wrong == {"pictures": {}}
    assert set(found.outcomes()) == {"answered"}
    assert {row["instance"] for row in found.rows} == {"pictures-0", "pictures-1"}, "whose time is paid"
    assert min(row["bytes_in"] for row in found.rows) >= 8192
    plan = load_plan(EXAMPLES / "cost", profile="smoke")
    machine, instances = (one.low for one in expected_costs(plan, forecast(plan)))
    # two runs of 6 s: a machine of 1,200 over four years that draws 25 W or more; 120 requests at 0.40 USD a million
    assert machine == pytest.approx(12 * (1200 / (1460 * 86_400) + 25 * 0.30 / 3.6e6))
    assert instances == pytest.approx(2 * 120 * 0.40e-6 * 0.92)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_function_in_six_languages(tmp_path):
    """Run for real, from file to answer: each run has one cold start, which is its instance's first request."""
    for runtime in functions.RUNTIMES.values():
        functions.build(runtime)
    found = run_whole("functions", tmp_path)
    assert {name.split("-")[1] for name in found} == set(functions.RUNTIMES)
    for name, rows in found.items():
        answered = [row for row in rows if row["outcome"] == "answered"]
        assert len(answered) > 30, name
        assert {row["instance"] for row in answered} == {"app-0"}
        assert [row["cold"] for row in answered].count(True) == 1, name


def run_whole(name, folder):
    """Carry an example out with `towtank run`; return the requests of each run."""
    done = towtank(
        "run", EXAMPLES / name, "--profile", "smoke", "--results", folder / name, "--plain", "--no-report",
        "--set", "max_invalid_repeats=0", timeout=600,
    )  # fmt: skip
    assert done.returncode in (0, 6), done.stderr  # 6: on a busy machine runs may be invalid, and it says so
    paths = (folder / name / "runs").glob("*/requests.parquet")
    return {path.parent.name: pq.read_table(path).to_pylist() for path in paths}


def traced(path, run_id, share):
    """Headers of the requests of a run that carried one, recomputed from its rows."""
    import pyarrow as pa

    table = pq.read_table(path)
    columns = {name: table.column(name) for name in trace_ids.COLUMNS if name != "run_id"}
    columns["run_id"] = pa.array([run_id] * table.num_rows)
    ids = zip(
        trace_ids.draws(columns).tolist(),
        trace_ids.trace_ids(columns).to_pylist(),
        trace_ids.parent_ids(columns).to_pylist(),
        strict=True,
    )
    return {f"00-{trace}-{parent}-01" for draw, trace, parent in ids if draw < share}
