"""One contract, every runtime: CONTRACT.md over HTTP, against processes of their own."""

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from support.functions import HERE, MODES, RUNTIMES, serving
from support.waiting import eventually

IN_SECONDS = ("go", "python", "typescript")
"""What builds in seconds; the others are built in the slow tier."""
EVENT = {
    "specversion": "1.0", "id": "1", "type": "test.asked", "source": "/test",
    "datacontenttype": "application/json",
}  # fmt: skip
EXPECTED = {"runtime", "instance", "cold", "uptime_s", "slept_s", "burned_s"}

pytestmark = pytest.mark.timeout(600)  # the first test of a runtime builds it


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=() if n in IN_SECONDS else pytest.mark.slow) for n in RUNTIMES],
)
def function(request):
    with serving(request.param, {"INSTANCE": "app-7"}) as served:
        yield served


def binary(event):
    """Headers of an event in binary mode, with its data as the body."""
    headers = {
        f"ce-{name}": value for name, value in event.items() if name not in ("data", "datacontenttype")
    }
    return headers | ({"content-type": event["datacontenttype"]} if "datacontenttype" in event else {})


def tell(function, event, mode, **changes):
    event = {k: v for k, v in {**EVENT, **event, **changes}.items() if v is not None}
    if mode == "binary":
        if "data" not in event:
            event.pop("datacontenttype")
        return function.ask(body=json.dumps(event["data"]) if "data" in event else "", headers=binary(event))
    return function.ask(body=json.dumps(event), headers={"content-type": "application/cloudevents+json"})


def test_it_says_who_it_is_and_for_how_long(function):
    first, second = (function.ask() for _ in range(2))
    for answer in (first, second):
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("application/json")
        assert set(answer.json) == EXPECTED
        assert answer.json["runtime"] == function.runtime.name
        assert answer.json["instance"] == answer.headers["x-instance"] == "app-7"
        assert answer.json["slept_s"] == answer.json["burned_s"] == 0
    assert 0 < first.json["uptime_s"] < second.json["uptime_s"]


def test_health_paths_answer(function):
    assert [function.ask(f"/health/{what}").status for what in ("liveness", "readiness")] == [200, 200]


def test_a_plain_post_is_answered_alike(function):
    answer = function.ask("/?sleep=1ms", body='{"anything": 1}', headers={"content-type": "application/json"})
    assert answer.status == 200
    assert answer.json["slept_s"] >= 0.001


@pytest.mark.parametrize(("asked", "seconds"), [("250ms", 0.25), ("0.3s", 0.3)])
def test_it_sleeps_for_the_given_time(function, asked, seconds):
    """Never shorter; and not much longer, once the machine has time for it."""
    for _ in range(5):
        used = cpu_of(function)
        began = time.monotonic()
        answer = function.ask(f"/?sleep={asked}")
        took = time.monotonic() - began
        assert answer.status == 200
        assert seconds <= answer.json["slept_s"] <= took
        if answer.json["slept_s"] < seconds + 0.1 and cpu_of(function) - used < 0.2:
            return
    pytest.fail(f"slept {answer.json['slept_s']} s, {took} s in all")


def test_it_burns_processor_time(function):
    used = cpu_of(function)
    answer = function.ask("/?burn=400ms")
    assert answer.status == 200
    assert 0.4 <= answer.json["burned_s"] < 0.8
    assert cpu_of(function) - used >= 0.38, "the kernel counts in hundredths of seconds"


def cpu_of(function):
    times = psutil.Process(function.process.pid).cpu_times()
    return times.user + times.system


def test_it_sleeps_before_it_burns(function):
    answer = function.ask("/?burn=20ms&sleep=0.1s")
    assert answer.json["slept_s"] >= 0.1
    assert answer.json["burned_s"] >= 0.02


@pytest.mark.parametrize("mode", MODES)
def test_an_event_is_answered_by_one(function, mode):
    answers = [tell(function, {"data": {"sleep": "20ms"}}, mode) for _ in range(2)]
    for answer in answers:
        assert answer.status == 200, answer.body
        assert answer.headers["x-instance"] == "app-7"
        assert answer.headers["x-cold-start"] == str(answer.event["data"]["cold"]).lower()
        event = answer.event
        assert event["specversion"] == "1.0"
        assert event["type"] == "towtank.function.answer"
        assert event["source"] == f"/functions/{function.runtime.name}"
        assert event["datacontenttype"].startswith("application/json")
        assert set(event["data"]) == EXPECTED
        assert event["data"]["slept_s"] >= 0.02
    assert answers[0].event["id"] != answers[1].event["id"]


