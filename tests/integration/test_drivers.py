"""Experiments whose load another tool drives: a stand-in that can misbehave, and k6 and Locust where they are."""

import json
import signal
import sys
import time
from pathlib import Path

import pytest

from support import cli, small_study
from support.peers import found_or_skipped
from towtank.store import Results

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
EXPERIMENT = """
experiment: doors
question: What does the script see?
repetitions: 1
max_invalid_repeats: 0
deployments:
  app:
    platform: local
    command: [{python}, {app}, --port, "{{port}}"]
workloads:
  shop:
    {{driver: {driver}, script: {script}, duration: {duration}, warmup: 200ms, timeout: 5s, program: {program}{more}}}
"""


def study(folder, *, driver="k6", program=None, duration="2s", script="shop.js", text="// k6\n", more=""):
    program = program or SUPPORT / "fake_k6.py"
    folder.mkdir(exist_ok=True)
    (folder / script).write_text(text)
    filled = EXPERIMENT.format(
        python=sys.executable, app=SUPPORT / "http_app.py", driver=driver, program=program, script=script,
        duration=duration, more=more,
    )  # fmt: skip
    (folder / "experiment.yaml").write_text(filled)
    return folder / "experiment.yaml"


def towtank(*arguments, how="ok"):
    return cli.towtank(*arguments, timeout=100, FAKE_K6=how)


def only_run(experiment, *, complete=True):
    results = Results.open(experiment.parent / "results" / "doors")
    (run,) = results.runs("complete" if complete else "all")
    return run


@pytest.fixture(scope="module", autouse=True)
def executable():
    (SUPPORT / "fake_k6.py").chmod(0o755)


def test_requests_of_the_script_are_kept_like_all_others(tmp_path):
    experiment = study(tmp_path / "s", more=", env: {SHOP: x}")
    done = towtank("run", experiment, "--plain")
    assert done.returncode in (0, 6), done.stderr
    run = only_run(experiment)
    facts = run.record.engine["driver"]
    assert facts["version"] == "k6 v0.0.0 (fake)"
    assert facts["exit_code"] == 0
    assert facts["clock"]["uncertainty_us"] < 50_000
    table = run.requests().to_table().to_pylist()
    assert len(table) == facts["requests"] > 10
    assert {row["workload"] for row in table} == {"shop"}
    assert {row["step"] for row in table} == {"GET /"}
    assert all(row["lag_us"] is None and row["outcome"] == "answered" for row in table)
    assert table[0]["scheduled_us"] == 0, "the run begins with the first request"
    assert run.record.window.start_us == 200_000
    assert run.record.load_model == "foreign"
    assert "lag_unknown" in {
        event["kind"] for event in run.events().to_pylist() if event["source"] == "driver"
    }
    assert not (run.path / "driver").exists(), "what was read into the store is not kept twice"
    assert not list((experiment.parent / "results" / "doors" / "intents").iterdir())
    report = towtank("report", experiment, "--markdown")
    assert "whether it sent late cannot be told" in report.stdout.replace("\n", " ")
    assert (experiment.parent / "results" / "doors" / "files" / "shop.js").exists()


def test_the_times_of_the_tool_are_on_the_clock_of_the_run(tmp_path):
    """Between the start of the process and its end, as Towtank saw them, lie all requests."""
    experiment = study(tmp_path / "s")
    assert towtank("run", experiment, "--plain").returncode in (0, 6)
    record = only_run(experiment).record
    drive_us = record.timings_s["drive"] * 1e6
    assert 0 < record.window.drained_us < drive_us


def test_a_tool_that_failed_spoils_its_run(tmp_path):
    experiment = study(tmp_path / "s")
    done = towtank("run", experiment, "--plain", how="fails")
    record = only_run(experiment).record
    assert "driver_failed" in {r.name for r in record.verdicts.instrument_reasons}, done.stderr
    assert record.verdicts.instrument == "invalid"
    assert done.returncode == 6


