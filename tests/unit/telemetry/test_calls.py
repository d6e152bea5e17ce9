"""The source `calls`: what came since the last reading, by edge, of all instances together."""

from __future__ import annotations

import pytest

from support import servers
from support.fake_page import fake_page
from towtank.clock import RunClock
from towtank.errors import TelemetryError
from towtank.platforms.base import Instance
from towtank.telemetry.base import ObserveContext
from towtank.telemetry.calls import CallsSource

OPTIONS = {
    "calls": "shop_calls_total", "seconds": "shop_seconds_total", "errors": "shop_errors_total",
    "bytes": ["shop_sent_total", "shop_received_total"],
}  # fmt: skip


def line(name, value, where="remote", to="cart"):
    return f'shop_{name}_total{{from="front",to="{to}",where="{where}"}} {value}'


@pytest.fixture
def shop():
    """A source that watches two instances, and the servers of their pages."""
    with servers.serving() as start:
        pages = [fake_page(start, [line("calls", 10), line("calls", 4, "local", "ads")]) for _ in range(2)]
        source = CallsSource()
        instances = [Instance(f"front-{n}", url, pid=1) for n, (url, _) in enumerate(pages)]
        source.start(ObserveContext(RunClock(0), 1.0, instances, (), OPTIONS))
        yield source, [server for _, server in pages]
        source.close()


def read(source):
    return {(s.instance, s.metric): s.value for s in source.sample(0)}


def test_what_was_before_the_first_reading_does_not_count(shop):
    source, _ = shop
    assert read(source) == {("front>cart", "remote_calls"): 0, ("front>ads", "local_calls"): 0}


def test_instances_and_counters_of_bytes_are_added_up(shop):
    source, (one, other) = shop
    one.lines = [
        line("calls", 13),
        line("calls", 9, "local", "ads"),
        line("seconds", 0.25),
        line("errors", 1),
    ]
    other.lines = [
        line("calls", 17),
        line("sent", 100),
        line("received", 50),
        line("calls", 4, "local", "ads"),
    ]
    assert read(source) == {
        ("front>cart", "remote_calls"): 3 + 7,
        ("front>ads", "local_calls"): 5,
        ("front>cart", "remote_calls_s"): 0.25,
        ("front>cart", "remote_calls_failed"): 1,
        ("front>cart", "remote_calls_bytes"): 150,
    }
    assert not any(read(source).values()), "nothing came since"


def test_a_counter_that_began_anew_counts_from_nothing(shop):
    source, (one, _) = shop
    one.lines = [line("calls", 2)]
    assert read(source)["front>cart", "remote_calls"] == 2


def test_other_lines_and_lines_without_an_edge_are_passed_over(shop):
    source, (one, _) = shop
    one.lines += [
        "shop_calls_total 99",
        "shop_calls_total_more 7",
        "go_threads 3",
        "# HELP shop_calls_total x",
        "{",
    ]
    assert set(read(source)) == {("front>cart", "remote_calls"), ("front>ads", "local_calls")}


def test_what_is_not_read_once_comes_with_the_next_reading(shop):
    source, (one, _) = shop
    one.lines, one.status = [line("calls", 15)], 503
    assert read(source)["front>cart", "remote_calls"] == 0
    read(source)
    (event,) = source.events()
    assert (event.kind, event.instance) == ("unread", "front-0")
    assert "front-0 shows /metrics with status 503" in event.message
    one.status = 200
    assert read(source)["front>cart", "remote_calls"] == 5


def test_an_instance_that_is_not_here_is_named():
    source = CallsSource()
    source.start(ObserveContext(RunClock(0), 1.0, [Instance("far", "http://192.0.2.1")], (), OPTIONS))
    (event,) = source.events()
    assert (event.kind, event.instance) == ("not_observable", "far")


def test_the_counter_of_calls_is_needed():
    with pytest.raises(TelemetryError, match="options of telemetry source 'calls' are wrong: calls"):
        CallsSource().start(ObserveContext(RunClock(0), 1.0, []))


def test_without_a_label_for_the_place_every_call_is_remote():
    with servers.serving() as start:
        url, _ = fake_page(start, ['shop_calls_total{src="a",dst="b"} 1'])
        options = {"calls": "shop_calls_total", "caller": "src", "callee": "dst", "place": None}
        source = CallsSource()
        source.start(ObserveContext(RunClock(0), 1.0, [Instance("a-0", url, pid=1)], (), options))
        assert read(source) == {("a>b", "remote_calls"): 0}
        source.close()
