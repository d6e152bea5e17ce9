"""The Python face of the engine, against a fake that behaves and misbehaves."""

from __future__ import annotations

import json
import os
import time

import pytest

from support.campaign_bench import install_fake_engine
from towtank.campaign import processes
from towtank.errors import EngineError, Interrupted, MachineError
from towtank.load.binary import engine_build, find_engine, require_release
from towtank.load.engine import EngineProcess, JobRefused
from towtank.load.job import MASK
from towtank.platforms.ingress import find_ingress

TOKEN = f"tt-engine-{os.getpid()}"
JOB = {
    "run_id": "r1", "output": "", "targets": {"app": {"instances": [{"name": "app-0", "url": "http://192.0.2.1"}]}},
    "workloads": [{"name": "w", "warmup_us": 0, "load": {"stages": [{"to_per_s": 50, "duration_us": 100_000}]}}],
}  # fmt: skip


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Make an engine that behaves as told."""
    binary = install_fake_engine(tmp_path)
    monkeypatch.setenv("TOWTANK_FAKE", str(tmp_path / "fake.json"))
    monkeypatch.setenv("TOWTANK_FAKE_TABLES", str(tmp_path))
    monkeypatch.setenv("TOWTANK_FAKE_PATH", json.dumps(__import__("sys").path))

    def make_engine(*, private=None, on_progress=None, **behaviour):
        (tmp_path / "fake.json").write_text(json.dumps({"*": {"duration_s": 0.0, **behaviour}}))
        path = tmp_path / "job.json"
        path.write_text(json.dumps({**JOB, "output": str(tmp_path / "requests")}))
        return EngineProcess(
            binary, path, log_path=tmp_path / "engine.log", token=TOKEN, private_job=private,
            on_progress=on_progress,
        )  # fmt: skip

    return make_engine


def never():
    return None


def whole_load(engine):
    engine.wait_ready(cancelled=never)
    engine.start_at(None)
    engine.wait_started(cancelled=never)
    return engine.wait_done(timeout_s=20, cancelled=never)


def test_a_whole_load(make, tmp_path):
    seen = []
    with make(on_progress=seen.append) as engine:
        ready = engine.wait_ready(cancelled=never)
        assert (ready.backend, ready.due, ready.build["profile"]) == ("fake", 5, "release")
        start = time.monotonic_ns() + 20_000_000
        engine.start_at(start)
        assert engine.wait_started(cancelled=never) == start
        done = engine.wait_done(timeout_s=20, cancelled=never)
    assert done.counts["rows"] == 5
    assert done.stopped_by == "schedule"
    assert seen[0].p95_us == 1000
    assert (tmp_path / "requests.parquet").exists()
    assert processes.start_ticks(engine.pid) is None


def test_its_token_is_in_its_environment_and_it_has_its_own_session(make):
    with make() as engine:
        engine.wait_ready(cancelled=never)
        assert engine.pid in processes.with_token(TOKEN) or processes.with_token(TOKEN)
        assert os.getsid(engine.pid) == engine.pid
    assert processes.with_token(TOKEN) == []


def test_stop_ends_a_load_early_and_everything_is_flushed(make, tmp_path):
    with make(duration_s=60) as engine:
        engine.wait_ready(cancelled=never)
        engine.start_at(None)
        engine.wait_started(cancelled=never)
        engine.stop()
        assert engine.wait_done(timeout_s=20, cancelled=never).stopped_by == "stop"
    assert (tmp_path / "requests.parquet").exists()


@pytest.mark.parametrize("fault", ["ready", "started", "late"])
def test_a_dying_engine_is_an_error_with_its_last_words(make, fault):
    with make(die=fault) as engine, pytest.raises(EngineError, match=r"exit code 9") as caught:
        whole_load(engine)
    assert "engine.log" in (caught.value.hint or "")
    if fault == "ready":
        assert "out of luck" in caught.value.message


def test_a_refused_job_says_where(make):
    with (
        make(refuse="no stages") as engine,
        pytest.raises(JobRefused, match=r"workloads\[0\].load: no stages"),
    ):
        engine.wait_ready(cancelled=never)


def test_an_engine_that_says_nothing_is_given_up_and_ended(make):
    with make(deaf=True) as engine, pytest.raises(EngineError, match="longer than 0 s to become ready"):
        engine.wait_ready(cancelled=never, timeout_s=0.3)
    assert processes.start_ticks(engine.pid) is None


def test_words_that_are_no_events_are_remembered_and_passed_over(make):
    with make(garbage=True) as engine:
        assert engine.wait_ready(cancelled=never).backend == "fake"


def test_waiting_can_be_cancelled(make):
    def cancel():
        raise Interrupted("enough")

    with make(deaf=True) as engine, pytest.raises(Interrupted):
        engine.wait_ready(cancelled=cancel)
    assert processes.start_ticks(engine.pid) is None


def test_a_job_with_secrets_never_touches_the_disk(make, tmp_path):
    private = {**JOB, "output": str(tmp_path / "requests"), "targets": {"hunter2": JOB["targets"]["app"]}}
    with make(private=private) as engine:
        engine.wait_ready(cancelled=never)
        engine.start_at(None)
        engine.wait_done(timeout_s=20, cancelled=never)
    import pyarrow.parquet as pq

    assert set(pq.read_table(tmp_path / "requests.parquet").column("target").to_pylist()) == {"hunter2"}
    assert "hunter2" not in (tmp_path / "job.json").read_text()
    assert MASK


def test_a_program_that_is_not_there(tmp_path):
    engine = EngineProcess(tmp_path / "nothing", tmp_path / "j", log_path=tmp_path / "l", token="t")
    with pytest.raises(EngineError, match="cannot be started"):
        engine.start()
    engine.close()


def test_the_environment_names_the_engine(tmp_path, monkeypatch):
    binary = install_fake_engine(tmp_path)
    monkeypatch.setenv("TOWTANK_ENGINE", str(binary))
    assert find_engine() == binary
    assert engine_build(binary).profile == "release"


def test_a_name_that_leads_nowhere_is_said(monkeypatch):
    monkeypatch.setenv("TOWTANK_ENGINE", "/nowhere/engine")
    with pytest.raises(MachineError, match="/nowhere/engine"):
        find_engine()


@pytest.mark.parametrize(
    ("find", "variable", "build"),
    [
        (find_engine, "TOWTANK_ENGINE", "cargo build --release"),
        (find_ingress, "TOWTANK_INGRESS", "make ingress"),
    ],
)
def test_without_a_program_the_hint_says_how_to_get_one(monkeypatch, tmp_path, find, variable, build):
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("towtank.load.binary.Program._candidates", lambda self: [tmp_path / self.name])
    with pytest.raises(MachineError, match="was not found") as caught:
        find()
    assert build in (caught.value.hint or "")
    assert variable in (caught.value.hint or "")


def test_another_program_is_no_engine():
    with pytest.raises(MachineError, match="does not answer --version"):
        engine_build(__import__("pathlib").Path("/bin/true"))


def test_a_debug_build_does_not_measure(tmp_path, monkeypatch):
    monkeypatch.setenv("TOWTANK_FAKE_PROFILE", "debug")
    with pytest.raises(MachineError, match="debug build; only release builds measure"):
        require_release(engine_build(install_fake_engine(tmp_path)))
