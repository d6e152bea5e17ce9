"""The catalogue, over real HTTP against a real server process."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
ITEMS = 50


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("db") / "catalogue.db"
    done = subprocess.run(
        [sys.executable, "-m", "catalogue.seed", "--out", path, "--items", str(ITEMS)],
        cwd=HERE, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"items": ITEMS, "orders": 0}
    assert [p.name for p in path.parent.iterdir()] == ["catalogue.db"], "a plain copy must be complete"
    return path


def start(database, name):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "catalogue", "--port", str(port), "--database", database, "--instance", name],
        cwd=HERE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert f"catalogue {name} on" in process.stdout.readline()
    return process, port


@pytest.fixture(scope="module")
def port(database):
    process, port = start(database, "app-0")
    yield port
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    process.stdout.close()


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers
    finally:
        connection.close()


def test_reads_and_names_its_instance(port):
    status, item, headers = ask(port, "GET", "/items/7")
    assert status == 200
    assert item["id"] == 7
    assert headers["X-Instance"] == "app-0"
    status, page, _ = ask(port, "GET", "/items?offset=10&limit=5")
    assert [i["id"] for i in page] == [11, 12, 13, 14, 15]


def test_an_order_takes_stock(port):
    before = ask(port, "GET", "/items/3")[1]["stock"]
    status, order, _ = ask(port, "POST", "/orders", json.dumps({"item": 3, "quantity": 2}))
    assert status == 201
    assert order["order"] >= 1
    assert ask(port, "GET", "/items/3")[1]["stock"] == max(0, before - 2)


def test_recommends_the_most_similar_first(port):
    status, similar, _ = ask(port, "GET", "/recommend/5")
    scores = [s["similarity"] for s in similar]
    assert status == 200
    assert len(similar) == 5
    assert scores == sorted(scores, reverse=True)
    assert all(s["id"] != 5 for s in similar)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/items/999999", None, 404),
        ("GET", "/items/abc", None, 404),
        ("GET", "/items?limit=0", None, 400),
        ("GET", "/items?limit=1000", None, 400),
        ("GET", "/nothing", None, 404),
        ("GET", "/recommend/999999", None, 404),
        ("POST", "/orders", "not json", 400),
        ("POST", "/orders", '{"item": 1, "quantity": 0}', 400),
        ("POST", "/orders", '{"item": 999999}', 404),
        ("POST", "/orders", "[]", 400),
    ],
)
def test_refuses_with_a_reason(port, method, path, body, status):
    got, answer, _ = ask(port, method, path, body)
    assert got == status
    assert answer["error"]


def test_a_body_that_is_too_large_is_refused(port):
    assert ask(port, "POST", "/orders", b"x" * 100_000)[0] == 413


def test_two_processes_share_a_database(database, port):
    second, other = start(database, "app-1")
    try:
        before = ask(port, "GET", "/health")[1]["orders"]
        with ThreadPoolExecutor(8) as pool:
            statuses = list(
                pool.map(lambda n: ask((port, other)[n % 2], "POST", "/orders", '{"item": 1}')[0], range(40))
            )
        assert statuses == [201] * 40
        assert ask(other, "GET", "/health")[1]["orders"] == before + 40
    finally:
        second.terminate()
        second.wait(10)
        second.stdout.close()


def test_a_missing_database_is_said(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "catalogue", "--port", "1", "--database", tmp_path / "no.db"],
        cwd=HERE, capture_output=True, text=True, timeout=20, check=False, env={**os.environ},
    )  # fmt: skip
    assert done.returncode == 1
    assert "python -m catalogue.seed" in done.stderr


def test_keep_alive_is_quick(port):
    """Headers and body leave in one packet: 20 requests on one connection take far less than 20 delayed ACKs.

    Delayed ACKs would be there in every round; what else the machine does is not.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    rounds = []
    for _ in range(5):
        began = time.monotonic()
        for _ in range(20):
            connection.request("GET", "/items/1")
            connection.getresponse().read()
        rounds.append(time.monotonic() - began)
    assert min(rounds) < 20 * 0.04
    connection.close()
