"""What was received in a run: held as it came while the load is on, decoded when it is over, within bounds."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from towtank.telemetry.otlp import messages
from towtank.telemetry.otlp.messages import Received
from towtank.telemetry.otlp.options import OtlpOptions


class KeptExports:
    """Exports of one run. Bodies are taken from the threads of the receiver, and decoded by one other.

    Decoding into rows costs some ten µs a span; while the load is on, a body is only parsed and counted.

    Parameters
    ----------
    options : OtlpOptions
    """

    def __init__(self, options: OtlpOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._waiting: list[tuple[bytes, int, int]] = []
        self._bytes = 0
        self.accepted = 0
        self.over = 0
        """Spans beyond a bound."""
        self.malformed = 0
        self.refused: Counter[str] = Counter()
        """Why exports were refused as a whole → how many."""
        self.last_ns = 0
        """When something came last, CLOCK_MONOTONIC."""

    def take(self, message: ExportTraceServiceRequest, body: bytes) -> tuple[int, str]:
        """Keep an export.

        Returns
        -------
        tuple of int and str
            How many of its spans were rejected, and why.
        """
        sound, malformed = messages.count(message)
        with self._lock:
            self.last_ns = time.monotonic_ns()
            room = max(0, self._options.max_spans - self.accepted)
            taken = min(sound, room) if self._bytes + len(body) <= self._options.most_bytes else 0
            self.accepted, self.over = self.accepted + taken, self.over + sound - taken
            self.malformed += malformed
            if taken:
                self._bytes += len(body)
                self._waiting.append((body, taken, self.last_ns))
        why = []
        if sound > taken:
            why.append(
                f"{sound - taken} spans are beyond what one run keeps (max_spans {self._options.max_spans})"
            )
        if malformed:
            why.append(f"{malformed} spans have malformed ids or times")
        return sound - taken + malformed, "; ".join(why)

    def refuse(self, why: str) -> None:
        """Count an export that was refused as a whole."""
        with self._lock:
            self.refused[why] += 1

    def decoded(self) -> Iterator[tuple[int, list[Received]]]:
        """Decode the exports that came since the last call; each with the CLOCK_MONOTONIC at which it came."""
        while True:
            with self._lock:
                if not self._waiting:
                    return
                body, taken, came_ns = self._waiting.pop(0)
            yield came_ns, list(itertools.islice(messages.spans(messages.read_protobuf(body)), taken))
