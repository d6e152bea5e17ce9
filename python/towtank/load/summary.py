"""What became of an ad-hoc load, in the layout that hey's users know, with hey's mistakes left out.

Failures are stated, never hidden: percentiles rank them above every answer, so one that falls among failures prints
as "more than the timeout". The histogram's counts add up to the answers.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from towtank.units import format_duration

PERCENTILES = (10, 25, 50, 75, 90, 95, 99, 99.9)
BINS = 10
_BAR = 40
_COLUMNS = ["lag_us", "wait_us", "dns_us", "connect_us", "tls_us", "ttfb_us", "after_ttfb_us", "status", "outcome",
            "bytes_in", "scheduled_us"]  # fmt: skip
CSV_HEADER = ("response-time", "DNS+dialup", "DNS", "Request-write", "Response-delay", "Response-read", "status-code",
              "offset", "outcome")  # fmt: skip
"""hey's columns in hey's order, seconds; `Request-write` is not measured apart and stays empty; `outcome` is ours."""

OUTCOME_WORDS = {
    "refused": "connection refused",
    "reset": "connection reset",
    "closed": "connection closed before the answer was complete",
    "unreachable": "host unreachable",
    "dns": "name not found",
    "tls": "TLS failed",
    "truncated": "TLS ended without saying that the answer was complete",
    "protocol": "not HTTP",
    "too_large": "answer larger than allowed",
    "timeout:dns": "timeout while resolving the name",
    "timeout:connect": "timeout while connecting",
    "timeout:first_byte": "timeout waiting for the first byte",
    "timeout:body": "timeout within the answer",
    "not_sent": "never sent (no slot, port or descriptor in time)",
    "capture_missing": "not sent: an earlier answer lacked what it needed",
    "redirect": "redirect not followed (to another host, or too many)",
    "proxy": "refused by the proxy",
    "interrupted": "cut off by the end of the load",
}

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Phase:
    """A phase of a request: mean, fastest, slowest, seconds; None when it never happened."""

    name: str
    mean: float | None
    fastest: float | None
    slowest: float | None


@dataclass(frozen=True)
class Summary:
    """A load in numbers; times in seconds.

    Parameters
    ----------
    elapsed_s : float
        From the start of the load to the last end.
    requests, answered : int
        Rows; complete answers with any status.
    latencies : array
        Of answers, from when each was due, sorted.
    """

    elapsed_s: float
    requests: int
    answered: int
    latencies: FloatArray
    bytes_in: int
    phases: tuple[Phase, ...]
    statuses: Mapping[int, int]
    errors: Mapping[str, int]
    timeout_s: float
    protocol: str = "HTTP"
    """What the target was asked to speak, for the words of answers that were something else."""

    @property
    def failed(self) -> int:
        """Requests without a complete answer."""
        return self.requests - self.answered

    def percentile(self, percent: float) -> float | None:
        """Percentile over all requests, linear interpolation (type 7); None when it falls among failures."""
        if self.requests == 0:
            return None
        position = (self.requests - 1) * percent / 100
        lower, share = int(position), position - int(position)
        if lower + (share > 0) >= self.answered:
            return None
        low = float(self.latencies[lower])
        return low if share == 0 else low + share * (float(self.latencies[lower + 1]) - low)

    def histogram(self) -> list[tuple[float, int]]:
        """Upper bounds of `BINS` equal bins from fastest to slowest, and how many answers lie in each."""
        if self.answered == 0:
            return []
        fastest, slowest = float(self.latencies[0]), float(self.latencies[-1])
        if fastest == slowest:
            return [(slowest, self.answered)]
        counts, edges = np.histogram(self.latencies, bins=BINS, range=(fastest, slowest))
        return [(float(edge), int(count)) for edge, count in zip(edges[1:], counts, strict=True)]


def summarise(requests: Path, *, timeout_s: float, elapsed_s: float, protocol: str = "HTTP") -> Summary:
    """Read a load's records."""
    table = pq.read_table(requests, columns=_COLUMNS)
    ends = np.array(table.column("outcome").cast(pa.string()).to_pylist())
    status = _numbers(table, "status", 0)
    got = (status > 0) & ~np.isin(ends, _INCOMPLETE)
    total = _numbers(table, "ttfb_us", 0) + _numbers(table, "after_ttfb_us", 0)
    latency = (_numbers(table, "lag_us", 0) + _numbers(table, "wait_us", 0) + total) / 1e6
    codes, counts = np.unique(status[got].astype(int), return_counts=True)
    errors = {name: n for name, n in Counter(ends.tolist()).items() if not name.startswith(_COMPLETE)}
    return Summary(
        elapsed_s=elapsed_s,
        requests=table.num_rows,
        answered=int(got.sum()),
        latencies=np.sort(latency[got]),
        bytes_in=int(_numbers(table, "bytes_in", 0).sum()),
        phases=tuple(_phases(table, got)),
        statuses={int(code): int(n) for code, n in zip(codes, counts, strict=True)},
        errors=errors,
        timeout_s=timeout_s,
        protocol=protocol,
    )


def render(summary: Summary) -> str:
    """The summary as text."""
    return "\n".join(
        [*_head(summary), *_histogram(summary), *_percentiles(summary), *_details(summary), *_ends(summary)]
    )


