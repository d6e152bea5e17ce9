"""Bodies of OTLP exports: read from protobuf or JSON, counted when they come, and turned into spans afterwards."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from towtank.telemetry.base import Span

MOST_ATTRIBUTES = 2000
"""Characters of a span's attributes that are kept."""
LONGEST_VALUE = 300
LONGEST_NAME = 200
_INSTANCE = ("k8s.pod.name", "service.instance.id", "host.name", "container.id")
"""Attributes of a resource that say who sent a span, the most telling first."""
_IDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")


class Undecodable(ValueError):  # noqa: N818 - not an error of this program
    """A body that is not what its content type says."""


class Received(NamedTuple):
    """A span as its sender timed it: `start_ns` is the sender's Unix time."""

    start_ns: int
    span: Span
    """With `start_us` 0."""


def read_protobuf(body: bytes) -> ExportTraceServiceRequest:
    """Read a body of application/x-protobuf.

    Raises
    ------
    Undecodable
    """
    message = ExportTraceServiceRequest()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise Undecodable(f"not an ExportTraceServiceRequest in protobuf: {error}") from error
    return message


def read_json(body: bytes) -> ExportTraceServiceRequest:
    """Read a body of application/json: as protobuf's JSON, but ids are hexadecimal and unknown names are ignored.

    Raises
    ------
    Undecodable
    """
    message = ExportTraceServiceRequest()
    try:
        content = json.loads(body)
        if not isinstance(content, dict):
            raise Undecodable("not an ExportTraceServiceRequest in JSON: it is no object")
        json_format.ParseDict(_with_base64_ids(content), message, ignore_unknown_fields=True)
    except (ValueError, AttributeError, TypeError, RecursionError, json_format.ParseError) as error:
        raise Undecodable(f"not an ExportTraceServiceRequest in JSON: {error}") from error
    return message


def _with_base64_ids(found: Any) -> Any:  # noqa: ANN401 - JSON in, JSON out
    """OTLP writes ids in hexadecimal where protobuf's JSON has base64."""
    if isinstance(found, list):
        return [_with_base64_ids(item) for item in found]
    if not isinstance(found, dict):
        return found
    return {
        key: base64.b64encode(bytes.fromhex(value)).decode()
        if key in _IDS and isinstance(value, str)
        else _with_base64_ids(value)
        for key, value in found.items()
    }


def is_sound(span: WireSpan) -> bool:
    """Whether a span has ids of the right length that are not zero, and does not end before it starts."""
    return (
        len(span.trace_id) == 16
        and len(span.span_id) == 8
        and len(span.parent_span_id) in (0, 8)
        and any(span.trace_id)
        and any(span.span_id)
        and 0 < span.start_time_unix_nano <= span.end_time_unix_nano
    )


def count(message: ExportTraceServiceRequest) -> tuple[int, int]:
    """Sound and malformed spans of a message."""
    sound = malformed = 0
    for resource in message.resource_spans:
        for scope in resource.scope_spans:
            good = sum(map(is_sound, scope.spans))
            sound, malformed = sound + good, malformed + len(scope.spans) - good
    return sound, malformed


def spans(message: ExportTraceServiceRequest) -> Iterator[Received]:
    """Sound spans of a message, with who sent them."""
    for resource in message.resource_spans:
        known = {item.key: item.value.string_value for item in resource.resource.attributes}
        service = (known.get("service.name") or "unknown_service")[:LONGEST_NAME]
        instance = next((known[key] for key in _INSTANCE if known.get(key)), "")[:LONGEST_NAME]
        for scope in resource.scope_spans:
            for span in scope.spans:
                if is_sound(span):
                    yield _received(span, service, instance)


def _received(span: WireSpan, service: str, instance: str) -> Received:
    return Received(
        span.start_time_unix_nano,
        Span(
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex() if any(span.parent_span_id) else "",
            service,
            (span.name or "unnamed")[:LONGEST_NAME],
            _word(WireSpan.SpanKind, span.kind, "SPAN_KIND_", "unspecified"),
            0,
            round((span.end_time_unix_nano - span.start_time_unix_nano) / 1000),
            _word(Status.StatusCode, span.status.code, "STATUS_CODE_", "unset"),
            instance,
            _attributes(span),
        ),
    )


def _word(words: Any, number: int, prefix: str, otherwise: str) -> str:  # noqa: ANN401 - protobuf's own
    """Name of an enumeration's value; one of a newer version is what this one does not know."""
    name = words.Name(number) if number in words.values() else otherwise
    return str(name).removeprefix(prefix).lower()


def _attributes(span: WireSpan) -> str:
    """Attributes in their order, as many as there is room for."""
    kept: dict[str, Any] = {}
    room = MOST_ATTRIBUTES
    for item in span.attributes:
        value = _plain(item.value)
        room -= len(item.key) + len(json.dumps(value)) + 6
        if room < 0:
            break
        kept[item.key] = value
    return json.dumps(kept, ensure_ascii=False) if kept else "{}"


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value that an attribute can have
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "string_value":
        return value.string_value[:LONGEST_VALUE]
    if kind == "bytes_value":
        return f"{len(value.bytes_value)} bytes"
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values[:20]]
    if kind == "kvlist_value":
        return {item.key: _plain(item.value) for item in value.kvlist_value.values[:20]}
    found: bool | int | float | str | None = getattr(value, kind, None)
    return found if not isinstance(found, float) or math.isfinite(found) else None  # JSON has no others
