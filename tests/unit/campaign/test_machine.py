"""What the machine does, who does it, and where it is an environment of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import small_study
from support.campaign_bench import make_plan
from towtank.campaign import application, environment, evidence, machine, processes
from towtank.campaign.evidence import Outcomes
from towtank.campaign.settle import settle
from towtank.campaign.stopping import StopRequest
from towtank.campaign.validity import judge
from towtank.design.model import Settle, Workload
from towtank.errors import Interrupted
from towtank.load.binary import EngineBuild
from towtank.load.events import Done, Ready
from towtank.platforms.base import Instance, SystemEvent, Target
from towtank.platforms.local_config import LocalConfig
from towtank.store.run_record import Window

BURN = "import time\nwhile time.process_time() < {s}: pass"
"""Uses this much CPU, however long a busy machine takes to give it."""


def moment(seconds, **counters):
    known = {
        "busy_s": 0.0,
        "steal_s": 0.0,
        "own_s": 0.0,
        "tree_s": 0.0,
        "wall_offset_ns": 0,
        "boot_offset_ns": 0,
    }
    return machine.Moment(round(seconds * 1e9), **{**known, **counters})


def test_shares_are_of_the_whole_machine(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    later = moment(
        2, busy_s=6.0, steal_s=0.4, own_s=1.0, tree_s=3.0, wall_offset_ns=5_000, boot_offset_ns=7_000
    )
    found = machine.between(moment(0), later)
    assert (found.busy_ratio, found.own_ratio, found.deployment_ratio) == (0.75, 0.125, 0.25)
    assert found.foreign_ratio == pytest.approx(3 / 8)
    assert found.steal_ratio == pytest.approx(0.05)
    assert found.without_own_ratio == pytest.approx(5 / 8)
    assert (found.wall_step_us, found.suspended_us) == (5, 7)


def test_work_of_a_child_is_ours_even_after_it_has_ended():
    before = machine.now()
    subprocess.run([sys.executable, "-S", "-c", BURN.format(s=0.4)], check=True)
    used = machine.now().tree_s - before.tree_s
    assert used >= 0.35


def test_the_tree_has_all_descendants_and_nobody_else():
    with subprocess.Popen(["/bin/sh", "-c", "sleep 30 & wait"], start_new_session=True) as child:
        try:
            small_study.wait_until(lambda: of_child(child.pid), what="a grandchild")
            pids = {stat.pid for stat in processes.tree(os.getpid(), processes.all_stats())}
            assert {child.pid, *of_child(child.pid)} <= pids
            assert 1 not in pids
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def of_child(pid):
    return [stat.pid for stat in processes.all_stats() if stat.parent == pid]


def test_settling_waits_for_the_cpu_to_hold(monkeypatch):
    monkeypatch.setattr("towtank.campaign.settle.SHORTEST_LOOK_S", 0.001)
    busy = iter([0.0, 9.0, 18.0, 18.0, 18.0, 18.0, 18.0, 18.0])
    clock = iter(range(100))
    monkeypatch.setattr(machine, "now", lambda: moment(next(clock), busy_s=next(busy)))
    rule = Settle.model_validate({"timeout": "60s", "until": {"cpu_below": "20%"}, "hold": "1ms"})
    settled = settle(rule, {}, StopRequest())
    assert settled.reached
    assert settled.baseline.busy_ratio == 0


def test_not_settling_says_what_it_saw(monkeypatch):
    monkeypatch.setattr("towtank.campaign.settle.SHORTEST_LOOK_S", 0.001)
    clock = iter(range(10_000))
    busy = iter(float(n) * (os.cpu_count() or 1) for n in range(10_000))
    monkeypatch.setattr(machine, "now", lambda: moment(next(clock), busy_s=next(busy)))
    rule = Settle.model_validate({"timeout": "20ms", "until": {"cpu_below": "20%"}})
    settled = settle(rule, {}, StopRequest())
    assert not settled.reached
    assert "CPU is at 100 %, wanted below 20 %" in settled.problem


def test_replicas_must_be_those_that_were_deployed():
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    targets = {"app": Target("app", (Instance("app-0", "http://127.0.0.1:1", ended.pid, 1),))}
    rule = Settle.model_validate({"timeout": "1ms", "until": {"replicas": "baseline"}})
    assert "app-0 not running" in settle(rule, targets, StopRequest()).problem


def test_settling_can_be_stopped():
    stop = StopRequest()
    stop.ask()
    with pytest.raises(Interrupted):
        settle(Settle(), {}, stop)


# --- evidence --------------------------------------------------------------------------------------------


def observed(observations):
    return {o.name: o.value for o in observations}


def done(**changes):
    counts = {"due": 100, "rows": 100, **changes.pop("counts", {})}
    own = {"lag_p99_us": 40, "run_queue_wait_ratio": 0.01, "cpu_cores_max_1s": [0.2, 0.4]}
    return Done(counts, {}, {**own, **changes}, [{"rows": 100}], "schedule")


READY = Ready("0.1", {"profile": "release"}, "epoll", 1, 1, 100)


@pytest.mark.parametrize(("ratio", "verdict"), [(0, "valid"), (0.002, "suspect"), (0.4, "invalid")])
def test_an_engine_that_stood_still_is_no_good_instrument(ratio, verdict):
    judged = judge(evidence.of_engine(done(stalled_ratio=ratio), [], READY))
    assert judged.instrument == verdict
    assert [r.name for r in judged.instrument_reasons] == ["engine_stalled"] * (verdict != "valid")


def test_a_good_engine_is_valid():
    found = observed(evidence.of_engine(done(), [], READY))
    assert found["engine_late"] == 0.04
    assert found["engine_cpu_bound"] == 0.4
    assert found["records_lost"] == 0


ONE = [{"name": "a"}]
TWO = [{"name": "a"}, {"name": "b"}]
MAYBE = [{"if": {"condition": "{{ iteration > 0 }}", "steps": ONE}}]
OPEN = {"model": "open", "rate": "100/s", "duration": "1s"}
CLOSED = {"model": "closed", "users": 2, "duration": "1s"}


def workload(steps, load=OPEN):
    return Workload.model_validate({"load": load, "journey": {"steps": steps}})


def records(path, *pairs):
    columns = {
        "workload": pa.array([name for name, _ in pairs]),
        "user": pa.array([user for _, user in pairs], pa.int32()),
    }
    pq.write_table(pa.table(columns), path)
    return path


def missing(tmp_path, driven, pairs, **counts):
    counts = {"due": 100, "rows": len(pairs), **counts}
    path = records(tmp_path / "requests.parquet", *pairs)
    return observed(evidence.of_arrivals(done(counts=counts), driven, path)).get("arrivals_unaccounted")


@pytest.mark.parametrize(("rows", "found"), [(99, 1), (100, 0), (101, 1)])
def test_every_arrival_of_one_step_has_one_row(tmp_path, rows, found):
    assert missing(tmp_path, [workload(ONE)], [("w", user) for user in range(rows)]) == found


def test_rows_of_several_steps_do_not_hide_an_arrival_without_one(tmp_path):
    two_each = [("w", user) for user in range(100) for _ in TWO]
    assert missing(tmp_path, [workload(TWO)], two_each) == 0
    assert missing(tmp_path, [workload(TWO)], two_each[2:]) == 1  # 198 rows of 99 arrivals
    assert missing(tmp_path, [workload(TWO)], two_each[6:], sessions_cut=2) == 1
    assert missing(tmp_path, [workload(TWO)], [*two_each, ("w", 200)]) == 1  # nobody was due there


def test_arrivals_of_workloads_side_by_side_are_counted_apart(tmp_path):
    both = [(name, user) for name in ("v", "w") for user in range(50) for _ in TWO]
    driven = [workload(TWO), workload(TWO)]
    assert missing(tmp_path, driven, both) == 0
    assert missing(tmp_path, driven, both[:-2]) == 1


def test_a_closed_load_has_a_row_for_an_iteration_at_least(tmp_path):
    rows = [("w", 0)] * 99
    assert missing(tmp_path, [workload(TWO, CLOSED)], rows) == 1
    assert missing(tmp_path, [workload(TWO, CLOSED)], rows * 2) == 0


def test_an_arrival_that_may_lead_to_no_request_may_have_no_row(tmp_path):
    assert missing(tmp_path, [workload(MAYBE)], [("w", 1)]) is None


def test_findings_of_the_engine_count():
    findings = [
        {"name": "out_of_ports", "message": "no port"},
        {"name": "record_write_failed", "message": "full"},
    ]
    found = observed(evidence.of_engine(done(), findings, READY))
    assert found["engine_out_of_resources"] == 1


def test_foreign_load_is_only_known_when_it_can_be_told_apart():
    interval = machine.between(moment(0), moment(1, busy_s=1.0))
    ours = Target("a", (Instance("a-0", "http://127.0.0.1:1", 1, 1),))
    away = Target("a", (Instance("a-0", "http://192.0.2.1:1"),))
    strange = Target("a", (Instance("a-0", "http://localhost:1"),))
    for target, known in ((ours, True), (away, True), (strange, False)):
        found = observed(evidence.of_machine(interval, interval, [target]))
        assert ("foreign_load" in found) is ("busy_before" in found) is known
        assert ("busy_before_untold" in found) is not known


def test_a_busy_machine_beside_a_server_that_we_did_not_start_is_suspect_and_no_more():
    strange = Target("a", (Instance("a-0", "http://localhost:1"),))
    cores = os.cpu_count() or 1
    idle, busy = (machine.between(moment(0), moment(1, busy_s=share * cores)) for share in (0.1, 0.9))
    assert judge(evidence.of_machine(idle, busy, [strange])).instrument == "valid"
    verdicts = judge(evidence.of_machine(busy, busy, [strange]))
    assert verdicts.instrument == "suspect"
    assert "90 % of the machine was in use before the load" in verdicts.instrument_reasons[0].message


def test_the_share_of_lost_instances_decides():
    targets = {
        "a": Target("a", (Instance("a-0", "u"), Instance("a-1", "u"))),
        "b": Target("b", (Instance("b-0", "u"),)),
    }
    one = [SystemEvent(1, "crashed", "a-0", "signal 11")]
    assert observed(evidence.of_system(one, targets, Outcomes()))["crashed"] == 0.5
    both = [*one, SystemEvent(2, "crashed", "a-1", "signal 11")]
    assert observed(evidence.of_system(both, targets, Outcomes()))["crashed"] == 1.0
    assert (
        observed(evidence.of_system([SystemEvent(1, "crashed", "b-0", "")], targets, Outcomes()))["crashed"]
        == 1.0
    )


def test_the_longest_unobserved_source_counts():
    window = Window(start_us=0, end_us=1_000_000, drained_us=1_000_000)
    found = observed(evidence.of_telemetry({"host": 100_000, "process": 300_000}, ["host"], window))
    assert found == {"telemetry_gap": 0.3, "telemetry_failed": 1}


def test_nobody_answered():
    outcomes = Outcomes(due=10, sent=10)
    assert observed(evidence.of_system([], {}, outcomes)) == {
        "goodput_low": 0,
        "server_errors": 0,
        "never_answered": 1,
    }


@pytest.mark.parametrize(
    ("finding", "reason"),
    [
        ("template_failed", "template_failed"),
        ("out_of_connections", "engine_out_of_resources"),
        ("out_of_descriptors", "engine_out_of_resources"),
        ("out_of_ports", "engine_out_of_resources"),
    ],
)
def test_requests_that_the_engine_could_not_send_are_its_own_fault(finding, reason):
    done = Done({"due": 1, "rows": 1}, {}, {}, [{"rows": 1}], "schedule")
    ready = Ready("0", {"profile": "release"}, "fake", 1, 1, 1)
    seen = list(evidence.of_engine(done, [{"name": finding, "message": "so"}], ready))
    assert next(o.detail for o in seen if o.name == reason) == "so"
    assert judge(seen).instrument == "invalid"


def test_requests_for_want_of_an_earlier_answer_are_the_systems_failure(tmp_path):
    done = Done({"due": 4, "rows": 4}, {}, {}, [{"rows": 4}], "schedule")
    ready = Ready("0", {"profile": "release"}, "fake", 1, 1, 1)
    rows = {
        "scheduled_us": pa.array([1, 2, 3, 4], pa.int64()),
        "outcome": ["answered", "answered", "check:status", "capture_missing"],
        "status": pa.array([200, 200, 404, None], pa.int32()),
    }
    pq.write_table(pa.table(rows), tmp_path / "r.parquet")
    outcomes = evidence.read_outcomes(tmp_path / "r.parquet", Window(start_us=0, end_us=9, drained_us=9))
    assert (outcomes.due, outcomes.sent, outcomes.answered_as_expected) == (4, 3, 2)
    said = [{"name": "capture_missing", "message": "token: no capture has set it"}]
    seen = [*evidence.of_engine(done, said, ready), *evidence.of_system([], {}, outcomes)]
    verdicts = judge(seen)
    assert (verdicts.instrument, verdicts.system) == ("valid", "degraded")
    assert [reason.name for reason in verdicts.system_reasons] == ["goodput_low"]


# --- environment -----------------------------------------------------------------------------------------


def build(version="0.1.0"):
    return EngineBuild(__import__("pathlib").Path("/e"), version, "release", f"towtank-engine {version}")


def test_the_environment_tells_engines_apart_but_not_boots():
    one, other = environment.capture(build()), environment.capture(build("0.2.0"))
    assert one["digest"] == environment.capture(build())["digest"]
    assert one["digest"] != other["digest"]
    assert environment.digest({**one, "boot_id": "another"}) == one["digest"]
    assert "engine.version: 0.1.0 → 0.2.0" in environment.difference(one, other)
    assert environment.difference(one, {**one, "boot_id": "another"}) == []


def application_plan(command, cwd="."):
    """A plan of one local deployment, whose experiment file is experiment.yaml."""
    config = LocalConfig.model_validate({"platform": "local", "command": command, "cwd": cwd})
    plan = make_plan(("one",))
    treatment = plan.treatments[0]
    spec = treatment.spec.model_copy(update={"deployment": config})
    return type(plan)(plan.experiment, (type(treatment)("one", 0, {}, spec),), (), "d", plan.files)


@pytest.fixture
def study(tmp_path):
    """A study with a server of two files in a folder, and one beside the experiment file."""
    root, app = tmp_path / "study", tmp_path / "app"
    for folder in (root, app):
        (folder / "package").mkdir(parents=True)
        (folder / "main.py").write_text("import package.module")
        (folder / "package" / "module.py").write_text("answer = 1")
    (root / "experiment.yaml").write_text("experiment: trial")
    return root


@pytest.mark.parametrize(
    ("command", "cwd", "where"),
    [
        ("python main.py", ".", "."),  # the default: the experiment's own folder
        ("python -m main", ".", "."),
        ("python main.py", "../app", "../app"),
        ("python ../app/main.py", ".", "../app"),
        ("python {root}/../app/main.py", ".", "../app"),
        ("python {root}/main.py", "../app", "."),
    ],
)
def test_a_changed_application_is_another_environment(study, command, cwd, where):
    plan = application_plan(command, cwd)
    first = application.fingerprints(plan, study).applications
    assert set(first) == {"one"}
    code = study / where
    for noise in (
        "__pycache__/main.txt",
        "results/x/plan.json",
        ".git/HEAD",
        "package/module.pyc",
        ".hidden",
    ):
        (code / noise).parent.mkdir(parents=True, exist_ok=True)
        (code / noise).write_text("no change")
    assert application.fingerprints(plan, study).applications == first
    (code / "package" / "module.py").write_text("answer = 2")
    assert application.fingerprints(plan, study).applications != first, "a module that the server imports"


def test_what_a_server_writes_beside_itself_is_not_its_code(study):
    plan = application_plan("python main.py")
    first = application.fingerprints(plan, study).applications
    for name in ("access.log", "shop.db", "shop.db-wal", "server.pid", "notes.md"):
        (study / name).write_text("written while it ran")
    assert application.fingerprints(plan, study).applications == first


def test_results_and_the_experiments_own_files_are_no_application(study):
    plan = application_plan("python main.py")
    first = application.fingerprints(plan, study, study / "measured").applications
    (study / "experiment.yaml").write_text("experiment: trial # compared as the plan")
    for name, file in (("measured", "lock"), ("measured.2020", "plan.json")):
        (study / name).mkdir()
        (study / name / file).write_text("{}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(study / "app.sock"))
        assert application.fingerprints(plan, study, study / "measured").applications == first


def test_a_fingerprint_says_what_it_leaves_out(study, monkeypatch):
    plan = application_plan("python main.py")
    monkeypatch.setattr(application, "MOST_BYTES", 100)
    (study / "large.bin").write_bytes(b"1" * 200)
    first = application.fingerprints(plan, study).applications["one"]
    assert first.endswith("(study: 1 large files by size only)")
    (study / "large.bin").write_bytes(b"2" * 200)
    assert application.fingerprints(plan, study).applications["one"] == first
    (study / "package" / "module.py").write_text("answer = 2")
    assert application.fingerprints(plan, study).applications["one"] != first, (
        "small files are read in any case"
    )
    monkeypatch.setattr(application, "MOST_FILES", 2)
    assert "only its first 2 files" in application.fingerprints(plan, study).applications["one"]


def test_another_experiment_beside_the_first_is_no_application(study):
    plan = application_plan("python main.py")
    first = application.fingerprints(plan, study).applications
    (study / "second.yaml").write_text("# another\nexperiment: second")
    assert application.fingerprints(plan, study).applications == first
    (study / "settings.yaml").write_text("server:\n  experiment: no key at the top")
    assert application.fingerprints(plan, study).applications != first


def changed(study, change):
    plan = application_plan("python main.py")
    before = environment.capture(build(), application.fingerprints(plan, study))
    change()
    after = environment.capture(build(), application.fingerprints(plan, study))
    return environment.difference(before, after)


def test_a_changed_file_is_named(study):
    lines = changed(study, lambda: (study / "package" / "module.py").write_text("answer = 2"))
    assert [line.partition(": ")[0] for line in lines] == ["applications.one", "application file"]
    assert lines[1].startswith("application file: package/module.py: ")
    lines = changed(study, lambda: (study / "more.py").write_text(""))
    assert lines[1].startswith("application file: more.py: absent → ")


def test_another_program_is_named_by_its_path(study, monkeypatch):
    other = study.parent / "shims" / "python"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    lines = changed(
        study, lambda: monkeypatch.setenv("PATH", f"{other.parent}{os.pathsep}{os.environ['PATH']}")
    )
    assert any(f"program python, {other}: absent → " in line for line in lines)
    assert any(line.endswith(" → absent") and "program python, /" in line for line in lines)


def test_few_of_many_changed_files_are_named(study, monkeypatch):
    lines = changed(study, lambda: [(study / f"f{n}.py").write_text("") for n in range(15)])
    assert len(lines) == 1 + environment.MOST_FILES_SHOWN + 1
    assert lines[-1] == "application file: 5 more"
    monkeypatch.setattr(application, "MOST_NAMED", 3)
    assert len(application.fingerprints(application_plan("python main.py"), study).files) == 3
