"""Several engines of this machine as one: the same load, one set of records, and no half runs."""

from __future__ import annotations

import os
import signal
import socket
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from support import small_study as study
from support.fleets import begin, carry_out, never, open_load
from towtank.campaign.workers import with_distances
from towtank.load import find_engine
from towtank.load.echo import EchoServer
from towtank.load.engine import JobRefused
from towtank.load.workers import Fleet, Shipment, WorkerLost, WorkersNotReady
from towtank.load.workers.places import Local

pytestmark = pytest.mark.alone
SECONDS = 1.5
NAMES = 40


@pytest.fixture(scope="module")
def url():
    with EchoServer(find_engine(), core=None, token="tt-workers") as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def fleet_of(tmp_path, monkeypatch):
    """Make a fleet of local workers; its files go into a folder of its own, and nothing else is left of it."""
    made = []
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    def make(workers, job, shipment=None, **more):
        folder = tmp_path / f"fleet-{len(made)}"
        folder.mkdir()
        place = Local(find_engine(), logs=folder, mark="tt-workers")
        fleet = Fleet(
            place, workers, job if callable(job) else lambda _: job, shipment or Shipment(), deadline_s=120,
            output=folder / "requests", engine=find_engine(), **more,
        )  # fmt: skip
        made.append(fleet)
        return fleet, folder

    yield make
    for fleet in made:
        fleet.close()
        assert fleet.own_pids == ()
    assert not list(temporary.iterdir())


def rows(folder, *columns):
    table = pq.read_table(folder / "requests.parquet", columns=list(columns))
    return np.column_stack([table.column(name).to_numpy() for name in columns])


