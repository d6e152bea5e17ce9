"""What OTLP exports are taken, refused and answered with; bounds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from support import otlp
from support.telemetry_servers import free_port
from towtank.errors import TelemetryError
from towtank.telemetry.otlp import messages
from towtank.telemetry.otlp.kept import KeptExports
from towtank.telemetry.otlp.options import OtlpOptions
from towtank.telemetry.otlp.receiver import Receiver

PORT = free_port()


@pytest.fixture
def kept() -> Iterator[KeptExports]:
    options = OtlpOptions(listen=f"127.0.0.1:{PORT}", max_spans=5, most_body=4096)
    kept = KeptExports(options)
    receiver = Receiver(options.address, kept, most_body=options.most_body)
    yield kept
    receiver.close()


def spans_of(kept: KeptExports) -> list[messages.Received]:
    return [received for _, batch in kept.decoded() for received in batch]


def test_protobuf_json_and_gzip_say_the_same(kept: KeptExports) -> None:
    one = otlp.span(7, parent="00f067aa0ba902b7", us=1500)
    body = otlp.as_protobuf(one)
    assert otlp.post(PORT, body) == (200, "application/x-protobuf", b"")
    assert otlp.post(PORT, gzip.compress(body), content_encoding="gzip") == (
        200,
        "application/x-protobuf",
        b"",
    )
    text = json.dumps(otlp.as_json(one))
    assert otlp.post(PORT, text, "application/json; charset=utf-8") == (200, "application/json", b"{}")
    first, second, third = spans_of(kept)
    assert first == second == third
    assert first.start_ns == 10**18
    assert first.span._asdict() == {
        "trace_id": otlp.TRACE, "span_id": "0000000000000007", "parent_id": "00f067aa0ba902b7", "service": "shop",
        "name": "work 7", "kind": "server", "start_us": 0, "duration_us": 1500, "status": "unset", "instance": "",
        "attributes": "{}",
    }  # fmt: skip


def test_a_body_in_chunks_is_read(kept: KeptExports) -> None:
    body = otlp.as_protobuf(otlp.span())
    status, _, _ = otlp.post(PORT, iter([body[:10], body[10:]]))
    assert status == 200
    assert len(spans_of(kept)) == 1


@pytest.mark.parametrize(
    ("status", "body", "kind", "more"),
    [
        (400, b"\xff\xff", "application/x-protobuf", {}),
        (400, b"{", "application/json", {}),
        (400, b"[]", "application/json", {}),
        (400, b"[" * 4000, "application/json", {}),
        (
            400,
            b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}',
            "application/json",
            {},
        ),
        (400, b"no gzip", "application/x-protobuf", {"content_encoding": "gzip"}),
        (
            400,
            gzip.compress(b"cut off", mtime=0)[:-4],
            "application/x-protobuf",
            {"content_encoding": "gzip"},
        ),
        (413, b"x" * 5000, "application/x-protobuf", {}),
        (
            413,
            gzip.compress(b"\0" * 1_000_000, mtime=0),
            "application/x-protobuf",
            {"content_encoding": "gzip"},
        ),
        (413, iter([b"x" * 3000, b"x" * 3000]), "application/x-protobuf", {}),
        (415, b"", "text/plain", {}),
        (415, b"", "application/x-protobuf", {"content_encoding": "zstd"}),
        (404, b"", "application/x-protobuf", {"path": "/v1/metrics"}),
    ],
)
def test_what_is_refused_is_answered_with_a_status_and_counted(kept, status, body, kind, more) -> None:
    answered, answer_kind, answer = otlp.post(PORT, body, kind, **more)
    assert answered == status
    if kind == "application/x-protobuf":
        assert answer_kind == kind
        assert ExportTracePartialSuccess.FromString(answer).error_message, (
            "google.rpc.Status has the same fields"
        )
    else:
        assert json.loads(answer)["message"]
    assert kept.refused.total() == 1
    assert str(status) in next(iter(kept.refused))
    assert otlp.post(PORT, otlp.as_protobuf(otlp.span()))[0] == 200, "it goes on"


def test_spans_beyond_the_bound_are_refused_in_part(kept: KeptExports) -> None:
    assert otlp.post(PORT, otlp.as_protobuf(*map(otlp.span, range(1, 4))))[2] == b""
    _, _, answer = otlp.post(PORT, otlp.as_protobuf(*map(otlp.span, range(4, 8))))
    partial = ExportTraceServiceResponse.FromString(answer).partial_success
    assert partial.rejected_spans == 2
    assert "max_spans 5" in partial.error_message
    _, _, text = otlp.post(PORT, json.dumps(otlp.as_json(otlp.span(9))), "application/json")
    assert json.loads(text)["partialSuccess"]["rejectedSpans"] == "1"
    assert [received.span.span_id[-1] for received in spans_of(kept)] == ["1", "2", "3", "4", "5"]
    assert (kept.accepted, kept.over) == (5, 3)


def test_memory_is_bounded_too() -> None:
    kept = KeptExports(OtlpOptions(most_bytes=1 << 20))
    message = messages.read_protobuf(otlp.as_protobuf(otlp.span()))
    assert kept.take(message, b"x" * (1 << 20)) == (0, "")
    rejected, why = kept.take(message, b"x")
    assert rejected == 1
    assert why
    assert kept.over == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"traceId": "00" * 16},
        {"traceId": "ab"},
        {"spanId": "00" * 8},
        {"parentSpanId": "abcd"},
        {"endTimeUnixNano": "5"},
        {"startTimeUnixNano": "0"},
    ],
)
def test_malformed_spans_are_refused_and_the_others_are_kept(
    kept: KeptExports, wrong: dict[str, str]
) -> None:
    _, _, answer = otlp.post(PORT, otlp.as_protobuf(otlp.span(1), {**otlp.span(2), **wrong}))
    partial = ExportTraceServiceResponse.FromString(answer).partial_success
    assert (partial.rejected_spans, partial.error_message) == (1, "1 spans have malformed ids or times")
    assert [received.span.span_id[-1] for received in spans_of(kept)] == ["1"]
    assert kept.malformed == 1


def test_attributes_are_bounded_and_typed() -> None:
    attributes = [
        {"key": "http.route", "value": {"stringValue": "/buy" * 200}},
        {"key": "n", "value": {"intValue": "7"}},
        {"key": "nan", "value": {"doubleValue": "NaN"}},
        {"key": "list", "value": {"arrayValue": {"values": [{"boolValue": True}, {"bytesValue": "AAA="}]}}},
        {"key": "map", "value": {"kvlistValue": {"values": [{"key": "a", "value": {}}]}}},
        *({"key": f"k{i}", "value": {"stringValue": "x" * 200}} for i in range(20)),
    ]
    more = {"attributes": attributes, "status": {"code": 2}, "somethingNew": 1}
    message = messages.read_json(
        json.dumps(otlp.as_json({**otlp.span(), **more}, host_name="node-1")).encode()
    )
    (received,) = messages.spans(message)
    kept = json.loads(received.span.attributes)
    assert len(received.span.attributes) <= messages.MOST_ATTRIBUTES
    assert len(kept["http.route"]) == 300
    assert (kept["n"], kept["nan"], kept["list"], kept["map"]) == (7, None, [True, "2 bytes"], {"a": None})
    assert (received.span.status, received.span.instance) == ("error", "node-1")


def test_a_port_in_use_is_named(kept: KeptExports) -> None:
    with pytest.raises(
        TelemetryError, match=f"cannot listen at 127.0.0.1:{PORT}: Address already in use"
    ) as error:
        Receiver(("127.0.0.1", PORT), kept, most_body=1)
    assert "another address" in str(error.value.hint)


@pytest.mark.parametrize(
    "wrong", ["4318", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", "a b:1", "::1:4318"]
)
def test_addresses_are_checked(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"is not an address with a port, such as 127.0.0.1:4318"):
        OtlpOptions(listen=wrong)


def test_addresses() -> None:
    assert OtlpOptions().address == ("127.0.0.1", 4318)
    assert OtlpOptions(listen="[::1]:4319").address == ("::1", 4319)