def write_csv(requests: Path, stream: IO[str]) -> None:
    """Write one line a request, hey's columns first."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    with pq.ParquetFile(requests) as file:
        for batch in file.iter_batches(columns=_COLUMNS):
            for row in batch.to_pylist():
                writer.writerow(_csv_row(row))


_INCOMPLETE = ["timeout:body", "reset", "closed", "truncated", "protocol", "too_large", "interrupted"]
"""Outcomes that may carry a status although the answer never became complete."""
_COMPLETE = ("answered", "check:", "capture:")
"""How outcomes begin that are no errors; a redirect that was not followed is an answer, and is said."""


def _csv_row(row: Mapping[str, int | str | None]) -> list[str]:
    def seconds(value: int | None) -> str:
        return "" if value is None else f"{value / 1e6:.4f}"

    def us(name: str) -> int | None:
        value = row[name]
        return None if value is None else int(value)

    dial = sum(us(name) or 0 for name in ("dns_us", "connect_us", "tls_us"))
    ttfb, after = us("ttfb_us"), us("after_ttfb_us")
    sent = after is not None
    total = (us("lag_us") or 0) + (us("wait_us") or 0) + (ttfb or 0) + (after or 0)
    return [
        seconds(total if sent else None),
        seconds(dial if sent else None),
        seconds((us("dns_us") or 0) if sent else None),
        "",
        seconds(None if ttfb is None else ttfb - dial),
        seconds(None if ttfb is None else after),
        str(row["status"] or ""),
        seconds(us("scheduled_us")),
        str(row["outcome"]),
    ]


def _head(summary: Summary) -> Iterator[str]:
    rate = summary.answered / summary.elapsed_s if summary.elapsed_s > 0 else 0.0
    yield ""
    if summary.requests and not summary.answered:
        causes = ", ".join(f"{words} ({count})" for words, count in _causes(summary))
        yield f"Every request failed: {causes}"
        yield ""
    yield "Summary:"
    yield f"  Total:\t{summary.elapsed_s:.4f} secs"
    if summary.answered:
        yield f"  Slowest:\t{summary.latencies[-1]:.4f} secs"
        yield f"  Fastest:\t{summary.latencies[0]:.4f} secs"
        yield f"  Average:\t{summary.latencies.mean():.4f} secs"
    yield f"  Requests/sec:\t{rate:.4f}"
    yield f"  Requests:\t{summary.requests}"
    yield f"  Failed:\t{summary.failed}" + (
        f" ({summary.failed / summary.requests:.2%}), not in the times above" if summary.failed else ""
    )
    yield ""
    yield f"  Received:\t{summary.bytes_in} bytes, head and body"
    if summary.answered:
        yield f"  Per answer:\t{summary.bytes_in // summary.answered} bytes"
    yield ""


def _histogram(summary: Summary) -> Iterator[str]:
    bins = summary.histogram()
    if not bins:
        return
    most = max(count for _, count in bins)
    yield "Response time histogram (answers up to each time):"
    for edge, count in bins:
        yield f"  {edge:.4f} [{count}]\t|{'■' * round(_BAR * count / most)}"
    yield ""


def _percentiles(summary: Summary) -> Iterator[str]:
    if summary.answered == 0:
        return
    failures = ", failures rank last" if summary.failed else ""
    yield f"Latency distribution (all requests{failures}):"
    values = {percent: summary.percentile(percent) for percent in PERCENTILES}
    for percent, value in values.items():
        if value is not None:
            yield f"  {percent:g}% in {value:.4f} secs"
    failed = [f"{percent:g}%" for percent, value in values.items() if value is None]
    if failed:
        yield f"  {', '.join(failed)} failed, > {format_duration(summary.timeout_s)}"
    yield ""


def _details(summary: Summary) -> Iterator[str]:
    yield "Details (average, fastest, slowest; of requests that had this phase):"
    for phase in summary.phases:
        if phase.mean is None:
            yield f"  {phase.name}:\tnone"
        else:
            yield f"  {phase.name}:\t{phase.mean:.4f} secs, {phase.fastest:.4f} secs, {phase.slowest:.4f} secs"
    yield ""


def _ends(summary: Summary) -> Iterator[str]:
    if summary.statuses:
        yield "Status code distribution:"
        for status, count in sorted(summary.statuses.items()):
            yield f"  [{status}]\t{count} responses"
        yield ""
    if summary.errors:
        yield "Error distribution:"
        for words, count in _causes(summary):
            yield f"  [{count}]\t{words}"
        yield ""


def _causes(summary: Summary) -> list[tuple[str, int]]:
    """Outcomes that are no answer, in words, most frequent first."""
    ordered = sorted(summary.errors.items(), key=lambda pair: -pair[1])
    words = {**OUTCOME_WORDS, "protocol": f"not {summary.protocol}"}
    return [(words.get(outcome, outcome), count) for outcome, count in ordered]


def _phases(table: pa.Table, got: npt.NDArray[np.bool_]) -> Iterator[Phase]:
    ttfb = _numbers(table, "ttfb_us", np.nan)
    dns, connect, tls = (_numbers(table, name, np.nan) for name in ("dns_us", "connect_us", "tls_us"))
    dial = np.where(np.isnan(connect), np.nan, np.nan_to_num(dns) + connect + np.nan_to_num(tls))
    yield _phase("DNS+dialup", dial)
    yield _phase("DNS-lookup", dns)
    yield _phase("TLS", tls)
    yield _phase("resp wait", (ttfb - np.nan_to_num(dial))[got])
    yield _phase("resp read", _numbers(table, "after_ttfb_us", np.nan)[got])


def _phase(name: str, microseconds: FloatArray) -> Phase:
    known = microseconds[~np.isnan(microseconds)] / 1e6
    if known.size == 0:
        return Phase(name, None, None, None)
    return Phase(name, float(known.mean()), float(known.min()), float(known.max()))


def _numbers(table: pa.Table, name: str, missing: float) -> FloatArray:
    column = table.column(name).cast(pa.float64()).fill_null(missing)
    return np.asarray(column.to_numpy(), dtype=np.float64)