@pytest.mark.parametrize("mode", MODES)
def test_an_event_without_data_is_answered_at_once(function, mode):
    answer = tell(function, {}, mode)
    assert answer.status == function.runtime.differs.get((mode, "data"), 200), answer.body
    if answer.status != 200:
        return
    assert answer.event["data"]["slept_s"] == 0


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sleep=abc", "sleep.*20s.*abc"),
        ("sleep=1", "sleep.*20ms"),
        ("sleep=-1s", "sleep.*-1s"),
        ("sleep=", "sleep.*20s"),
        ("sleep=20.1s", "sleep.*20s.*20.1s"),
        ("sleep=1m", "sleep.*1m"),
        ("burn=5001ms", "burn.*5s.*5001ms"),
        ("burn=NaNs", "burn.*NaNs"),
        ("burn=1e3ms", "burn.*1e3ms"),
        ("slep=1s", "slep.*sleep and burn"),
        ("query=x", "query.*sleep and burn"),
        ("sleep=1ms&sleep=2ms", "sleep.*once"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_refused_with_what_is_allowed(function, query, said):
    answer = function.ask(f"/?{query}")
    assert answer.status == 400, answer.body
    assert re.search(said, answer.json["error"])
    assert answer.headers["x-instance"] == "app-7"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"sleep": "99s"}, "sleep.*20s.*99s"),
        ({"sleep": 1}, "sleep"),
        ({"slep": "1s"}, "slep"),
        (["sleep"], "object"),
        ("sleep", "object"),
    ],
)
def test_bad_data_of_an_event_is_refused(function, mode, data, said):
    answer = tell(function, {"data": data}, mode)
    if isinstance(data, list) and (other := function.runtime.differs.get((mode, "list"))):
        assert answer.status == other
        return
    assert answer.status == 400, answer.body
    assert re.search(said, answer.json["error"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("missing", ["id", "type", "source"])
def test_an_event_without_a_required_attribute_is_refused(function, mode, missing):
    answer = tell(function, {"data": {}}, mode, **{missing: None})
    assert answer.status == function.runtime.differs.get((mode, missing), 400), answer.body


@pytest.mark.parametrize("mode", MODES)
def test_an_event_of_an_unknown_version_is_refused(function, mode):
    answer = tell(function, {"data": {}}, mode, specversion="9.9")
    assert answer.status == 400, answer.body


def test_an_event_that_is_no_json_is_refused(function):
    answer = function.ask(body="{", headers={"content-type": "application/cloudevents+json"})
    assert answer.status == 400, answer.body


def test_a_body_of_1_mib_is_taken_and_a_larger_one_refused(function):
    headers = {"content-type": "application/json"}
    whole = json.dumps("x" * (2**20 - 2))
    assert function.ask(body=whole, headers=headers).status == 200
    # or it was refused before it was whole
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
        assert function.ask(body=whole + " " * 2**20, headers=headers).status == 413
    assert function.ask().status == 200, "and the next one is answered"


def test_what_is_no_http_does_not_end_it(function):
    with socket.create_connection(("127.0.0.1", function.port), timeout=10) as connection:
        connection.sendall(b"\x00\x01 nothing\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1000)
    assert function.ask().status == 200


def test_requests_at_once_sleep_side_by_side(function):
    with ThreadPoolExecutor(16) as pool:
        for _ in range(5):
            began = time.monotonic()
            answers = list(pool.map(lambda _: function.ask("/?sleep=300ms"), range(16)))
            took = time.monotonic() - began
            assert [a.status for a in answers] == [200] * 16
            if took < 8 * 0.3:
                return
    pytest.fail(f"16 requests that sleep for 0.3 s took {took:.1f} s: one waits for another")


def test_whether_others_are_answered_while_one_burns(function):
    """CONTRACT.md names who has one thread only; that is so, or the page is wrong."""
    for _ in range(5):
        with ThreadPoolExecutor(1) as pool:
            burning = pool.submit(function.ask, "/?burn=1s")
            time.sleep(0.3)
            answered_meanwhile = function.ask("/health/liveness").status == 200 and not burning.done()
            assert burning.result().status == 200
        if answered_meanwhile == function.runtime.answers_while_burning:
            return
    pytest.fail(f"answered while burning: {answered_meanwhile}")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in IN_SECONDS else pytest.mark.slow) for n in RUNTIMES]
)
def test_an_instance_from_start_to_end(name):
    """Cold once, though many ask at once; another name at each start; and what has begun is answered at the end."""
    in_a_pod = {"HOSTNAME": "pod-1", "KUBERNETES_SERVICE_HOST": "x"}
    with serving(name) as one, serving(name, in_a_pod) as other, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: one.ask("/?sleep=50ms"), range(24)))
        assert [a.status for a in answers] == [200] * 24
        assert sorted(a.json["cold"] for a in answers) == [False] * 23 + [True]
        assert all(a.headers["x-cold-start"] == str(a.json["cold"]).lower() for a in answers)
        assert other.ask("/?sleep=x").headers["x-cold-start"] == "true", "a wrong request counts, too"
        assert other.ask().json["cold"] is False
        instance = one.ask().json["instance"]
        assert re.fullmatch(rf"{name}-[0-9a-f]{{16}}", instance), instance
        assert other.ask().json["instance"] == "pod-1"

        begun = pool.submit(one.ask, "/?sleep=2s")
        eventually(lambda: is_busy(one))
        time.sleep(0.3)  # connected is not yet asked
        one.process.send_signal(signal.SIGTERM)
        other.process.send_signal(signal.SIGTERM)
        assert begun.result().status == 200
        for served in (one, other):
            assert served.process.wait(10) in served.runtime.exit_codes


def is_busy(served):
    """Whether somebody is connected to it."""
    return any(
        c.status == psutil.CONN_ESTABLISHED and c.laddr.port == served.port
        for c in psutil.Process(served.process.pid).net_connections("tcp")
    )


def test_build_names_what_it_knows():
    done = subprocess.run([HERE / "build.sh", "cobol"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "there is no runtime cobol; known are go" in done.stderr