def test_the_cpu_of_the_tool_is_measured(tmp_path):
    """How much of a core it gets on a busy machine is not this test's business; that it uses one is."""
    experiment = study(tmp_path / "s")
    experiment.write_text(experiment.read_text() + "generator: {cpus: [0]}\n")
    towtank("run", experiment, "--plain", how="busy")
    facts = only_run(experiment).record.engine["driver"]
    assert facts["cores"] == 1
    assert 0.1 < facts["cpu_cores_max_1s"] < 1.2
    assert facts["cpu_s"] > 0.1


def test_crossed_thresholds_and_an_early_end_are_results(tmp_path):
    experiment = study(tmp_path / "s")
    towtank("run", experiment, "--plain", how="thresholds")
    names = {r.name for r in only_run(experiment).record.verdicts.instrument_reasons}
    assert "driver_failed" not in names
    early = study(tmp_path / "t", duration="20s")
    towtank("run", early, "--plain", how="early")
    kinds = {event["kind"] for event in only_run(early).events().to_pylist()}
    assert "load_ended_early" in kinds


@pytest.mark.parametrize(("how", "words"), [("script", "shop is not defined"), ("cut", "cut off")])
def test_a_script_without_a_load_ends_the_experiment_with_its_words(tmp_path, how, words):
    experiment = study(tmp_path / "s")
    done = towtank("run", experiment, "--plain", how=how)
    assert done.returncode == 4
    assert words in done.stderr
    assert "\x1b" not in done.stderr, "a script does not write on our user's terminal"
    assert "k6.log" in done.stderr
    assert only_run(experiment, complete=False).record.state == "running"


def test_a_missing_program_is_said_before_anything_starts(tmp_path):
    experiment = study(tmp_path / "s", program="no-such-k6")
    done = towtank("run", experiment, "--plain")
    assert done.returncode == 4
    assert "'no-such-k6' is not there" in done.stderr
    assert "go install" in done.stderr


def test_a_tool_that_does_not_end_is_ended(tmp_path, monkeypatch):
    """With its own bound shortened, through the same code that a campaign uses."""
    from towtank.campaign import driving
    from towtank.design import load_plan
    from towtank.errors import DriverError
    from towtank.load.binary import find_engine
    from towtank.platforms.base import Instance, Target

    monkeypatch.setattr(driving, "START_ALLOWANCE_S", -5.5)
    monkeypatch.setattr(driving, "STOP_GRACE_S", 0.5)
    monkeypatch.setenv("FAKE_K6", "hangs")
    experiment = study(tmp_path / "s", duration="2s")
    (treatment,) = load_plan(experiment).treatments
    drive = driving.ForeignDrive(
        treatment.spec.workload, "shop", targets={"app": Target("app", (Instance("a", "http://127.0.0.1:9"),))},
        root=experiment.parent, run=tmp_path / "run", logs=tmp_path, generator=treatment.spec.generator,
    )  # fmt: skip
    drive.run(find_engine(), "tt-0123456789abcdef", cancelled=lambda: None)
    assert gone([int(pid) for pid in (experiment.parent / "hanging").read_text().split()])
    with pytest.raises(DriverError, match="did not end within 2 s"):
        drive.collect(tmp_path / "run" / "requests.parquet")


def hanging(experiment, process):
    """Pids of the stand-in and its child, once they hang."""
    mark = experiment.parent / "hanging"
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        if mark.exists() and len(mark.read_text().split()) == 2:
            return [int(pid) for pid in mark.read_text().split()]
        time.sleep(0.05)
    raise AssertionError(process.communicate())


