"""`towtank capacity` for real: a service of known capacity is searched, and other experiments live by what was found.

The service takes 20 ms for each request, one after the other: an instance carries 50 a second, whatever else the
machine does. With a bound of 100 ms on p95, loads of 2 s fail within a rung above it.
"""

from __future__ import annotations

import json
import shutil
import time

import pytest

from support import small_study as study
from support.repeated import ATTEMPTS, PAUSE_S
from towtank.analysis import analyse
from towtank.design.capacity_file import read_capacities
from towtank.errors import ExitCode
from towtank.store import Results

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(600)]
PER_INSTANCE = 50
SEARCH = ("--at-least", 25, "--at-most", 160, "--step", "15%", "--confirmations", 2, "--plain")
COMMON = """\
deployments:
  app:
    platform: local
    command: ["{{python}}", -S, {app}, --port, "{{port}}"]
    ready: {{http: /health, timeout: 20s}}
    replicas: {replicas}
reset: none
settle: {{timeout: 30s, hold: 100ms}}
observe: [{{host: {{interval: 100ms}}}}, {{process: {{interval: 100ms}}}}]
generator: {{nice: 0, spread: per-request-round-robin}}
slo: {{p95: 100ms, goodput: 99%}}
"""
WORK = "{steps: [{name: work, path: '/work?20'}]}"


def write(folder, head, replicas, load, *, faults=""):
    """Write an experiment over the service."""
    folder.mkdir(parents=True, exist_ok=True)
    common = COMMON.format(app=study.HTTP_APP, replicas=replicas)
    workloads = f"workloads: {{reads: {{timeout: 5s, load: {load}, journey: {WORK}}}}}\n"
    (folder / "experiment.yaml").write_text(head + common + workloads + faults, encoding="utf-8")
    return folder / "experiment.yaml"


def until_valid(*words):
    """Run a command, again where another load on the machine spoiled its runs: it goes on where it stopped."""
    for attempt in range(ATTEMPTS):
        done = study.towtank(*words, timeout=500)
        if done.returncode != ExitCode.INVALID_RUNS or attempt == ATTEMPTS - 1:
            break
        time.sleep(PAUSE_S)
    return done


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Search the service with one instance and with two."""
    folder = tmp_path_factory.mktemp("capacity") / "search"
    head = "experiment: work\nquestion: How much?\nseed: 3\nfactors: {replicas: [1, 2]}\nmax_invalid_repeats: 4\n"
    file = write(folder, head, '"${{ replicas }}"', "{model: open, rate: 40/s, duration: 2s}")
    done = until_valid("capacity", file, *SEARCH)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_the_capacity_is_the_one_that_the_service_has(searched):
    folder, said = searched
    one, two = read_capacities(folder / "results" / "work-capacity").capacities
    for found, instances in ((one, 1), (two, 2)):
        assert (found.end, found.levels) == ("found", {"replicas": instances})
        # a rung of tolerance below: what a busy machine takes away is not the service's
        assert found.holds <= 1.1 * PER_INSTANCE * instances
        assert found.fails >= 0.8 * PER_INSTANCE * instances
        assert found.why.get("p95") == 2
    assert f"holds at {one.holds:g}, fails at {one.fails:g}" in said
    assert "times what" in said


def test_its_report_opens_with_the_load_line(searched):
    folder, _ = searched
    done = study.towtank("report", folder / "results" / "work-capacity", "--quiet")
    assert done.returncode == 0, done.stderr
    page = (folder / "results" / "work-capacity" / "report" / "report.html").read_text("utf-8")
    assert "arrivals/s (holds at" in page


def test_the_same_command_has_nothing_left_to_do(searched):
    folder, said = searched
    before = len(list((folder / "results" / "work-capacity" / "runs").iterdir()))
    done = study.towtank("capacity", folder / "experiment.yaml", *SEARCH)
    assert done.returncode == 0, done.stderr
    assert len(list((folder / "results" / "work-capacity" / "runs").iterdir())) == before
    assert said.splitlines()[-1] in done.stdout


@pytest.fixture
def beside(searched, tmp_path):
    """A folder of another experiment, with the capacities beside it."""
    folder = tmp_path / "later"
    folder.mkdir()
    shutil.copy(searched[0] / "results" / "work-capacity" / "capacity.json", folder / "found.json")
    return folder


@pytest.mark.parametrize(("share", "holds"), [(0.9, True), (1.4, False)])
def test_a_fixed_rate_confirms_it(beside, share, holds):
    head = (
        "experiment: fixed\nquestion: Does it hold?\nseed: 4\nrepetitions: 1\nmax_invalid_repeats: 4\n"
        "capacity: found.json\nfactors: {replicas: [1, 2]}\n"
    )
    load = f'{{model: open, rate: "${{{{ {share} * capacity }}}}", duration: 3s}}'
    done = until_valid("run", write(beside, head, '"${{ replicas }}"', load), "--plain", "--no-report")
    assert done.returncode == (0 if holds else 5), done.stdout + done.stderr
    plan = json.loads((beside / "results" / "fixed" / "plan.json").read_text())
    found = {one.levels["replicas"]: one.holds for one in read_capacities(beside / "found.json").capacities}
    for treatment in plan["treatments"]:
        load = treatment["spec"]["workload"]["load"]
        assert load["rate"] == pytest.approx(share * found[treatment["levels"]["replicas"]])
    assert "found.json" in plan["files"], "a result says where its loads came from"


def test_supply_is_judged_by_the_demand_that_was_calibrated(beside):
    """Two instances, one of them dead for a while; the load asks for one, then for two, then for one."""
    head = (
        "experiment: supply\nquestion: Enough?\nseed: 5\nrepetitions: 1\nmax_invalid_repeats: 4\n"
        "demand: {calibration: found.json}\n"
    )
    one, two = (found.holds for found in read_capacities(beside / "found.json").capacities)
    low, high = round(one / 2), round((one + two) / 2)
    stages = ", ".join(f"{{rate: {rate}, hold: {hold}s}}" for rate, hold in ((low, 3), (high, 4), (low, 3)))
    faults = "faults: [{kind: kill, at: 4s, for: 2s}]\n"
    file = write(beside, head, "2", f"{{model: open, stages: [{stages}]}}", faults=faults)
    done = until_valid("run", file, "--plain", "--no-report")
    assert done.returncode in (0, 5), done.stdout + done.stderr
    found = analyse(Results.open(beside / "results" / "supply")).elasticity.set_index("metric")["value"]
    assert found["timeshare_over"] == pytest.approx(0.6, abs=0.01)
    assert found["timeshare_under"] == pytest.approx(0.2, abs=0.1)
    assert found["accuracy_under"] == pytest.approx(found["timeshare_under"])
