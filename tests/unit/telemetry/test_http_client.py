"""Servers that telemetry asks and that misbehave: every answer is bounded, in length and in time."""

import json
import time
from pathlib import Path

import pytest

from support.bad_servers import misbehaving
from support.servers import Quiet, on_loopback, serving
from towtank.errors import TelemetryError
from towtank.telemetry.http.client import Server
from towtank.telemetry.http.options import ServerOptions


def asked(url: str, **options: object) -> Server:
    return Server("source", ServerOptions.model_validate({"url": url, **options}), Path())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("stall", "did not answer within 300 ms"),
        ("trickle-head", "did not answer within 300 ms"),
        ("trickle-body", "had not sent its whole answer after 300 ms"),
        ("stall-in-body", "had not sent its whole answer after 300 ms"),
    ],
)
def test_a_whole_answer_is_bounded_in_time(kind, words):
    """Every byte comes within the time that one read may take: 200 of them would take ten seconds."""
    with misbehaving(kind) as url:
        server = asked(url.rstrip("/"), timeout="300ms")
        begun = time.monotonic()
        with pytest.raises(TelemetryError, match=words):
            server.ask("/")
        assert time.monotonic() - begun < 5
        server.close()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("reset", "could not be asked"),
        ("garbage", "broke off its answer"),
        ("short", "broke off its answer"),
        ("endless", "sent an answer longer than 1 MiB"),
    ],
)
def test_an_answer_that_is_none_is_said(kind, words):
    with misbehaving(kind) as url:
        server = asked(url.rstrip("/"), most_bytes="1MiB")
        with pytest.raises(TelemetryError, match=words):
            server.ask("/")
        server.close()


class Slow(Quiet):
    """Answers after as many milliseconds as it is asked for, on a connection that is kept."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        time.sleep(int(self.path.removeprefix("/")) / 1000)
        words = json.dumps(self.client_address[1]).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(words)))
        self.end_headers()
        self.wfile.write(words)


def test_a_question_that_took_too_long_spoils_no_other():
    with serving() as start:
        url = f"http://127.0.0.1:{start(on_loopback(Slow)).server_address[1]}"
        server = asked(url, timeout="1s")
        first, second = server.ask("/0"), server.ask("/0")
        assert first.body == second.body  # the connection was kept
        with pytest.raises(TelemetryError, match="did not answer within 1 s"):
            server.ask("/1500")
        assert server.ask("/0").ok
        server.close()
