"""Exports as OpenTelemetry's exporters send them, written by hand."""

from __future__ import annotations

import http.client
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(
    number: int = 1, *, trace: str = TRACE, parent: str = "", start_ns: int = 10**18, us: int = 100
) -> dict[str, Any]:
    """A span in OTLP's JSON; its id is its number."""
    return {
        "traceId": trace, "spanId": f"{number:016x}", "parentSpanId": parent, "name": f"work {number}", "kind": 2,
        "startTimeUnixNano": str(start_ns), "endTimeUnixNano": str(start_ns + us * 1000),
    }  # fmt: skip


def as_json(*spans: dict[str, Any], service: str = "shop", **resource: str) -> dict[str, Any]:
    """An export of one service."""
    known = {"service.name": service, **{key.replace("_", "."): value for key, value in resource.items()}}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in known.items()]
    scopes = [{"scope": {"name": "test"}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": scopes}]}


def as_protobuf(*spans: dict[str, Any], service: str = "shop") -> bytes:
    """The same in protobuf, put together field by field."""
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = service
    scope = resource.scope_spans.add()
    for one in spans:
        scope.spans.add(
            trace_id=bytes.fromhex(one["traceId"]), span_id=bytes.fromhex(one["spanId"]),
            parent_span_id=bytes.fromhex(one["parentSpanId"]), name=one["name"], kind=one["kind"],
            start_time_unix_nano=int(one["startTimeUnixNano"]), end_time_unix_nano=int(one["endTimeUnixNano"]),
        )  # fmt: skip
    return message.SerializeToString()


def post(
    port: int, body: Any, kind: str = "application/x-protobuf", *, path: str = "/v1/traces", **headers: str
) -> tuple[int, str, bytes]:
    """Send an export; status, content type and body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        more = {key.replace("_", "-"): value for key, value in headers.items()}
        connection.request("POST", path, body, {"Content-Type": kind, **more})
        answer = connection.getresponse()
        return answer.status, answer.headers.get("content-type", ""), answer.read()
    finally:
        connection.close()
