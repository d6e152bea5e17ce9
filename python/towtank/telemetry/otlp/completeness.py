"""Whether all spans of a run have come, so that nobody has to wait any longer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from towtank.telemetry.base import Span, TracedRequest


class Completeness:
    """Follows which spans have come.

    All is there when every request has its outermost span, no span's parent is missing, and everyone who ever sent
    something has sent again since the last request was over: exporters send all that they have.

    Parameters
    ----------
    requests : mapping
        Trace id → the request that is to have spans.
    """

    def __init__(self, requests: Mapping[str, TracedRequest]) -> None:
        self._requests = requests
        self._seen: set[tuple[str, str]] = set()
        self._missing: set[tuple[str, str]] = set()
        self._rooted: set[str] = set()
        self._senders: set[tuple[str, str]] = set()
        self._flushed: set[tuple[str, str]] = set()

    def take(self, spans: Iterable[Span], *, over: bool) -> None:
        """Note spans; `over`: they came after the last request was over."""
        for span in spans:
            sender = span.service, span.instance
            self._senders.add(sender)
            if over:
                self._flushed.add(sender)
            request = self._requests.get(span.trace_id)
            if request is None:
                continue
            own, parent = (span.trace_id, span.span_id), (span.trace_id, span.parent_id)
            self._seen.add(own)
            self._missing.discard(own)
            if span.parent_id == request.parent_id:
                self._rooted.add(span.trace_id)
            elif span.parent_id and parent not in self._seen:
                self._missing.add(parent)

    @property
    def reached(self) -> bool:
        """Whether nothing more is to be expected."""
        return (
            len(self._rooted) == len(self._requests) and not self._missing and self._senders == self._flushed
        )
