"""What has to be known of received spans before they are believed: what was refused, what never came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from towtank.telemetry.base import TracedRequest
from towtank.telemetry.otlp.clocks import Sender, SenderClock
from towtank.telemetry.otlp.kept import KeptExports
from towtank.telemetry.otlp.options import OtlpOptions

LISTED = 5


class Said(NamedTuple):
    """A finding: its name, what was found, what to do."""

    kind: str
    message: str
    advice: str


def findings(
    kept: KeptExports, options: OtlpOptions, requests: Mapping[str, TracedRequest] | None, spans: int
) -> Iterator[Said]:
    """What was refused and what is missing.

    Parameters
    ----------
    kept : KeptExports
    options : OtlpOptions
    requests : mapping or None
        Those that carried a trace id; None when no load was carried out.
    spans : int
        How many were kept.
    """
    if kept.over:
        yield Said(
            "spans_over_bound",
            f"{kept.over} spans were refused: {kept.accepted} were kept (max_spans {options.max_spans}, most_bytes "
            f"{options.most_bytes})",
            "Trace fewer requests (generator.traceparent), set OTEL_TRACES_SAMPLER=parentbased_always_off so that "
            "nothing else is traced, or raise max_spans.",
        )
    if kept.refused or kept.malformed:
        why = [f"{number} × {reason}" for reason, number in kept.refused.most_common(LISTED)]
        why += [f"{kept.malformed} spans with malformed ids or times"] if kept.malformed else []
        yield Said(
            "exports_refused",
            f"exports were refused: {'; '.join(why)}",
            "Send OTLP over HTTP (OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf), traces only, with bodies under "
            "most_body.",
        )
    if requests is None:
        return
    if not requests:
        yield Said(
            "no_traced_requests",
            "no request that was answered carried a trace id, so that no span can be joined to one",
            "Say which share of requests is to be traced: `generator: {traceparent: 5%}`, or `traceparent` of a step.",
        )
    elif not spans:
        yield Said(
            "no_spans",
            f"{len(requests)} requests carried a trace id, and no span came",
            f"For the application, set OTEL_EXPORTER_OTLP_ENDPOINT=http://{options.listen} and "
            "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, and let it honour `traceparent`; exporters that send less "
            f"often than every {options.linger:g} s need a longer `linger`.",
        )


def clock_finding(clocks: Mapping[Sender, SenderClock]) -> Said | None:
    """Whose clock is certainly not this machine's."""
    others = {sender: known for sender, known in sorted(clocks.items()) if known.differs}
    if not others:
        return None
    names = ", ".join(" ".join(sender).strip() for sender in list(others)[:LISTED])
    worst_ms = max(known.bounds.uncertainty_ns for known in others.values()) / 1e6
    return Said(
        "clock_differs",
        f"the clock of {names} is not this machine's: times of its spans were corrected, and are right to "
        f"± {worst_ms:.3g} ms",
        "Self times do not depend on it; do not compare when its spans began with other times more finely.",
    )