def gone(pids, within_s=15.0):
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if not any(
            Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
            for pid in pids
        ):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("order", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_of_the_tool_outlives_towtank(tmp_path, order):
    experiment = study(tmp_path / "s", duration="300s")
    process = small_study.start("run", experiment, "--plain", FAKE_K6="hangs")
    pids = hanging(experiment, process)
    assert not gone(pids, within_s=0.2)
    process.send_signal(order)
    assert gone(pids)
    process.communicate(timeout=60)


PROBLEMS = [
    ("shop: {driver: jmeter, script: shop.js, duration: 1s}", "there is no driver 'jmeter'; allowed are"),
    ("shop: {driver: k6, script: none.js, duration: 1s}", "none.js"),
    ("shop: {driver: k6, script: ../shop.js, duration: 1s}", "../shop.js"),
    ("shop: {driver: k6, script: shop.js}", "duration"),
    ("shop: {driver: k6, script: shop.js, duration: 1s, warmup: 2s}", "leaves nothing"),
    ("shop: {driver: k6, script: shop.js, duration: 1s, journey: {steps: []}}", "journey"),
    ("shop: {driver: k6, script: shop.js, duration: 1s, vus: 3}", "vus"),
    ("shop: {driver: locust, script: shop.js, duration: 1s, args: [--processes, 2]}", "--processes"),
]


@pytest.mark.parametrize(("workload", "words"), PROBLEMS)
def test_problems_of_the_file_have_their_place(tmp_path, workload, words):
    experiment = study(tmp_path / "s")
    text = experiment.read_text()
    experiment.write_text(text[: text.index("  shop:")] + f"  {workload}\n")
    done = towtank("plan", experiment)
    assert done.returncode == 3, done.stdout
    assert words in done.stderr
    assert "experiment.yaml:" in done.stderr


def test_levels_of_factors_reach_the_tool(tmp_path):
    experiment = study(tmp_path / "s", more=', users: "${{ users }}"')
    experiment.write_text(experiment.read_text() + "factors: {users: [2, 5]}\n")
    done = towtank("plan", experiment, "--json")
    assert done.returncode == 0, done.stderr
    assert '"users": 2' in done.stdout
    assert '"users": 5' in done.stdout
    shown = towtank("plan", experiment)
    assert shown.returncode == 0, shown.stderr
    assert "as k6 makes it" in shown.stdout


# --- the real tools, where they are ------------------------------------------------------------------------

K6 = """
import http from 'k6/http';
export default function () { http.get(`${__ENV.TOWTANK_URL}/`); http.get(`${__ENV.TOWTANK_URL_APP}/none`); }
"""
LOCUST = """
from locust import FastHttpUser, constant, task
class Shop(FastHttpUser):
    wait_time = constant(0.02)
    @task
    def root(self): self.client.get("/")
    @task
    def none(self): self.client.get("/none", name="nowhere")
"""


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(
    ("tool", "script", "text", "step"),
    [("k6", "shop.js", K6, "GET /none"), ("locust", "shop.py", LOCUST, "GET nowhere")],
)
def test_the_real_tool(tmp_path, tool, script, text, step):
    experiment = study(
        tmp_path / "s",
        driver=tool,
        program=found_or_skipped(tool),
        duration="3s",
        script=script,
        text=text,
        more=", users: 2",
    )
    done = towtank("run", experiment, "--plain")
    run = only_run(experiment)
    assert done.returncode in (0, 6), done.stderr
    facts = run.record.engine["driver"]
    assert facts["tool"] in facts["version"]
    assert facts["cpu_s"] > 0
    rows = run.requests().to_table(columns=["step", "outcome", "status", "scheduled_us"]).to_pylist()
    assert len(rows) > 20
    assert {row["outcome"] for row in rows if row["step"] == "GET /"} == {"answered"}
    assert {row["outcome"] for row in rows if row["step"] == step} == {"check:status"}
    assert {row["status"] for row in rows if row["step"] == step} == {404}
    assert run.record.window.drained_us == pytest.approx(3.5e6, rel=0.35)
    assert json.loads((run.path / "run.json").read_text())["verdicts"]["instrument"]


def test_a_plan_warns_of_a_missing_driver_and_is_made(monkeypatch):
    from types import SimpleNamespace

    from towtank.cli import programs
    from towtank.design.foreign import ForeignWorkload
    from towtank.drivers import registry

    class Missing:
        def check(self, _config, _root):
            return ["the program 'k6' is not there: install it"]

    monkeypatch.setattr(registry, "create", lambda _: Missing())
    workload = ForeignWorkload.model_construct(driver="k6", config=None)
    spec = SimpleNamespace(workloads={"shop": workload})
    made = SimpleNamespace(treatments=[SimpleNamespace(spec=spec)] * 2)
    (said,) = dict.fromkeys(programs.missing_drivers(Path("experiment.yaml"), made))
    assert "'k6' is not there" in said
