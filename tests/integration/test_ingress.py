"""The ingress of local deployments: what it holds, whom it asks, what it counts; real processes, real connections."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import subprocess
import time

import pytest

from support.ingress import Ingress, InstanceProcess, ask, ask_on, finish, free_port, instance, receive
from support.waiting import eventually
from towtank.platforms.ingress import find_ingress


@pytest.fixture(scope="module")
def one():
    with instance() as running:
        yield running


@pytest.fixture(scope="module")
def other():
    with instance() as running:
        yield running


def test_it_says_what_it_is_and_listens_on_loopback_only():
    with Ingress.start() as ingress:
        ready = ingress.wait("ready")
        assert ready["protocol"] == 1
        assert ready["listen"].startswith("127.0.0.1:")
        assert ready["build"]["profile"] == "release"
        assert ready["t_ns"] < time.monotonic_ns()
    refused = subprocess.run(
        [str(find_ingress()), "--listen", "0.0.0.0:0"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "only loopback is allowed" in refused.stderr
    taken = free_port()
    with Ingress.start("--listen", f"127.0.0.1:{taken}"):
        second = subprocess.run(
            [str(find_ingress()), "--listen", f"127.0.0.1:{taken}"],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert second.returncode == 1
        assert f"cannot serve on 127.0.0.1:{taken}" in second.stderr


def test_a_request_is_held_until_an_instance_is_ready_and_is_told_at_once(one: InstanceProcess):
    with Ingress.start() as ingress:
        held = ingress.asking()
        wanted = ingress.wait("wanted")
        assert (wanted["reason"], wanted["held"], wanted["ready"]) == ("arrival", 1, 0)
        ingress.tell("add", instance="a", address=one.address, probe={"path": "/health"})
        answer = held.result()
        ready, first = ingress.wait("instance_ready"), ingress.wait("first_request")
        assert (answer.status, answer.body, answer.instance) == (200, b"hello", "a")
        assert answer.headers["x-cold"] == "true"
        assert int(answer.headers["x-held-us"]) == first["held_ns"] // 1000
        assert wanted["t_ns"] < ready["added_ns"] < ready["t_ns"] <= first["t_ns"]
        assert ready["probes"] >= 1
        warm = ingress.ask()
        assert (warm.headers["x-cold"], warm.headers["x-held-us"]) == ("false", "0")
        ingress.end()
        assert ingress.counted("answered") == {"200": 2}


def test_an_instance_is_probed_until_it_is_ready():
    with Ingress.start() as ingress, instance(READY="0") as slow:
        ingress.tell("add", instance="slow", address=slow.address, probe={"path": "/health", "every_ms": 30})
        held = ingress.asking()
        eventually(lambda: slow.all_seen()["probes"] >= 3)
        assert slow.seen() == (0, 0)
        ask(slow.port, "/get-ready")
        assert ingress.wait("instance_ready", instance="slow")["probes"] > 3
        assert held.result().status == 200


def test_one_that_never_gets_ready_is_given_up_and_nobody_is_answered_by_it():
    with Ingress.start() as ingress, instance(READY="0") as never:
        ingress.limits(held_timeout_ms=300)
        ingress.tell(
            "add", instance="never", address=never.address, probe={"path": "/health", "give_up_ms": 100}
        )
        held = ingress.asking()
        gave_up = ingress.wait("gave_up")
        assert gave_up["reason"] == "answered 503 to GET /health"
        assert gave_up["probes"] >= 1
        answer = held.result()
        assert answer.status == 504
        assert "within 300 ms" in answer.body.decode()
        assert answer.instance == "ingress"
        assert never.seen() == (0, 0)
        ingress.end()
        assert ingress.counted("made")["held"] == 1


def test_no_instance_gets_more_at_once_than_its_limit(one: InstanceProcess):
    with Ingress.start() as ingress, instance() as limited:
        ingress.add("limited", limited, concurrency=2)
        answers = [ingress.asking("/sleep?ms=50") for _ in range(12)]
        assert {answer.result().status for answer in answers} == {200}
        assert limited.seen() == (12, 2)
        assert any(event["ready"] == 1 for event in ingress.told("wanted")), "full, and that is told"


def test_requests_are_spread_and_the_newest_joins_at_once(one: InstanceProcess, other: InstanceProcess):
    with Ingress.start() as ingress:
        ingress.limits(policy="round_robin")
        ingress.add("a", one)
        assert [ingress.ask().instance for _ in range(2)] == ["a", "a"]
        ingress.add("b", other)
        assert [ingress.ask().instance for _ in range(4)] == ["b", "a", "b", "a"]
        ingress.limits(policy="least_outstanding")
        busy = ingress.begin()
        eventually(lambda: one.all_seen()["now"] + other.all_seen()["now"] == 1)
        at_the_idle_one = {ingress.ask().instance for _ in range(6)}
        assert len(at_the_idle_one) == 1
        assert f"x-instance: {at_the_idle_one.pop()}".encode() not in finish(busy)


def test_a_drained_instance_gets_nothing_new_and_ends_what_it_has(
    one: InstanceProcess, other: InstanceProcess
):
    with Ingress.start() as ingress:
        ingress.add("a", one)
        last = ingress.begin()
        ingress.wait("first_request", instance="a")
        ingress.tell("drain", instance="a")
        ingress.add("b", other)
        assert {ingress.ask().instance for _ in range(5)} == {"b"}
        assert ingress.told("drained") == []
        told_ns = time.monotonic_ns()
        assert b"x-instance: a" in finish(last)
        assert ingress.wait("drained", instance="a")["t_ns"] > told_ns
        ingress.tell("remove", instance="a")
        assert ingress.wait("removed", instance="a")["in_flight"] == 0
        ingress.add("a", other)  # a name is free again


def test_beyond_its_bounds_it_answers_itself_and_says_why(one: InstanceProcess):
    with Ingress.start() as ingress:
        ingress.limits(pending=2)
        held = ingress.hold(2)
        eventually(lambda: any(seen["held"] == 2 for seen in ingress.told("stats")))
        connection = http.client.HTTPConnection("127.0.0.1", ingress.port)
        assert ask_on(connection).status == 503
        refused = ask_on(connection)  # on the same connection, which a refusal does not close
        assert refused.body.decode().startswith("ingress: pending: 2 requests are held")
        assert refused.instance == "ingress"
        assert ask_on(connection, method="HEAD").body == b""
        ingress.limits(pending=1000, pending_per_instance=1)
        ingress.add("a", one, concurrency=1, probe={})
        for client in held:
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        busy = ingress.begin()
        one.busy_with(1)
        waits = ingress.asking()
        eventually(
            lambda: any(seen["held"] == 1 and seen["in_flight"] == 1 for seen in ingress.told("stats"))
        )
        assert (
            ask_on(connection).body.decode().startswith("ingress: queue: 1 requests are held for 1 instances")
        )
        assert b"HTTP/1.1 200" in finish(busy)
        assert waits.result().status == 200
        connection.close()
        for client in held:
            client.close()
        ingress.end()
        made = ingress.counted("made")
        assert (made["pending"], made["queue"]) == (3, 1)


def test_the_rules_of_openwhisk_answer_429_in_its_words(one: InstanceProcess):
    with Ingress.start() as ingress:
        ingress.add("a", one)
        ingress.limits(invocations_per_minute=2)
        answers = [ingress.ask() for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 429]
        said = "Too many requests in the last minute (count: 3, allowed: 2)."
        assert json.loads(answers[2].body) == {"error": said}
        ingress.limits(invocations_per_minute=None, concurrent_invocations=1)
        busy = ingress.begin()
        one.busy_with(1)
        refused = ingress.ask()
        said = "Too many concurrent requests in flight (count: 1, allowed: 1)."
        assert json.loads(refused.body) == {"error": said}
        assert b"HTTP/1.1 200" in finish(busy)
        ingress.end()
        assert ingress.counted("made")["rate"] == 1


def test_a_client_that_leaves_while_it_is_held_is_forgotten():
    with Ingress.start() as ingress, instance() as late:
        plain, with_body, stays = ingress.hold(1)[0], ingress.connect(), ingress.connect()
        with_body.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf")
        eventually(lambda: any(seen["held"] == 2 for seen in ingress.told("stats")))
        stays.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nthe ")
        plain.close()
        with_body.close()
        eventually(lambda: ingress.counted("left")["held"] == 2)
        stays.sendall(b"whole")
        ingress.add("a", late)
        assert b"HTTP/1.1 200" in receive(stays, b"the whole")
        stays.close()
        assert late.seen() == (1, 1), "nobody asks for those that have left"


def test_a_client_that_leaves_while_it_is_served_is_counted():
    with Ingress.start() as ingress, instance() as sleepy:
        ingress.add("a", sleepy)
        impatient = ingress.hold(1, "/sleep?ms=20000")[0]
        ingress.wait("first_request")
        impatient.close()
        eventually(lambda: ingress.counted("left")["in_flight"] == 1)
        assert ingress.ask().status == 200


def test_a_request_that_was_sent_is_never_sent_again(other: InstanceProcess):
    with Ingress.start() as ingress, instance() as dying:
        ingress.limits(policy="first_available")
        ingress.add("dying", dying)
        ingress.add("other", other)
        before, _ = other.seen()
        assert ingress.ask("/").instance == "dying"  # its connection is kept, and used again
        answer = ingress.ask("/die")
        assert answer.status == 502
        assert answer.body.decode().startswith("ingress: broke: ")
        assert other.seen()[0] == before
        ingress.end()
        assert ingress.counted("made")["broke"] == 1
        broke = [stats["instances"]["dying"]["broke"] for stats in ingress.told("stats")]
        assert sum(broke) == 1


def test_an_answer_that_an_instance_does_not_end_is_cut_off_and_counted():
    with Ingress.start() as ingress, instance() as dying:
        ingress.add("dying", dying)
        with pytest.raises(http.client.IncompleteRead) as caught:
            ingress.ask("/cut")
        assert caught.value.partial == b"the beginning"
        ingress.end()
        assert sum(stats["cut"] for stats in ingress.told("stats")) == 1


def test_an_instance_that_takes_no_connection_gets_nothing_until_it_does():
    port = free_port()
    with Ingress.start() as ingress:
        ingress.tell("add", instance="a", address=f"127.0.0.1:{port}")
        answer = ingress.ask()
        assert (answer.status, answer.body) == (503, b"ingress: refused: ConnectRefused\n")
        assert ingress.wait("instance_unready")["reason"] == "ConnectRefused"
        held = ingress.asking()
        with instance(port):
            answer = held.result()
            assert (answer.status, answer.headers["x-cold"]) == (200, "false")
        ingress.end()
        assert ingress.counted("made")["refused"] == 1


def test_a_kept_connection_that_the_instance_closed_costs_no_request(one: InstanceProcess):
    with Ingress.start() as ingress:
        ingress.add("a", one)
        for method in ("GET", "POST"):
            for _ in range(10):
                assert ingress.ask("/bye", method=method).status == 200


def test_the_instances_own_errors_are_told_from_the_ingress(one: InstanceProcess):
    with Ingress.start() as ingress:
        ingress.add("a", one)
        for code in (503, 504, 429):
            answer = ingress.ask(f"/status?code={code}")
            assert (answer.status, answer.body, answer.instance) == (code, b"as asked", "a")
        ingress.end()
        assert ingress.counted("answered") == {"503": 1, "504": 1, "429": 1}
        assert not +ingress.counted("made")


@pytest.mark.parametrize(
    "words",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET / HTTP/1.1\r\nno colon here\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: twelve\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * (2 << 20) + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_reaches_nobody(one: InstanceProcess, words: bytes):
    with Ingress.start() as ingress:
        ingress.add("a", one)
        before, _ = one.seen()
        with ingress.connect() as client:
            client.settimeout(5)
            said = b""
            try:
                client.sendall(words)
                said = client.recv(100)
            except (TimeoutError, ConnectionError):
                pass
            assert said == b"" or said.startswith(b"HTTP/1.1 400")
        assert one.seen()[0] == before
        assert ingress.ask().status == 200


def test_bodies_stream_both_ways(one: InstanceProcess):
    with Ingress.start() as ingress, ingress.connect() as client:
        ingress.add("a", one)
        client.sendall(
            b"POST /stream HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n"
        )
        said = b""
        while b"first" not in said:
            said += client.recv(1000)
        client.sendall(b"4\r\nlast\r\n0\r\n\r\n")
        assert b"last" in receive(client, b"0\r\n\r\n")


def test_a_connection_that_is_upgraded_carries_whatever_comes(one: InstanceProcess):
    with Ingress.start() as ingress, ingress.connect() as client:
        ingress.add("a", one)
        client.sendall(
            b"GET /upgrade HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert receive(client, b"\r\n\r\n").startswith(b"HTTP/1.1 101")
        client.sendall(b"\x00 there")
        assert client.recv(1000) == b"\x00 there"


def test_pipelined_requests_are_answered_in_their_order(one: InstanceProcess):
    with Ingress.start() as ingress, ingress.connect() as client:
        ingress.add("a", one)
        client.sendall(
            b"".join(b"GET /status?code=%d HTTP/1.1\r\nhost: x\r\n\r\n" % code for code in (201, 202))
        )
        said = b""
        while said.count(b"as asked") < 2:
            said += client.recv(1000)
        assert said.index(b"HTTP/1.1 201") < said.index(b"HTTP/1.1 202")


def test_a_slow_reader_holds_nobody_else_and_little_memory(one: InstanceProcess):
    with Ingress.start() as ingress, ingress.connect() as client:
        ingress.add("a", one)
        client.sendall(f"GET /big?bytes={256 << 20} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert [ingress.ask().status for _ in range(20)] == [200] * 20
        assert ingress.peak_bytes() < 64 << 20, "256 MiB wait at the instance, not here"


def test_ten_thousand_are_held_some_leave_and_the_others_are_answered_in_their_order():
    many = 10_000
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with Ingress.start() as ingress, instance() as late:
        ingress.limits(pending=None)
        held = ingress.hold(many)
        eventually(lambda: max(seen["held"] for seen in ingress.told("stats")) == many, within_s=60)
        for client in held[::2]:
            client.close()
        eventually(lambda: ingress.counted("left")["held"] == many // 2, within_s=60)
        ingress.add("late", late, concurrency=1)
        for client in held[1::2]:
            assert client.recv(200).startswith(b"HTTP/1.1 200")
            client.close()
        assert late.seen() == (many // 2, 1)
        assert len(ingress.told("wanted", ready=0)) == 1, "once is enough"
        assert ingress.peak_bytes() < 512 << 20
        ingress.end()
        assert ingress.counted("answered") == {"200": many // 2}


def test_a_wrong_line_changes_nothing_and_is_told():
    with Ingress.start() as ingress:
        ingress.tell("limits", pendig=1)
        assert "pendig" in ingress.wait("error")["message"]
        for command, fields, said in (
            ("add", {"instance": "a", "address": "192.0.2.1:80"}, "not on loopback"),
            (
                "add",
                {"instance": "a", "address": "127.0.0.1:80", "probe": {"path": "health"}},
                "begins with /",
            ),
            ("drain", {"instance": "nobody"}, "'nobody' is not known".replace("'", '"')),
        ):
            ingress.tell(command, **fields)
            eventually(lambda said=said: any(said in error["message"] for error in ingress.told("error")))
        ingress.end()
        assert ingress.told("stats")[-1]["instances"] == {}


def test_at_the_end_what_is_served_is_ended_and_what_is_held_is_told(one: InstanceProcess):
    with Ingress.start("--grace-ms", "2500") as ingress:
        ingress.add("a", one, concurrency=2)
        served, too_long = ingress.begin(), ingress.begin()
        one.busy_with(2)
        held = ingress.asking()
        ingress.wait("wanted")
        ingress.process.stdin.close()
        assert (held.result().status, held.result().body) == (503, b"ingress: ending: the ingress ends\n")
        assert b"HTTP/1.1 200" in finish(served)
        assert ingress.end()["interrupted"] == 1
        with too_long, contextlib.suppress(ConnectionError):
            assert receive(too_long, b"never") == b""


def test_concurrency_is_averaged_exactly(one: InstanceProcess):
    """The area under it is the time that requests took, wherever the seconds fall; a busy machine makes both longer."""
    with Ingress.start() as ingress:
        ingress.add("a", one)
        began_ns = time.monotonic_ns()
        answers = [ingress.asking("/sleep?ms=1200") for _ in range(4)]
        assert {answer.result().status for answer in answers} == {200}
        took_s = (time.monotonic_ns() - began_ns) / 1e9
        ingress.end()
        area_s = sum(
            stats["concurrency"] * (stats["to_ns"] - stats["from_ns"]) / 1e9
            for stats in ingress.told("stats")
        )
        assert 4 * 1.2 <= area_s <= 4 * took_s
        assert sum(stats["instances"]["a"]["requests"] for stats in ingress.told("stats")) == 4