def test_four_workers_send_what_one_sends_at_the_same_instants(fleet_of, url):
    due, totals = [], []
    for workers, threads in ((1, 1), (4, 2)):
        seen = []
        fleet, folder = fleet_of(
            workers, open_load(url, seconds=SECONDS, threads=threads), on_progress=seen.append
        )
        with fleet:
            ready, done = carry_out(fleet)
            assert (ready.threads, done.stopped_by) == (workers * threads, "schedule")
            found = rows(folder, "scheduled_us", "user", "worker")
            assert done.counts["rows"] == done.files[0]["rows"] == len(found)
            assert (found[:, 1] % (workers * threads) == found[:, 2]).all()
            due.append(found[:, :2])
            totals.append(done.counts["by_outcome"])
            facts = with_distances(fleet.facts(), folder / "requests.parquet")
        assert [p.t_us // 1_000_000 for p in seen] == [1]
        assert len(facts["generators"]) == workers
        for one in facts["generators"]:
            assert one["kind"] == "local"
            assert one["host"] == socket.gethostname()
            # One clock at both ends: what is found is within what is said of it.
            assert abs(one["clock"]["offset_us"]) <= one["clock"]["uncertainty_us"] + 1
            assert one["connect_us"]["app"] >= 0
    assert np.array_equal(*due)
    assert totals[0] == totals[1]
    assert not list(folder.glob("requests/*")), "its logs are in one file"


def test_files_travel_with_the_job_and_each_row_is_taken_once(fleet_of, url, tmp_path):
    people = tmp_path / "people & co.csv"
    people.write_text("name\n" + "".join(f"p{k}\n" for k in range(NAMES)), "utf-8")
    shipment = Shipment()
    name = shipment.add(people)
    assert (name, shipment.add(people)) == ("file-0-people-co.csv", name)
    job = open_load(url, seconds=NAMES / 200, arrivals="uniform", feed=name)
    fleet, folder = fleet_of(3, job, shipment)
    with fleet:
        _, done = carry_out(fleet)
    assert done.counts["by_outcome"] == {"answered": NAMES}
    # /p0 to /p39: the paths of single digits are a byte shorter, and nothing else of the requests differs.
    sizes, counts = np.unique(rows(folder, "bytes_out"), return_counts=True)
    assert (list(np.diff(sizes)), list(counts)) == ([1], [10, 30])


def test_a_worker_that_is_killed_ends_the_run_and_what_the_others_have_is_kept(fleet_of, url):
    fleet, folder = fleet_of(3, open_load(url, seconds=60))
    with fleet:
        begin(fleet)
        time.sleep(fleet.start_ahead_s + 0.7)
        begun = time.monotonic()
        os.kill(fleet.own_pids[1], signal.SIGKILL)
        with pytest.raises(WorkerLost, match=r"worker 1 on \S+ was lost: .*killed by signal 9"):
            fleet.wait_done(timeout_s=90, cancelled=never)
        assert time.monotonic() - begun < 30, "long before its end"
        kept = sorted(path.name for path in (folder / "requests").iterdir())
    assert kept == ["thread-0.log", "thread-2.log"]
    assert all((folder / "requests" / name).stat().st_size > 64 * 20 for name in kept)


def test_a_start_that_somebody_cannot_keep_is_none(fleet_of, url):
    fleet, folder = fleet_of(2, open_load(url, seconds=SECONDS))
    with fleet:
        fleet.wait_ready(cancelled=never)
        fleet.start_at(time.monotonic_ns() - 1)
        with pytest.raises(
            WorkersNotReady, match=r"not begun by all workers: .*(s ago when|to hear of the start)"
        ):
            fleet.wait_started(cancelled=never)
    assert not (folder / "requests.parquet").exists()


def test_a_job_that_is_wrong_is_refused_in_the_words_of_the_engine(fleet_of):
    job = open_load("http://127.0.0.1:9", seconds=SECONDS)
    job["workloads"][0]["timeout_us"] = -1
    fleet, _ = fleet_of(2, job)
    with fleet, pytest.raises(JobRefused) as refused:
        fleet.wait_ready(cancelled=never)
    assert refused.value.problems[0].startswith("$.workloads[0].timeout_us: -1 where a whole number")


def test_no_load_without_all_of_its_files(fleet_of, url, tmp_path):
    shipment = Shipment()
    shipment.add(tmp_path / "nowhere.csv")
    fleet, _ = fleet_of(2, open_load(url, seconds=SECONDS), shipment)
    with fleet, pytest.raises(WorkersNotReady, match=r"no load was sent: .*nowhere.csv cannot be read"):
        fleet.wait_ready(cancelled=never)


def test_who_does_not_know_the_token_is_none_of_ours(fleet_of, url, monkeypatch):
    fleet, _ = fleet_of(1, open_load(url, seconds=SECONDS))
    monkeypatch.setattr("towtank.load.workers.handshake._proof", lambda *_: "00" * 32)
    with fleet, pytest.raises(WorkersNotReady, match="does not let us in: wrong token"):
        fleet.wait_ready(cancelled=never)


# --- in an experiment ---------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Where a study lives; nothing of it may be alive afterwards."""
    yield tmp_path / "study"
    study.wait_until(lambda: not study.alive_below(tmp_path), what="every process of the study has ended")


def test_an_experiment_whose_load_two_workers_make(folder):
    file = study.write_study(folder)
    done = study.towtank("run", file, "--plain", "--no-report", "--set", "generator.workers=2")
    assert done.returncode in (0, 6), done.stderr  # 6: on a busy machine runs may be invalid, and it says so
    found = study.records(folder / "results" / "small")
    assert len(found) == 4
    for name, record in found.items():
        assert record["state"] == "complete"
        engine = record["engine"]
        assert engine["counts"]["due"] == engine["counts"]["rows"] == 20
        assert [one["worker"] for one in engine["generators"]] == [0, 1]
        assert all(one["connect_us"]["app"] > 0 and one["clock"]["exchanges"] for one in engine["generators"])
        requests = pq.read_table(folder / "results" / "small" / "runs" / name / "requests.parquet")
        assert requests.column("worker").to_pylist() == [0, 1] * 10
    assert not list((folder / "results" / "small" / "intents").iterdir())


def test_a_run_whose_worker_was_lost_is_invalid_and_says_so(folder):
    file = study.write_study(folder, blocks=2, duration="20s", rate=20)
    running = study.start("run", file, "--plain", "--no-report", "--set", "generator.workers=2")

    def engines():
        return [pid for pid in study.marked() if b"\0worker\0" in study.command_line(pid)]

    study.wait_until(lambda: len(engines()) == 2, what="there are two workers")
    study.wait_until(
        lambda: sum(b"\0run\0job.json" in study.command_line(pid) for pid in study.marked()) == 2,
        what="both have their job",
    )
    time.sleep(3)  # whether the load has begun or not: the run is invalid, by one reason or the other
    os.kill(engines()[1], signal.SIGKILL)
    results = folder / "results" / "small"
    study.wait_until(
        lambda: any(one["state"] == "complete" for one in study.records(results).values()),
        what="a run is kept",
    )
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    record = next(one for one in study.records(results).values() if one["state"] == "complete")
    assert record["verdicts"]["instrument"] == "invalid"
    reasons = {reason["name"]: reason["message"] for reason in record["verdicts"]["instrument_reasons"]}
    assert {"worker_lost", "workers_not_ready"} & set(reasons), reasons
    assert "worker 1 on" in record["failure"]
    assert "killed by signal 9" in record["failure"]
