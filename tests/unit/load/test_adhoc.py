"""hey's options turned into a job, and a load's records into a summary that is right."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.load.adhoc import AdhocError, AdhocLoad
from towtank.load.adhoc_headers import headers_from
from towtank.load.adhoc_options import refusal
from towtank.load.summary import CSV_HEADER, Summary, render, summarise, write_csv
from towtank.platforms.transport import Tls


def load_of(job):
    return job["workloads"][0]["load"]


def request_of(job):
    return job["workloads"][0]["journey"]["steps"][0]["request"]


def test_heys_defaults(tmp_path):
    job = AdhocLoad("http://127.0.0.1:8000/a?b=c").job(tmp_path / "requests")
    assert load_of(job)["iterations"] == 200
    assert load_of(job)["stages"][0]["to_users"] == 50
    assert job["workloads"][0]["timeout_us"] == 20_000_000
    assert request_of(job)["path"] == "/a?b=c"
    assert job["targets"]["target"]["instances"][0]["url"] == "http://127.0.0.1:8000"


def test_a_duration_makes_the_number_void(tmp_path):
    load = load_of(AdhocLoad("localhost", requests=5, users=9, duration_s=2.0).job(tmp_path))
    assert load["iterations"] is None
    assert load["stages"][0]["duration_us"] == 2_000_000


def test_q_is_per_worker(tmp_path):
    assert (
        load_of(AdhocLoad("localhost", rate_per_user_per_s=3).job(tmp_path))["max_rate_per_user_per_s"] == 3
    )


def test_a_rate_is_an_open_load(tmp_path):
    load = load_of(
        AdhocLoad("localhost", rate_per_s=100, requests=50, arrivals="poisson", users=7).job(tmp_path)
    )
    assert (load["model"], load["arrivals"], load["max_in_flight"]) == ("open", "poisson", 7)
    assert load["max_arrivals"] == 50


def test_an_open_load_that_outlasts_the_longest_run_is_refused(tmp_path):
    with pytest.raises(AdhocError, match=r"-n 200 with --rate 0\.00027\d*/s can take .*at most 7 days"):
        AdhocLoad("localhost", rate_per_s=1 / 3600, requests=200).job(tmp_path)


def test_without_n_or_beside_z_an_open_load_ends_with_its_duration(tmp_path):
    without = load_of(AdhocLoad("localhost", rate_per_s=10).job(tmp_path))
    beside = load_of(AdhocLoad("localhost", rate_per_s=10, requests=5, duration_s=2.0).job(tmp_path))
    assert (without["max_arrivals"], without["stages"][0]["duration_us"]) == (None, 10_000_000)
    assert (beside["max_arrivals"], beside["stages"][0]["duration_us"]) == (None, 2_000_000)


@pytest.mark.parametrize("rate", [None, 10.0])
def test_without_keepalive_each_request_connects(tmp_path, rate):
    job = AdhocLoad("localhost", keepalive=False, rate_per_s=rate).job(tmp_path)
    assert job["workloads"][0]["connections"] == {"policy": "new"}


def target_of(tmp_path, url="https://shop.example/a", **options):
    return AdhocLoad(url, **options).job(tmp_path)["targets"]["target"]


def test_how_the_target_is_reached(tmp_path):
    assert target_of(tmp_path)["instances"][0]["url"] == "https://shop.example"
    assert target_of(tmp_path, http2=True)["protocol"] == "auto"
    assert target_of(tmp_path, "http://h/", http2=True)["protocol"] == "http2"
    assert target_of(tmp_path, proxy="p:3128")["proxy"] == {"url": "http://p:3128"}
    private = target_of(tmp_path, proxy="http://me:s%40cret@p:3128")["proxy"]
    assert private == {"url": "http://p:3128", "headers": {"proxy-authorization": "Basic bWU6c0BjcmV0"}}
    with pytest.raises(AdhocError, match=r"-x 'socks5://\*\*\*@p:1080': the address carries a user"):
        target_of(tmp_path, proxy="socks5://me:s3cret@p:1080")
    assert target_of(tmp_path, proxy="socks5://p:1080")["proxy"] == {"url": "socks5://p:1080"}
    tls = target_of(tmp_path, tls=Tls(ca="/ca.pem", cert="/c.pem", key="/c.key"))["tls"]
    assert (tls["ca_file"], tls["cert_file"], tls["key_file"]) == ("/ca.pem", "/c.pem", "/c.key")
    assert target_of(tmp_path, tls=Tls(insecure=True))["tls"]["insecure"] is True


def test_a_unix_socket_stands_for_the_host(tmp_path):
    target = target_of(tmp_path, "http://app.example:8080/x", unix_socket=tmp_path / "a.sock")
    assert target["instances"][0]["url"] == f"unix:{tmp_path}/a.sock"
    assert target["host"] == "app.example:8080"
    with pytest.raises(AdhocError, match="there is no socket"):
        AdhocLoad("localhost", unix_socket=tmp_path / "a.sock").resolve()


def test_a_file_is_sent_byte_for_byte_and_redirects_are_followed(tmp_path):
    asked = AdhocLoad("localhost", method="POST", body_file=tmp_path / "a.bin", redirects=5)
    request = request_of(asked.job(tmp_path))
    assert request["body"] == {"file": f"{tmp_path}/a.bin"}
    assert request["redirects"] == 5
    assert "redirects" not in request_of(AdhocLoad("localhost").job(tmp_path))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (AdhocLoad("localhost", requests=3, users=9), "-n 3 is less than -c 9"),
        (AdhocLoad("localhost", users=0), "at least one worker"),
        (AdhocLoad("localhost", method="BREW"), "-m 'BREW'"),
        (AdhocLoad("ftp://localhost"), "not a URL that can be loaded"),
        (AdhocLoad("http://localhost:port"), "is not a URL"),
        (AdhocLoad("http://localhost", tls=Tls(insecure=True)), "are for https only"),
        (AdhocLoad("https://localhost", unix_socket=Path("/a")), "--unix-socket and https exclude"),
        (AdhocLoad("localhost", unix_socket=Path("/a"), proxy="p:1"), "--unix-socket and -x exclude"),
        (AdhocLoad("localhost", proxy="p"), "-x 'p': 'http://p' is not the address of a proxy"),
        (AdhocLoad("http://"), "not a URL that can be loaded"),
        (AdhocLoad("localhost", rate_per_s=5, rate_per_user_per_s=1), "-q bounds workers"),
    ],
)
def test_what_cannot_be_is_said(asked, words, tmp_path):
    with pytest.raises(AdhocError, match=words):
        asked.job(tmp_path)


def test_a_host_without_an_address_is_said():
    AdhocLoad("http://127.0.0.1:9/").resolve()
    AdhocLoad("[::1]:9").resolve()
    for url in ("notaurl.invalid", "http://a b/", f"http://{'a' * 70}.invalid/"):
        with pytest.raises(AdhocError, match="has no address"):
            AdhocLoad(url).resolve()


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("$.workloads[0].journey.steps[0].request.headers.x: a control character", "the header x cannot"),
        ("$.targets.target.instances[0].url: no valid port", "the URL cannot be used: no valid port"),
        ("$.workloads[0].journey.steps[0].request.path: a blank", "the URL cannot be used: a blank"),
        ("$.workloads[0].load.max_in_flight: more than 5", "the load that -n"),
        ("$.seed: odd", "this load cannot be driven: odd"),
    ],
)
def test_a_refused_job_is_said_in_the_users_words(problem, words):
    error = refusal([problem, "$.targets: more"])
    assert error.exit_code == 2
    assert error.message.startswith(words)
    assert "$" not in error.message


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://h:0/", "has the port 0"),
        ("http://h:65536/", "Port out of range"),
        ("http://h/a\nb", r"holds the control character '\\n'"),
        ("http://h/a\tb", r"control character '\\t'"),
        ("http://127.1/", "'127.1' is neither a name nor an address"),
        ("http://2130706433/", "neither a name nor an address"),
        ("http://0x7f.1/", "neither a name nor an address"),
        ("http://[::1/", "is not a URL"),
        ("http:///path", "not a URL that can be loaded"),
    ],
)
def test_an_odd_url_is_refused_before_anything_is_sent(tmp_path, url, words):
    with pytest.raises(AdhocError, match=words):
        AdhocLoad(url).job(tmp_path)


def test_a_user_in_the_url_is_basic_authentication_and_in_no_message(tmp_path):
    url = "http://me:s%40cret@localhost:81/a?x=b@c"
    job = AdhocLoad(url).job(tmp_path)
    assert request_of(job)["headers"]["authorization"] == "Basic bWU6c0BjcmV0"
    assert job["targets"]["target"]["instances"][0]["url"] == "http://localhost:81"
    own = AdhocLoad(url, headers={"authorization": "Bearer x"}).job(tmp_path)
    assert request_of(own)["headers"]["authorization"] == "Bearer x"
    with pytest.raises(AdhocError) as caught:
        AdhocLoad("ftp://me:s%40cret@localhost:81/a").job(tmp_path)
    assert "'ftp://***@localhost:81/a'" in caught.value.message


def sent(*lines, **options):
    known = dict.fromkeys(("accept", "content_type", "basic", "host"))
    return headers_from(list(lines), **{**known, "compression": False, "has_body": False, **options})


def test_options_of_their_own_win_over_headers_and_empty_ones_are_none():
    assert sent("User-Agent: a", user_agent="b")["user-agent"] == "b"
    assert sent("Host: a", host="b:81")["host"] == "b:81"
    assert sent("Content-Type: a/b", content_type="c/d")["content-type"] == "a/b"
    assert sent("X: 1", "x: 2")["x"] == "2"
    assert not {"host", "accept", "authorization"} & sent(host="", accept="", basic="").keys()


@pytest.mark.parametrize("host", ["a b", "a\r\nX: y", "me@h", "h/path"])
def test_a_host_header_that_is_no_host_is_refused(host):
    with pytest.raises(AdhocError, match=r"-host .* this is no name of a host"):
        sent(host=host)
    with pytest.raises(AdhocError, match="-host"):
        sent(f"Host: {host}")


def test_headers_as_hey_sends_them():
    headers = headers_from(
        ["X-A: 1", "Accept: text/plain"], accept="*/*", content_type=None, basic="user:pass", host="example.org",
        compression=True, has_body=True,
    )  # fmt: skip
    assert headers["accept"] == "*/*"  # -A wins, whatever -H says
    assert headers["authorization"] == "Basic dXNlcjpwYXNz"
    assert headers["content-type"] == "text/html"
    assert headers["host"] == "example.org"
    assert headers["accept-encoding"] == "gzip"


def test_a_header_without_a_colon_is_refused():
    with pytest.raises(AdhocError, match="is not a header"):
        headers_from(
            ["X-A 1"],
            accept=None,
            content_type=None,
            basic=None,
            host=None,
            compression=False,
            has_body=False,
        )


def test_template_marks_are_sent_as_they_are(tmp_path):
    path = request_of(AdhocLoad("localhost/{%a%}/{{b}}").job(tmp_path))["path"]
    assert path == "/{% raw %}{%a%}/{{b}}{% endraw %}"  # a path begins with its slash
    job = AdhocLoad("localhost", body="{{ x }} {% endraw %} {#").job(tmp_path)
    assert request_of(job)["body"].startswith("{% raw %}")
    assert AdhocLoad("localhost", body="{{ x }}", templates=True).job(tmp_path)["workloads"]
    assert (
        request_of(AdhocLoad("localhost", body="{{ x }}", templates=True).job(tmp_path))["body"] == "{{ x }}"
    )


# --- summaries -------------------------------------------------------------------------------------------


def records(path, rows):
    """Rows of (latency ms, status, outcome)."""
    n = len(rows)
    us = [None if ms is None else round(ms * 1000) for ms, _, _ in rows]
    ints = pa.int32()
    table = pa.table(
        {
            "scheduled_us": pa.array(range(0, n * 1000, 1000), pa.int64()),
            "lag_us": pa.array([0] * n, ints),
            "wait_us": pa.array([0] * n, ints),
            "dns_us": pa.array([None] * n, ints),
            "connect_us": pa.array([100 if i == 0 else None for i in range(n)], ints),
            "tls_us": pa.array([None] * n, ints),
            "ttfb_us": pa.array(
                [u if status else None for u, (_, status, _) in zip(us, rows, strict=True)], ints
            ),
            "after_ttfb_us": pa.array([0 if s else u for u, (_, s, _) in zip(us, rows, strict=True)], ints),
            "status": pa.array([status for _, status, _ in rows], ints),
            "outcome": pa.array([outcome for _, _, outcome in rows]).dictionary_encode(),
            "bytes_in": pa.array([200] * n, pa.int64()),
        }
    )
    pq.write_table(table, path)
    return path


def test_a_summary_counts_everything(tmp_path):
    path = records(
        tmp_path / "r.parquet",
        [(10.0, 200, "answered")] * 7 + [(20.0, 503, "check:status")] + [(5.0, None, "refused")] * 2,
    )
    summary = summarise(path, timeout_s=20, elapsed_s=2)
    assert (summary.requests, summary.answered, summary.failed) == (10, 8, 2)
    assert summary.statuses == {200: 7, 503: 1}
    assert summary.errors == {"refused": 2}
    text = render(summary)
    assert "Failed:\t2 (20.00%)" in text
    assert text.count("failed, >") == 1
    assert "  90%, 95%, 99%, 99.9% failed, > 20 s" in text
    assert "Received:\t2000 bytes, head and body" in text
    assert "Per answer:\t250 bytes" in text
    assert "50% in 0.0100 secs" in text
    assert "[503]\t1 responses" in text
    assert "[2]\tconnection refused" in text


def test_when_nothing_answers_there_is_still_a_summary(tmp_path):
    text = render(summarise(records(tmp_path / "r", [(1.0, None, "refused")] * 3), timeout_s=1, elapsed_s=1))
    assert "Requests:\t3" in text
    assert text.strip().startswith("Every request failed: connection refused (3)")
    assert "failed, >" not in text
    assert "Fastest" not in text
    assert "nan" not in text


def test_a_broken_answer_is_no_answer(tmp_path):
    summary = summarise(records(tmp_path / "r", [(1.0, 200, "timeout:body")]), timeout_s=1, elapsed_s=1)
    assert (summary.answered, summary.errors) == (0, {"timeout:body": 1})


def test_csv_has_heys_columns_and_failures(tmp_path):
    out = io.StringIO()
    write_csv(
        records(tmp_path / "r", [(10.0, 200, "answered"), (5.0, None, "refused"), (None, None, "not_sent")]),
        out,
    )
    lines = out.getvalue().splitlines()
    assert lines[0].split(",") == list(CSV_HEADER)
    assert lines[0].startswith(
        "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset"
    )
    assert lines[1] == "0.0100,0.0001,0.0000,,0.0099,0.0000,200,0.0000,answered"
    assert lines[2] == "0.0050,0.0000,0.0000,,,,,0.0010,refused"
    assert lines[3] == ",,,,,,,0.0020,not_sent"


def of(latencies, failures=0):
    found = np.sort(np.array(latencies, dtype=np.float64))
    return Summary(1.0, len(found) + failures, len(found), found, 0, (), {}, {}, 20.0)


@given(st.lists(st.floats(1e-6, 100), min_size=1, max_size=200))
def test_the_histogram_adds_up(latencies):
    summary = of(latencies)
    bins = summary.histogram()
    assert sum(count for _, count in bins) == len(latencies)
    assert bins[-1][0] == pytest.approx(max(latencies))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=100), st.floats(0, 100))
def test_percentiles_are_those_of_numpy(latencies, percent):
    value = of(latencies).percentile(percent)
    assert value == pytest.approx(float(np.percentile(latencies, percent)), rel=1e-9, abs=1e-9)


@given(
    st.lists(st.floats(0, 100), max_size=50), st.integers(1, 50), st.integers(0, 1000).map(lambda n: n / 10)
)
def test_a_percentile_among_failures_is_not_a_number(latencies, failures, percent):
    value = of(latencies, failures).percentile(percent)
    huge = 1e12  # stands for a failure; infinities cannot be interpolated
    exact = float(np.percentile([*latencies, *[huge] * failures], percent))
    if value is None:
        assert exact > 100
    else:
        assert value == pytest.approx(exact)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate_per_user_per_s": -1.0}, "-q -1"),
        ({"rate_per_user_per_s": float("nan")}, "-q nan"),
        ({"timeout_s": -5.0}, "-t -5"),
        ({"timeout_s": float("nan")}, "-t nan"),
        ({"timeout_s": 1801.0}, r"-t 1801: allowed are seconds from 0.000001 to 1,800"),
        ({"timeout_s": 1e-9}, "-t 1e-09: allowed are seconds from 0.000001"),
        ({"rate_per_user_per_s": 1e300}, "-q 1e.300: allowed are .* to 1,000,000"),
        (
            {"users": 10_001, "requests": 20_000},
            "-c 10001: each worker has a connection; allowed are at most 10,000",
        ),
        ({"users": 3, "threads": 4, "rate_per_s": 5.0}, "-c 3 is less than -cpus 4"),
        ({"method": ""}, "-m ''"),
        ({"threads": 99}, "-cpus '99' cannot be used: .*64"),
        ({"users": 2_000_000, "requests": 3_000_000}, "-c 2000000: .* at most 10,000"),
        ({"requests": 0, "users": 1}, "-n 0"),
        ({"duration_s": 0.0}, "-z 0s"),
        ({"seed": -1}, "--seed -1"),
        ({"unix_socket": Path("a" * 300)}, "--unix-socket a+: File name too long"),
    ],
)
def test_nonsense_is_refused_in_the_words_of_who_wrote_it(tmp_path, options, said):
    asked = AdhocLoad("http://127.0.0.1:9/", **options)

    def prepare():
        asked.job(tmp_path / "requests")
        asked.resolve()

    with pytest.raises(AdhocError, match=said):
        prepare()


def test_no_timeout_is_the_longest_that_the_engine_takes(tmp_path):
    assert AdhocLoad("localhost", timeout_s=0.0).job(tmp_path)["workloads"][0]["timeout_us"] == 1_800_000_000
