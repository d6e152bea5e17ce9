"""The requests of a run of which spans are to be expected."""

from __future__ import annotations

from towtank.design.journey_shape import trace_shares
from towtank.design.model import TreatmentSpec
from towtank.store import RunWriter
from towtank.store.run_folder import RunFolder
from towtank.store.traced import traced_requests
from towtank.telemetry.base import TracedRequest


def answered(spec: TreatmentSpec, writer: RunWriter) -> dict[str, TracedRequest]:
    """Trace id → request that carried it and was answered: somebody may have timed what they did for it."""
    shares = trace_shares(spec.driven, spec.generator.traceparent)
    if not shares or not writer.layout.requests.exists():
        return {}
    batches = RunFolder(writer.layout, writer.record).request_batches()
    rows = traced_requests(batches, writer.record.run_id, shares)
    rows = rows.filter(rows["answered"])
    traces, *rest = (rows[name].to_pylist() for name in ("trace_id", "parent_id", "started_us", "ended_us"))
    return dict(zip(traces, map(TracedRequest, *rest), strict=True))
