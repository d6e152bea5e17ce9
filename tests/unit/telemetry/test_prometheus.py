"""The `prometheus` source against a scripted server: good answers, and all that can go wrong with them."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import servers
from support.fake_prometheus import Script, fake_prometheus
from support.repeated import repeated
from support.servers import make_certificate, on_loopback, with_tls
from towtank.clock import RunClock
from towtank.errors import TelemetryError
from towtank.telemetry import registry
from towtank.telemetry.base import ObserveContext, Outlook
from towtank.telemetry.prometheus.answers import NotAnAnswer, read_result
from towtank.telemetry.prometheus.options import Query
from towtank.telemetry.prometheus.source import PrometheusSource
from towtank.telemetry.sampler import Observation, Sampler

CPU = "rate(cpu_seconds_total[5s])"


@pytest.fixture
def script() -> Script:
    return Script(series={CPU: [({"instance": "a"}, lambda t: 0.5)]})


@pytest.fixture
def url(script: Script) -> Iterator[str]:
    with servers.serving() as start:
        yield fake_prometheus(start, script)[0]


def options(url: str, **more: Any) -> dict[str, Any]:
    return {"url": url, "queries": {"cpu": {"query": CPU, "unit": "cores"}}, **more}


def context(given: dict[str, Any], interval_s: float = 0.1, root: Path = Path()) -> ObserveContext:
    return ObserveContext(RunClock(time.monotonic_ns()), interval_s, [], options=given, root=root)


def observe(
    given: dict[str, Any], seconds: float = 0.5, meanwhile: Callable[[], None] = lambda: None, **more: Any
) -> Observation:
    sampler = Sampler([(registry.create("prometheus"), context(given, **more))])
    sampler.start()
    time.sleep(seconds / 2)
    meanwhile()
    time.sleep(seconds / 2)
    return sampler.stop()


def said(seen: Observation) -> dict[str, str]:
    return {event.kind: event.message for event in seen.events}


def ahead(given: dict[str, Any], interval_s: float = 1.0, root: Path = Path()) -> Outlook:
    return PrometheusSource().look_ahead(given, root, interval_s)


# --- after the run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead_s", [0.0, -3600.25, 86_400.5])
@repeated
def test_the_whole_run_comes_afterwards_on_the_runs_clock(url: str, script: Script, ahead_s: float) -> None:
    script.ahead_s = ahead_s
    begun = time.time()
    script.series[CPU] = [({"instance": "a"}, lambda t: t - script.ahead_s - begun)]
    zero_ns = time.monotonic_ns()
    seen = observe(options(url))
    assert len(seen.samples) >= 4
    for sample in seen.samples:
        assert (sample.source, sample.instance, sample.metric) == ("prometheus", "a", "cpu_cores")
        true_us = sample.value * 1e6
        assert abs(sample.t_us - true_us) < 50_000, (
            "its time is that of its value, whatever the server's clock shows"
        )
    times = [sample.t_us for sample in seen.samples]
    assert all(abs(b - a - 100_000) <= 1000 for a, b in itertools.pairwise(times)), "at steps of the interval"
    assert times == sorted(times)
    assert -1000 <= times[0] <= (time.monotonic_ns() - zero_ns) / 1000
    facts = seen.facts["prometheus"]
    assert facts["clock"]["method"] == "time() of the server"
    assert facts["clock"]["ahead_s"] == pytest.approx(ahead_s, abs=0.05)
    assert 0 < facts["clock"]["uncertainty_s"] < 0.05
    assert facts["queries"]["cpu"]["series"] == 1
    assert facts["scrape_interval_s"] == {"app": 1.0}
    assert (seen.gaps, seen.events) == ((), ())


@repeated
def test_nothing_is_asked_during_the_run_but_the_clock(url: str, script: Script) -> None:
    sampler = Sampler([(registry.create("prometheus"), context(options(url), interval_s=0.05))])
    sampler.start()
    script.asked.clear()
    time.sleep(0.4)
    assert not script.asked
    sampler.stop()
    assert "/api/v1/query_range" in {path for path, _ in script.asked}


def test_a_long_run_is_asked_for_in_parts(url: str, script: Script) -> None:
    from towtank.telemetry.prometheus.api import Prometheus
    from towtank.telemetry.prometheus.options import PrometheusOptions

    api = Prometheus(PrometheusOptions.model_validate(options(url)), Path())
    results = list(api.over(CPU, 1000.0, 1000.0 + 2500.0, 0.1))
    api.close()
    times = [t for result in results for series in result.series for t, _ in series.points]
    assert [len(result.series[0].points) for result in results] == [10_000, 10_000, 5001]
    assert times[0] == 1000.0
    assert times[-1] == 3500.0
    assert len(set(times)) == len(times)


def test_labels_name_instances_and_units_end_names(url: str, script: Script) -> None:
    script.series["q"] = [({"pod": "x", "container": "c"}, lambda t: 1.0), ({"pod": "y"}, lambda t: 2.0)]
    queries = {
        "memory": {"query": "q", "unit": "bytes", "instance": ["pod", "container"]},
        "open_files": {"query": "q", "unit": "count", "instance": "pod"},
        "rx_bytes_per_s": {"query": CPU, "unit": "bytes_per_s"},
    }
    seen = observe(options(url, queries=queries))
    assert {(s.metric, s.instance) for s in seen.samples} == {
        ("memory_bytes", "x/c"), ("memory_bytes", "y"), ("open_files", "x"), ("open_files", "y"),
        ("rx_bytes_per_s", "a"),
    }  # fmt: skip


@repeated
def test_a_server_that_answers_late_on_purpose_is_asked_for_the_present(url: str, script: Script) -> None:
    script.late_s = 30.0
    begun = time.time()
    script.series[CPU] = [({"instance": "a"}, lambda t: t - begun)]
    seen = observe(options(url))
    assert len(seen.samples) >= 4
    assert all(abs(sample.t_us - sample.value * 1e6) < 50_000 for sample in seen.samples)
    assert seen.facts["prometheus"]["clock"]["ahead_s"] == pytest.approx(0, abs=0.05)


def test_a_server_that_only_answers_for_the_past_is_refused(url: str, script: Script) -> None:
    script.late_s, script.obeys = 30.0, False
    source = registry.create("prometheus")
    with pytest.raises(TelemetryError, match=r"answers time\(\) for a moment 30 s before its answer"):
        source.start(context(options(url)))
    (problem,) = ahead(options(url)).problems
    assert "for a moment 30 s before its answer" in problem


# --- what can go wrong during a run: findings, never an error ----------------------------------------------------


def test_nan_and_infinity_are_left_out_and_told(url: str, script: Script) -> None:
    values = itertools.cycle([1.0, float("nan"), float("inf")])
    script.series[CPU] = [({}, lambda t: next(values))]
    seen = observe(options(url))
    assert {sample.value for sample in seen.samples} == {1.0}
    assert "NaN or infinite" in said(seen)["not_a_number"]
    detail = json.loads(seen.events[0].detail)
    assert detail["advice"]
    assert detail["queries"] == ["cpu"]


def test_a_query_without_data_is_told(url: str, script: Script) -> None:
    script.series[CPU] = []
    seen = observe(options(url))
    assert len(seen.samples) == 0
    assert said(seen)["no_data"].startswith("queries of Prometheus gave no value: cpu")
    assert seen.gaps == (), "a query without data is no gap of the instrument"


@repeated
def test_stale_series_are_told(url: str, script: Script) -> None:
    begun = time.time()
    script.series[CPU] = [({}, lambda t: None if begun + 0.4 < t < begun + 0.9 else 1.0)]
    seen = observe(options(url), 1.3)
    assert "had no value for a while" in said(seen)["stale_data"]


@pytest.mark.parametrize("read", ["after", "live"])
@repeated
def test_a_series_that_never_comes_back_is_stale(url: str, script: Script, read: str) -> None:
    begun = time.time()
    script.series[CPU] = [({}, lambda t: 1.0 if t < begun + 0.5 else None)]
    seen = observe(options(url, read=read), 1.5)
    assert len(seen.samples) > 0
    assert "had no value for a while" in said(seen)["stale_data"]


def test_too_many_series_are_bounded(url: str, script: Script) -> None:
    script.series[CPU] = [({"instance": str(n)}, lambda t: 1.0) for n in range(50)]
    seen = observe(options(url, most_series=7))
    assert len({sample.instance for sample in seen.samples}) == 7
    assert "cpu (43 more)" in said(seen)["too_many_series"]


def test_series_that_labels_do_not_tell_apart(url: str, script: Script) -> None:
    script.series[CPU] = [({"instance": "a", "mode": mode}, lambda t: 1.0) for mode in "xyz"]
    seen = observe(options(url))
    keys = [(s.t_us, s.instance, s.metric) for s in seen.samples]
    assert len(set(keys)) == len(keys)
    assert "cpu (2 left out)" in said(seen)["series_alike"]


def test_a_query_that_is_refused_leaves_the_others(url: str, script: Script) -> None:
    script.errors["bad"] = (422, "query processing would load too many samples into memory")
    queries = {"cpu": {"query": CPU, "unit": "cores"}, "big": {"query": "bad", "unit": "count"}}
    seen = observe(options(url, queries=queries))
    assert {sample.metric for sample in seen.samples} == {"cpu_cores"}
    assert "too many samples into memory" in said(seen)["query_failed"]
    assert "source_failed" not in said(seen)


def test_a_warning_of_the_server_is_told(url: str, script: Script) -> None:
    script.warnings = ["store 7 is missing"]
    assert "store 7 is missing" in said(observe(options(url)))["server_warned"]


def test_an_answer_that_is_cut_off_is_a_gap_of_the_whole_run(url: str, script: Script) -> None:
    script.cut = True
    seen = observe(options(url))
    assert len(seen.samples) == 0
    assert "broke off its answer" in said(seen)["source_failed"]
    (gap,) = seen.gaps
    assert gap.to_us - gap.from_us > 490_000, "it was watched for half a second"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{}', "no JSON"),
        (b"<html>please log in</html>", "please log in"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[[1,2]]}}', "a series without labels"),
        (b"[" * 60_000, "no JSON"),
        (b"x" * 70_000, "longer than 64 KiB"),
    ],
)
def test_an_answer_that_is_none(url: str, script: Script, raw: bytes, words: str) -> None:
    def break_it() -> None:
        script.raw = raw

    seen = observe(options(url, most_bytes="64KiB"), meanwhile=break_it)
    assert words in said(seen)["source_failed"]
    assert len(seen.gaps) == 1


def test_a_server_that_dies_is_a_finding(url: str, script: Script) -> None:
    def die() -> None:
        script.dead = True

    seen = observe(options(url), meanwhile=die)
    assert "prometheus at http://127.0.0.1" in said(seen)["source_failed"]
    assert "broke off its answer" in said(seen)["source_failed"]
    assert set(said(seen)) == {"source_failed"}
    assert len(seen.gaps) == 1


def test_a_server_that_hangs_is_not_waited_for_without_end(url: str, script: Script) -> None:
    def hang() -> None:
        script.delay_s = 0.6

    begun = time.monotonic()
    seen = observe(options(url, timeout="200ms"), meanwhile=hang)
    assert "did not answer within 200 ms" in said(seen)["source_failed"]
    assert time.monotonic() - begun < 5


@repeated
def test_a_time_in_which_nothing_was_scraped_is_a_gap(url: str, script: Script) -> None:
    """The server repeats old values for minutes when it scrapes nothing: as if nothing had changed."""
    begun = time.time()
    script.scrape_interval = "100ms"
    script.scraped_at = lambda t: t if t < begun + 0.4 or t > begun + 1.4 else begun + 0.4
    seen = observe(options(url), 2.0)
    (gap,) = seen.gaps
    assert 700_000 < gap.to_us - gap.from_us < 1_300_000
    assert gap.reason == "the server scraped nothing"
    assert seen.facts["prometheus"]["gaps_known"] is True


def test_a_server_that_does_not_say_what_it_scrapes(url: str, script: Script) -> None:
    script.scrape_interval = None
    seen = observe(options(url))
    assert seen.facts["prometheus"]["gaps_known"] is False
    assert seen.gaps == ()
    assert len(seen.samples) > 0


def test_a_clock_that_is_set_meanwhile_is_told(url: str, script: Script) -> None:
    def set_clock() -> None:
        script.ahead_s = 5.0

    seen = observe(options(url), meanwhile=set_clock)
    assert "was set by" in said(seen)["clock_stepped"]
    assert seen.facts["prometheus"]["clock"]["uncertainty_s"] > 2


# --- live ---------------------------------------------------------------------------------------------------


@repeated
def test_live_values_bear_the_time_of_their_reading(url: str, script: Script) -> None:
    seen = observe(options(url, read="live"), 0.6)
    assert len(seen.samples) == seen.readings["prometheus"] >= 2
    assert not [path for path, _ in script.asked if "range" in path]
    assert {sample.metric for sample in seen.samples} == {"cpu_cores"}


@repeated
def test_live_a_server_that_fails_for_a_while_is_a_gap_and_recovers(url: str, script: Script) -> None:
    sampler = Sampler([(registry.create("prometheus"), context(options(url, read="live"), interval_s=0.05))])
    sampler.start()
    time.sleep(0.3)
    script.raw, script.status = b"no", 503
    time.sleep(0.5)
    script.raw, script.status = None, 200
    time.sleep(0.4)
    seen = sampler.stop()
    assert {"source_failed", "source_recovered"} <= set(said(seen))
    assert sum(gap.to_us - gap.from_us for gap in seen.gaps) >= 300_000


@repeated
def test_live_a_slow_server_holds_up_no_other_source(url: str, script: Script) -> None:
    script.delay_s = 0.4
    clock = context(options(url, read="live"), interval_s=0.05)
    host = ObserveContext(clock.clock, 0.05, [])
    sampler = Sampler([(registry.create("host"), host), (registry.create("prometheus"), clock)])
    sampler.start()
    time.sleep(1.5)
    seen = sampler.stop()
    assert seen.readings["host"] > 3 * seen.readings["prometheus"]


# --- before the first run -----------------------------------------------------------------------------------


def test_what_is_right_is_no_problem(url: str) -> None:
    assert ahead(options(url)) == Outlook()


def test_a_server_that_is_not_there() -> None:
    (problem,) = ahead(options("http://127.0.0.1:9")).problems
    assert "prometheus at http://127.0.0.1:9 cannot be reached" in problem
    assert "is it up" in problem


def test_a_query_that_is_wrong_is_told_in_the_servers_words(url: str, script: Script) -> None:
    script.errors["sum("] = (400, "1:5: parse error: unclosed left parenthesis")
    queries = {"a": {"query": "sum(", "unit": "count"}, "b": {"query": "sum(", "unit": "count"}}
    problems = ahead(options(url, queries=queries)).problems
    assert len(problems) == 2, "all at once"
    assert "1:5: parse error" in problems[0]
    assert "'sum('" in problems[0]


def test_an_empty_query_is_a_remark(url: str, script: Script) -> None:
    script.series[CPU] = []
    found = ahead(options(url))
    assert not found.problems
    assert "cpu gives no value now" in found.remarks[0]


@pytest.mark.parametrize(("kind", "words"), [("matrix", "a range of values"), ("string", "a string")])
def test_what_is_no_vector_is_a_problem(url: str, script: Script, kind: str, words: str) -> None:
    script.kinds[CPU] = kind
    (problem,) = ahead(options(url)).problems
    assert words in problem
    assert "needed is one value a series" in problem


def test_too_many_series_are_known_before(url: str, script: Script) -> None:
    script.series[CPU] = [({"instance": str(n)}, lambda t: 1.0) for n in range(8)]
    (problem,) = ahead(options(url, most_series=7)).problems
    assert "gives 8 series; allowed are 7" in problem


def test_series_that_are_alike_are_known_before_with_the_labels_that_would_do(
    url: str, script: Script
) -> None:
    script.series[CPU] = [({"instance": "a", "mode": mode}, lambda t: 1.0) for mode in "xy"]
    (problem,) = ahead(options(url)).problems
    assert "2 series" in problem
    assert "cannot be told apart by instance; they differ in mode" in problem


def test_values_that_will_be_repeated_are_a_remark(url: str, script: Script) -> None:
    script.scrape_interval = "15s"
    (remark,) = ahead(options(url)).remarks
    assert "asked for every 1 s, but scraped more rarely (app every 15 s)" in remark


def test_another_server_is_told_apart(url: str, script: Script) -> None:
    script.raw = b"<!doctype html><title>Grafana</title>"
    (problem,) = ahead(options(url)).problems
    assert "no JSON" in problem
    assert "is this its address?" in problem


# --- secrets and certificates --------------------------------------------------------------------------------


def test_a_token_from_the_environment_is_sent_and_never_told(
    url: str, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROM_TOKEN", "s3cr3t-t0ken")
    script.wants = {"Authorization": "Bearer s3cr3t-t0ken"}
    given = options(url, headers={"authorization": "Bearer {env.PROM_TOKEN}"})
    assert ahead(given) == Outlook()
    script.errors[CPU] = (400, "you sent s3cr3t-t0ken")
    (problem,) = ahead(given).problems
    assert "s3cr3t" not in problem
    assert "you sent ***" in problem


def test_basic_credentials_from_a_file(url: str, script: Script, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("opensesame\n")
    given = options(url, basic={"user": "ali", "password": "{file.password}"})
    script.wants = {"Authorization": "Basic YWxpOm9wZW5zZXNhbWU="}
    assert ahead(given, root=tmp_path) == Outlook()
    script.wants = {"Authorization": "else"}
    (problem,) = ahead(given, root=tmp_path).problems
    assert "answers status 401" in problem
    assert "it wants credentials" in problem


@pytest.mark.parametrize("secret", ["s3cr3t-t0ken\nx", "s3cr3t-t0ken\n", "pässwörd", "s3cr3t\0"])
def test_a_secret_that_http_cannot_carry_is_told_without_it(
    url: str, secret: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{secret}\n")
    if "\0" not in secret:
        monkeypatch.setenv("PROM_TOKEN", secret)
    for place in ["{file.token}", *(["{env.PROM_TOKEN}"] if "\0" not in secret else [])]:
        (problem,) = ahead(options(url, headers={"authorization": f"Bearer {place}"}), root=tmp_path).problems
        assert "the value of header 'authorization' holds a line break" in problem
        assert f"look at what 'Bearer {place}' stands for" in problem
        assert secret[:6] not in problem


def test_a_variable_that_is_not_set(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOBODY_SET_THIS", raising=False)
    (problem,) = ahead(options(url, headers={"x": "{env.NOBODY_SET_THIS}"})).problems
    assert "NOBODY_SET_THIS" in problem


def test_an_authority_of_ones_own(script: Script, tmp_path: Path) -> None:
    from support.fake_prometheus import Handler

    certificate = make_certificate(tmp_path, "prom", "subjectAltName=IP:127.0.0.1")
    with servers.serving() as start:
        server = with_tls(on_loopback(Handler), certificate)
        server.script = script
        start(server)
        url = f"https://127.0.0.1:{server.server_address[1]}"
        assert ahead(options(url, tls={"ca": "prom.pem"}), root=tmp_path) == Outlook()
        assert ahead(options(url, tls={"insecure": True}), root=tmp_path) == Outlook()
        (problem,) = ahead(options(url), root=tmp_path).problems
        assert "CERTIFICATE_VERIFY_FAILED" in problem
        (problem,) = ahead(options(url, tls={"ca": "none.pem"}), root=tmp_path).problems
        assert "the authorities in 'none.pem' cannot be used: No such file" in problem


# --- form ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"queries": {}}, "at least 1"),
        ({"queries": {"Bad Name": {"query": "x", "unit": "count"}}}, "pattern"),
        ({"queries": {"a": {"query": "x", "unit": "ms"}}}, "unit"),
        ({"queries": {"a": {"query": "x" * 4001, "unit": "s"}}}, "4000"),
        ({"url": "prometheus:9090"}, "allowed is http://HOST"),
        ({"url": "unix:/run/x"}, "allowed is http://HOST"),
        ({"tls": {"ca": "x"}}, "for https only"),
        ({"basic": {"user": "a", "password": "plain"}}, "a secret is not written here"),
        (
            {"basic": {"user": "a", "password": "{env.A}"}, "headers": {"Authorization": "x"}},
            "exclude each other",
        ),
        ({"read": "later"}, "after"),
    ],
)
def test_what_is_wrong_in_form_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(TelemetryError, match=words):
        PrometheusSource().look_ahead(options("http://127.0.0.1:9") | changed, Path(), 1.0)


def test_units_stand_at_the_end_of_names() -> None:
    assert Query(query="x", unit="cores").metric("cpu") == "cpu_cores"
    assert Query(query="x", unit="s").metric("wait_s") == "wait_s"
    assert Query(query="x", unit="count").metric("pods") == "pods"


@pytest.mark.parametrize(
    "data",
    [
        [], {}, {"status": "success"}, {"status": "success", "data": {"resultType": "vector"}},
        {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": ["x", "1"]}]}},
        {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1]}]}},
        {"status": "success", "data": {"resultType": "scalar", "result": None}},
    ],
)  # fmt: skip
def test_answers_are_read_strictly(data: object) -> None:
    with pytest.raises(NotAnAnswer):
        read_result(data)
